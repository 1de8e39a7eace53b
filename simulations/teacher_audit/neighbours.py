"""Neighbouring data sets: one record, or all records of one patient, added, removed or replaced by others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from consilium.accounting.units import Neighbouring, Unit
from consilium.protocol.errors import DataError
from consilium.simulations.teacher_audit.row_files import RowFile

ChangeKind = Literal["add", "remove", "replace"]

NEWCOMERS = 0.1
"""Share of the units that is kept out of the data set, to be added to it or to take another's place."""


@dataclass(frozen=True)
class Neighbour:
    """Rows of the file, by their position in it, after one change. Private: `order` is not in `repr`."""

    kind: ChangeKind
    order: list[int] = field(repr=False)


def units_of(rows: RowFile, unit: Unit) -> list[list[int]]:
    """The rows of each unit: one by one, or those of each patient, as far as the file tells them apart."""
    if unit is not Unit.PATIENT or rows.patients is None:
        return [[row] for row in range(rows.count)]
    found: dict[str, list[int]] = {}
    for row, patient in enumerate(rows.patients):
        found.setdefault(patient, []).append(row)
    return list(found.values())


def neighbours(
    units: list[list[int]], relation: Neighbouring, count: int, generator: np.random.Generator
) -> tuple[list[int], Iterator[Neighbour]]:
    """The rows of a data set, and `count` neighbours of it: replaced ones, or by turns one less and one more.

    A newcomer stands where the other stood, or anywhere: no teacher may depend on where.

    Raises
    ------
    DataError : there are fewer than two units.
    """
    if len(units) < 2:
        raise DataError(f"the file has {len(units)} records or patients", "An audit needs two at least")
    order = generator.permutation(len(units))
    out = max(1, round(NEWCOMERS * len(units)))
    inside = sorted(order[out:].tolist())
    base = [row for index in inside for row in units[index]]

    def changed() -> Iterator[Neighbour]:
        for number in range(count):
            newcomer = units[int(generator.choice(order[:out]))]
            at = int(generator.integers(len(inside)))
            if relation is Neighbouring.REPLACE:
                kind: ChangeKind = "replace"
            else:
                kind = "remove" if number % 2 == 0 else "add"
            kept = [units[index] for index in inside]
            kept[at : at + (kind != "add")] = [] if kind == "remove" else [newcomer]
            yield Neighbour(kind, [row for rows in kept for row in rows])

    return base, changed()
