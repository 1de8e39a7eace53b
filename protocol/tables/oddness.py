"""Values that are hardly in the schema's unit: far from the public rows, one by one or on average."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

FAR = 10.0
"""Public standard deviations from the public mean, beyond which a single value is odd."""
SHIFTED = 3.0
"""Public standard deviations between the means, beyond which a whole column is odd."""
LEAST_FOR_A_MEAN = 20


@dataclass(frozen=True)
class Oddness:
    """`far` bool (n,): which values are. `shift`: of the mean, in public standard deviations; 0 of too few values."""

    far: np.ndarray = field(repr=False)
    shift: float = field(repr=False)


def compared(values: np.ndarray, center: float, scale: float) -> Oddness:
    """Values float64 (n,), all there, beside a public mean and standard deviation.

    0 and 1 are never far: they may be a rare category, as a column of its own.

    >>> compared(np.array([1.1, 88.0]), 1.0, 0.2).far.tolist()
    [False, True]
    """
    with np.errstate(over="ignore"):
        far = (np.abs(values - center) > FAR * scale) & (values != 0) & (values != 1)
        enough = len(values) >= LEAST_FOR_A_MEAN
        return Oddness(far, abs(float(values.mean()) - center) / scale if enough else 0.0)
