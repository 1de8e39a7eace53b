"""Faults of a table as errors that hold their cure, keys to paste: a reader notes all of them before it raises any."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from consilium.protocol.errors import DataError

SHOWN = 3
"""Values that a fault quotes."""


class TableFault(DataError):
    """One fault. column: where it is, or none of the whole table. keys: of `[data]`, and as far as they are there of
    `Council`, that cure it; none where the file must be mended."""

    def __init__(self, what: str, action: str = "", column: str = "", keys: Mapping[str, Any] | None = None) -> None:
        self.column, self.keys = column, dict(keys or {})
        super().__init__(what, action)


class TableFaults(DataError):
    """Several, at once. faults: each by itself."""

    def __init__(self, what: str, action: str, faults: Sequence[DataError]) -> None:
        super().__init__(what, action)
        self.faults = tuple(faults)


class Faults(list[DataError]):
    """What a reader has noted. doubts: what it reads, and mostly is not what was meant."""

    def __init__(self, faults: Iterable[DataError] = ()) -> None:
        super().__init__(faults)
        self.doubts: list[TableFault] = []

    @contextmanager
    def noting(self) -> Iterator[None]:
        try:
            yield
        except TableFaults as error:
            self += error.faults
        except DataError as error:
            self.append(error)

    def error(self, where: str, cure: bool = False, python: bool = False, more: str = "") -> DataError:
        """All of them as one. where: the table's name. cure: whether keys are said, as arguments for `python`, else in
        TOML. more: what to do besides."""
        faults = list({str(fault): fault for fault in self}.values())
        if len(faults) == 1:
            return faults[0]
        said = "".join(f"\n- {fault}" for fault in faults)
        keys = pasted(cured({}, faults), python) if cure else ""
        paste = f"Or {'give Council these' if python else 'put these below [data]'}:\n{keys}" if keys else ""
        actions = "\n".join(["", *filter(None, (paste, more))])
        return TableFaults(f"{where}: {len(faults)} faults must be mended{said}", actions, faults)

    def check(self, where: str) -> None:
        if self:
            raise self.error(where)


def cured(keys: Mapping[str, Any], faults: Iterable[DataError]) -> dict[str, Any]:
    """Keys of `[data]` with those that cure faults."""
    whole = _merged(keys, *(fault.keys for fault in faults if isinstance(fault, TableFault)))
    for table in ("cells", "columns"):
        if kept := {name: rule for name, rule in whole.get(table, {}).items() if name not in whole.get("drop", ())}:
            whole[table] = kept
        else:
            whole.pop(table, None)
    for rule in whole.get("cells", {}).values():
        if "missing_codes" in rule:  # they stand in place of those of all columns
            rule["missing_codes"] = list(dict.fromkeys([*whole.get("missing", ()), *rule["missing_codes"]]))
    return whole


def _merged(*tables: Mapping[str, Any]) -> dict[str, Any]:
    whole: dict[str, Any] = {}
    for table in tables:
        for key, value in table.items():
            if isinstance(value, Mapping):
                value = _merged(whole.get(key, {}), value)
            elif isinstance(value, list):
                value = list(dict.fromkeys([*whole.get(key, ()), *value]))
            whole[key] = value
    return whole


def pasted(keys: Mapping[str, Any], python: bool = False) -> str:
    """Keys as text: below `[data]` of a scenario, or as arguments of `Council`, which has no key to drop a column."""
    if python:
        arguments = [f"{key}={keys[key]!r}," for key in ("missing", "cells", "columns") if key in keys]
        return "\n".join([*arguments, *(f"# without column {name!r}" for name in keys.get("drop", ()))])
    tables = [key for key in ("cells", "columns") if key in keys]
    plain = [f"{key} = {in_toml(value)}" for key, value in keys.items() if key not in tables]
    dotted = [f"{key}.{_toml_key(name)} = {in_toml(rule)}" for key in tables for name, rule in keys[key].items()]
    return "\n".join([*plain, *dotted])


def in_toml(value: Any) -> str:
    """A value of TOML in one line.

    >>> in_toml({"> 89": 89.0, "values": {"M": "male"}})
    '{ "> 89" = 89.0, values = { M = "male" } }'
    """
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{_toml_key(key)} = {in_toml(item)}' for key, item in value.items())} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(in_toml, value))}]"
    return json.dumps(value, ensure_ascii=False)


def _toml_key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else json.dumps(key, ensure_ascii=False)


def quoted(values: Iterable[str], most: int = SHOWN) -> str:
    """The first few.

    >>> quoted(["a", "b", "c", "d", "e"])
    "'a', 'b', 'c' and 2 more"
    """
    some = [f"{value[:40]!r}" for value in values]
    return ", ".join(some[:most]) + (f" and {len(some) - most} more" if len(some) > most else "")
