"""How far rows are from one another: rows too alike for two queries."""

from __future__ import annotations

import numpy as np

BLOCK = 1024
"""Rows that are compared at a time with all others: 8 kB of distances for each of these."""


def thin(rows: np.ndarray, least: float) -> np.ndarray:
    """Places, int64, of the rows that stay when each that is closer than `least` to an earlier one that stays is left
    out. Equal rows stay: they are one query. `rows` float64 (n, features), standardised; distances are Euclidean."""
    if least <= 0:
        return np.arange(len(rows))
    gone = np.zeros(len(rows), dtype=bool)
    # x.y above half of both squares less least^2 / 2; rounding, relative 1e-9 of the rows' own length, towards near
    half = ((1 - 1e-9) * (rows**2).sum(axis=1) - least**2 / 2) / 2
    for start in range(0, len(rows), BLOCK):
        part = slice(start, start + BLOCK)
        for row, other in np.argwhere(rows[part] @ rows.T > half[part, None] + half):
            row += start
            if other < row and not gone[other] and not gone[row]:
                gone[row] = 0 < float(np.sqrt(((rows[row] - rows[other]) ** 2).sum())) < least
    return np.flatnonzero(~gone)
