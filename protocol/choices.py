"""Plaintext votes on the wire: the classes that a party's teachers chose, as indices in the smallest integer type. One
row for each query, with one index for each teacher, in ascending order: it tells which classes got how many votes, as a
matrix of counts would, and not which teacher gave which. There is no value for no vote: every teacher has one."""

from __future__ import annotations

import numpy as np


def choice_dtype(classes: int) -> np.dtype:
    """The one type that choices among so many classes travel in.

    >>> choice_dtype(256).name, choice_dtype(257).name
    ('uint8', 'uint16')
    """
    return np.dtype("<u1") if classes <= 256 else np.dtype("<u2")


def packed(chosen: np.ndarray, classes: int) -> np.ndarray:
    """What each teacher chosen, int (teachers, queries), as it travels: `choice_dtype` (queries, teachers)."""
    return np.ascontiguousarray(np.sort(chosen, axis=0).T.astype(choice_dtype(classes)))


def fault(choices: np.ndarray, queries: int, classes: int, teachers: int) -> str | None:
    """What is wrong with one party's choices, in words without its numbers, or None. One type only is taken, and one
    order: what a party says has one form. A narrower type could have wrapped around, a signed or float one can hold
    what no choice can be."""
    if choices.dtype != choice_dtype(classes):
        return f"votes are {choices.dtype}, must be {choice_dtype(classes).name}"
    if choices.shape != (queries, teachers):
        return f"votes have shape {choices.shape[:3]}, must be {(queries, teachers)}"
    if choices.max(initial=0) >= classes:
        return f"a vote is for no class: there are {classes}"
    if (choices[:, 1:] < choices[:, :-1]).any():
        return "votes of a query are not in ascending order"
    return None


def add_choices(total: np.ndarray, choices: np.ndarray) -> None:
    """Add votes without `fault` to `total`, int64 (queries, classes) in C order."""
    cells, rows = total.reshape(-1), np.arange(len(total)) * total.shape[1]
    for chosen in choices.T:  # of one teacher: no cell twice
        cells[rows + chosen] += 1


def counted(choices: np.ndarray, classes: int) -> np.ndarray:
    """The same votes as counts, int64 (queries, classes).

    >>> counted(np.array([[0, 2], [1, 1]]), 3).tolist()
    [[1, 0, 1], [0, 2, 0]]
    """
    total = np.zeros((len(choices), classes), dtype=np.int64)
    add_choices(total, choices)
    return total
