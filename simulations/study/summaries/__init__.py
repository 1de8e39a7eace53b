"""Results of a study in few numbers: means over seeds, paired differences, what parties gain, and findings."""

from __future__ import annotations

from consilium.simulations.study.summaries.differences import paired
from consilium.simulations.study.summaries.seeds import over_seeds
from consilium.simulations.study.summaries.sentences import findings

__all__ = ["findings", "over_seeds", "paired"]
