"""Non-negative least squares of what was measured, on the terms of the model, in relative errors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import nnls

from consilium.coordinator.planning.cost.load import Load
from consilium.coordinator.planning.cost.terms import Term


def constants_of(terms: Sequence[Term], loads: Sequence[Load], measured: Sequence[float]) -> list[float]:
    """One constant for each term, none below 0, to three digits."""
    design = np.array([[term.of(load) for term in terms] for load in loads]) / np.array(measured)[:, None]
    scale = design.max(axis=0)
    found, _ = nnls(design / scale, np.ones(len(loads)))
    return [float(f"{each:.3g}") for each in found / scale]
