"""Names that files of version 0.9 and before gave to an epsilon, and what they are called now.

`epsilon_worst_case` stood for two numbers: in a student's card for the guarantee, in every other file for what was
spent at the released counts, which is secret. So the file decides what an old name meant.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from consilium.protocol.strict_json import INFINITE

OF_SPENT: Mapping[str, str] = {"worst_case": "spent", "epsilon_worst_case": "epsilon_spent"}
"""In coordinator.json, summary.json, the report's data, metrics.parquet, and results.parquet of a study."""
OF_CARD: Mapping[str, str] = {"epsilon_worst_case": "epsilon"}
"""In student.json."""


def renamed(table: Any, names: Mapping[str, str]) -> Any:
    """A table of strict JSON with today's names; what is no table as it is, since a reader refuses it in its own words.

    A table that has both names of one number keeps both, so that its reader finds one too many.

    >>> renamed({"epsilon_worst_case": None, "delta": 1e-05, "infinite": ["epsilon_worst_case"]}, OF_CARD)
    {'epsilon': None, 'delta': 1e-05, 'infinite': ['epsilon']}
    """
    if not isinstance(table, Mapping):
        return table
    now = {old: new for old, new in names.items() if old in table and new not in table}
    infinite = table.get(INFINITE)
    return {
        now.get(key, key): [now.get(name, name) for name in infinite]
        if key == INFINITE and isinstance(infinite, list) and all(isinstance(name, str) for name in infinite)
        else value
        for key, value in table.items()
    }
