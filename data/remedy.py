"""What a check of a table found, and what would mend it: keys to paste for the reader, and all faults in one error."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from consilium.protocol.errors import DataError

if TYPE_CHECKING:
    import polars as pl

SHOWN = 3
"""Lines, and values, that a finding names."""


class Grade(StrEnum):
    """How bad it is, and who mends it: whoever has the file, or keys of the scenario."""

    FILE = "in the file first"
    MEND = "the scenario mends it"
    LOOK = "look at it"


@dataclass(frozen=True)
class TableFinding:
    """One fault or doubt. code: for programs. column: its name, or none of the whole table. count: cells, rows or
    owners concerned; places: where the first of them stand. values: the first few, quoted; none where rows are private.
    """

    code: str
    grade: Grade
    column: str
    fault: str
    action: str
    count: int = 0
    places: tuple[str, ...] = ()
    values: tuple[str, ...] = field(default=(), repr=False)

    @property
    def where(self) -> str:
        """Lines or rows in a few words.

        >>> TableFinding("", Grade.LOOK, "", "", "", 5, ("line 2", "line 9")).where
        'lines 2, 9 and 3 more'
        """
        if not self.places:
            return ""
        word, plain = self.places[0].split()[0], all(len(place.split()) == 2 for place in self.places)
        shown = ", ".join(place.split()[1] if plain else place for place in self.places)
        more = f" and {self.count - len(self.places)} more" if self.count > len(self.places) else ""
        return f"{word}{'s' if len(self.places) > 1 else ''} {shown}{more}" if plain else shown + more

    @property
    def text(self) -> str:
        """Where, and what is wrong."""
        where = ", ".join(filter(None, (f"column {self.column!r}" if self.column else "", self.where)))
        such = f" ({', '.join(map(repr, self.values))})" if self.values else ""
        return f"{where}{': ' if where else ''}{self.fault}{such}"

    def __str__(self) -> str:
        return f"{self.text}. {self.action}"

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self) | {"column": self.column or None}


@dataclass
class Remedy:
    """Keys of `[data]`, and parameters of `Council`, that would read the table; in_file: what no key can mend."""

    missing: list[str] = field(default_factory=list)
    cells: dict[str, dict[str, Any]] = field(default_factory=dict)
    drop: list[str] = field(default_factory=list)
    columns: dict[str, str] = field(default_factory=dict)
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
    keys = {"missing": remedy.missing, "cells": remedy.cells, "columns": remedy.columns}
    if python:
        return "\n".join(f"{key}={value!r}," for key, value in keys.items() if value)
    lines = [f"missing = {in_toml(remedy.missing)}"] if remedy.missing else []
    tables = [(f"{key}.{_toml_key(name)}", rule) for key in ("cells", "columns") for name, rule in keys[key].items()]
    return "\n".join([*lines, *(f"{key} = {in_toml(rule)}" for key, rule in tables)])


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
    first = f"{where}: {faults[0].text}. {faults[0].action}" if replaces else str(error)
    if len(faults) > 1:
        first = f"{where}: {len(faults)} faults must be mended" if replaces else f"{error}\nAll that must be mended"
        first += "".join(f"\n- {finding}" for finding in faults)
    keys, dropped = _keys(checked.remedy, python), ", ".join(map(repr, checked.remedy.drop))
    cures = [f"leave out {dropped} (data.drop)"] if dropped else []
    if keys and len(keys) <= _LONGEST:
        cures.append(f"{'give Council these' if python else 'put these below [data]'}:\n{keys}")
    mended = ["Or " + " and ".join(cures)] if cures else []
    return TableFaults(first, "\n" + "\n".join([*mended, *([more] if more else [])]), faults)
