"""Results of a study in few numbers: means over seeds, paired differences, what parties gain, and findings."""

from __future__ import annotations

from consilium.simulations.study.summaries.findings import findings
from consilium.simulations.study.summaries.paired import paired
from consilium.simulations.study.summaries.seeds import over_seeds

__all__ = ["findings", "over_seeds", "paired"]
