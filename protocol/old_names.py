"""Names in files of version 0.9 and before: what they gave to an epsilon, and keys that are none any more.

`epsilon_worst_case` stood for two numbers: in a student's card for the guarantee, in every other file for what was
spent at the released counts, which is secret. So the file decides what an old name meant.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ModelWrapValidatorHandler, PrivateAttr, model_validator

from consilium.protocol.strict_json import INFINITE

log = logging.getLogger("consilium.old_names")

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


class Outgrown(BaseModel):
    """Base of what had keys in 0.9 that do nothing now: they are read with a note.

    HASHED: those of them of which hashes were taken; `outgrown` has what stood there, to be written again.
    """

    GONE: ClassVar[frozenset[str]] = frozenset()
    HASHED: ClassVar[frozenset[str]] = frozenset()
    _outgrown: dict[str, Any] = PrivateAttr(default_factory=dict)

    @model_validator(mode="wrap")
    @classmethod
    def _without_old_keys(cls, table: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        if not isinstance(table, Mapping) or not (old := table.keys() & cls.GONE):
            return handler(table)
        _note(cls.__name__, ", ".join(sorted(old)))
        model = handler({key: value for key, value in table.items() if key not in old})
        model._outgrown = {key: table[key] for key in old & cls.HASHED}
        return model

    @property
    def outgrown(self) -> Mapping[str, Any]:
        """Old keys of which hashes were taken, as they were read."""
        return self._outgrown


@cache
def _note(model: str, keys: str) -> None:
    """Once in a process."""
    log.warning("%s: %s of version 0.9 do nothing any more: exact sums keep fixed blocks of parties", model, keys)
