"""How unequal sizes and gains are: Gini's index, effective number."""

from __future__ import annotations

import numpy as np


def effective_number(sizes: np.ndarray) -> float:
    """Inverse Simpson index 1 / sum share^2 of sizes (parties,): so many equal parties would be as concentrated.

    >>> effective_number(np.array([5, 5, 5])), effective_number(np.array([10, 0, 0]))
    (3.0, 1.0)
    """
    return float(sizes.sum() ** 2 / (sizes.astype(np.float64) ** 2).sum())


def gini(values: np.ndarray) -> float:
    """Gini's index of float (n,), negative values among them; n at least 2, 0 where all are 0.

    sum_ij |v_i - v_j| / (2 (n - 1) sum |v|), as Raffinetti, Siletti, Vernizzi (2015, Statistical Methods and
    Applications 24) normalise it: 0 where all are equal, 1 where one has all (or one all gains and another all losses).
    Of values that are not negative it is the common index times n / (n - 1).

    >>> gini(np.array([1.0, 1.0])), gini(np.array([0.0, 4.0])), gini(np.array([-2.0, 0.0, 2.0]))
    (0.0, 1.0, 1.0)
    """
    ordered, count = np.sort(values.astype(np.float64)), len(values)
    total = np.abs(ordered).sum()
    if total == 0:
        return 0.0
    differences = 2 * ((2 * np.arange(count) - count + 1) * ordered).sum()
    return float(differences / (2 * (count - 1) * total))


def quarters(values: np.ndarray, parts: int = 4) -> list[np.ndarray]:
    """Positions int64 of parties in groups of equally many (sizes differ by at most 1), from the least value up; fewer
    groups where there are fewer parties. Equal values stand in the order of the parties.
    """
    return [part for part in np.array_split(np.argsort(values, kind="stable"), parts) if len(part)]
