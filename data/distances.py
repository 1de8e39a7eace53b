"""How far rows are from one another: rows too alike for two queries."""

from __future__ import annotations

import numpy as np

BLOCK = 1024
"""Rows that are compared at a time with all others: 8 kB of distances for each of these."""


def near_pairs(rows: np.ndarray, others: np.ndarray, least: float) -> np.ndarray:
    """bool (rows,): which rows are closer than `least` to one of `others`, and different from it.

    rows, others : float64 (n, features) and (m, features), standardised. Distances are Euclidean; equal rows are one
    query and do not count. Rounding: relative 1e-9 of the rows' own length, towards near.
    """
    near = np.zeros(len(rows), dtype=bool)
    if least <= 0 or not len(others):
        return near
    margin = 1 - 1e-9
    half, other_half = ((margin * (x**2).sum(axis=1) - least**2 / 2) / 2 for x in (rows, others))
    # x.y above half of both squares less least^2 / 2: one product of matrices says which, with half the squares in it
    left = np.column_stack([rows, half, np.ones(len(rows))])
    right = np.column_stack([others, -np.ones(len(others)), -other_half]).T
    for start in range(0, len(rows), BLOCK):
        for row, other in np.argwhere(left[start : start + BLOCK] @ right > 0):
            difference = rows[start + row] - others[other]
            near[start + row] |= 0 < float(np.sqrt((difference**2).sum())) < least
    return near


def thin(rows: np.ndarray, least: float) -> np.ndarray:
    """Places, int64, of the rows that stay when each that is closer than `least` to an earlier one that stays is left
    out. Equal rows stay: they are one query. `rows` float64 (n, features), standardised."""
    if least <= 0:
        return np.arange(len(rows))
    suspects = near_pairs(rows, rows, least)
    stay = [row for row in range(len(rows)) if not suspects[row]]
    chosen: list[int] = []
    for row in np.flatnonzero(suspects).tolist():  # only suspects can be near to one another
        if not near_pairs(rows[row : row + 1], rows[chosen], least).any():
            chosen.append(row)
    return np.array(sorted([*stay, *chosen]), dtype=np.int64)
