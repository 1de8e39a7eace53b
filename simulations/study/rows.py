"""Results as rows of one tidy table: one row for each metric."""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    """One figure of one cell.

    method: the method that it is of; "division" for measures of the division alone, "teachers" for those of the
    teachers and their votes without noise. scope: "run", "class", "party" or "group"; name: which of them ("" for
    "run"). metric: such as "auc", "hellinger"; value; low and high: its interval within the cell, None where it has
    none. Intervals over seeds are the report's.
    """

    method: str
    scope: str
    name: str
    metric: str
    value: float
    low: float | None = None
    high: float | None = None
