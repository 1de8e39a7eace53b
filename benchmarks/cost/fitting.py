"""Non-negative least squares of what was measured, on the terms of the model, in relative errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.optimize import nnls

from benchmarks.cost.model import Load, Term


def constants_of(
    terms: Sequence[Term], loads: Sequence[Load], measured: Sequence[float], known: Mapping[Term, float] | None = None
) -> list[float]:
    """One constant for each term, none below 0, to three digits. known: of terms that were measured by themselves."""
    fixed = known or {}
    design = np.array([[term.of(load) for term in terms] for load in loads]) / np.array(measured)[:, None]
    given = np.array([fixed.get(term, 0.0) for term in terms])
    free = np.array([term not in fixed for term in terms])
    scale = design.max(axis=0)
    found, _ = nnls(design[:, free] / scale[free], 1 - design @ given)
    given[free] = found / scale[free]
    return [float(f"{each:.3g}") for each in given]
