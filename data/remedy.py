"""What a check of a table found, and what would mend it: keys to paste for the reader, and all faults in one error."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from consilium.data.loose import Grade, TableFinding
from consilium.protocol.errors import DataError

if TYPE_CHECKING:
    import polars as pl

_LONGEST = 1500
"""Characters of keys in a message: more are read nowhere."""


@dataclass
class Remedy:
    """Keys of `[data]`, and parameters of `Council`, that would read the table; in_file: what no key can mend."""

    missing: list[str] = field(default_factory=list)
    cells: dict[str, dict[str, Any]] = field(default_factory=dict)
    drop: list[str] = field(default_factory=list)
    decimal_comma: bool = False
    unlabelled: bool = False
    duplicates: bool = False
    classes: tuple[str, ...] = ()
    in_file: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class TableCheck:
    """findings: what the file must mend first, by column. plain: columns of which there is nothing to say.

    owners: as the remedy reads them, text (rows,), null where one is missing; None where no column is named.
    """

    rows: int
    findings: tuple[TableFinding, ...]
    remedy: Remedy = field(repr=False)
    plain: tuple[str, ...]
    owners: pl.Series | None = field(repr=False)

    @property
    def to_mend(self) -> tuple[TableFinding, ...]:
        """Those that stop the table from being read, or make it say something wrong."""
        return tuple(finding for finding in self.findings if finding.grade is not Grade.LOOK)


class TableFaults(DataError):
    """All that stops a table from being read, at once. findings: each by itself."""

    def __init__(self, fault: str, action: str, findings: Sequence[TableFinding] = ()) -> None:
        super().__init__(fault, action)
        self.findings = tuple(findings)


_LONGEST = 1500
"""Characters of keys in a message: more are read nowhere."""


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


def _keys(remedy: Remedy, python: bool) -> str:
    """What would read the table, to be pasted: below `[data]` of a scenario, or as arguments of `Council`."""
    if python:
        keys = {"missing": remedy.missing, "cells": remedy.cells}
        return "\n".join(f"{key}={value!r}," for key, value in keys.items() if value)
    lines = [f"missing = {in_toml(remedy.missing)}"] if remedy.missing else []
    return "\n".join([*lines, *(f"cells.{_toml_key(name)} = {in_toml(rule)}" for name, rule in remedy.cells.items())])


def all_at_once(
    error: DataError, where: str, checked: TableCheck, replaces: bool, more: str = "", python: bool = False
) -> DataError:
    """What stopped the reader, with all else that would stop it. where: the table's name, for the first words.

    replaces: whether what `error` says depends on which rows are public, and `checked` says it of all rows. more: what
    to do besides. python: whether keys are said as arguments, and not as TOML.
    """
    faults = [finding for finding in checked.to_mend if finding.code != "few-owners"]  # no reader's business
    if not faults or (len(faults) == 1 and not replaces):
        return error
    remedy = checked.remedy
    keys = _keys(remedy, python)
    place = "give Council these" if python else "put these below [data]"
    if len(keys) > _LONGEST:
        keys = ""
    if keys:  # one mistake is one line
        one_line = len(faults) == 1 and "\n" not in keys
        keys = f"{place}: {keys.removesuffix(',')}" if one_line else f"{place}:\n{keys}\n"
    left_out = f"leave out {', '.join(map(repr, remedy.drop))} (data.drop)" if remedy.drop else ""
    mended = " and ".join(filter(None, (left_out, keys)))
    more = f"{'' if keys.endswith(chr(10)) else '. '}{more}" if more else ""
    if len(faults) == 1:
        (finding,) = faults
        action = finding.action.replace("Leave it out", "Leave it out (data.drop)", 1)
        added = f". Or {mended}" if mended and action == finding.action else ""
        return TableFaults(f"{where}: {finding.text}", f"{action}{added}{more}", faults)
    first = f"{where}: {len(faults)} faults must be mended" if replaces else f"{error}\nAll that must be mended"
    lines = "".join(f"\n- {finding}" for finding in faults)
    return TableFaults(f"{first}{lines}", f"\nMend them{f', or {mended}' if mended else ''}{more}", faults)
