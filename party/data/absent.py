"""A column that the file has not once, as a line for the party."""

from __future__ import annotations

from collections.abc import Sequence

from consilium.party.data.problems import Problem
from consilium.protocol.parties.refusals import Rule
from consilium.protocol.rows.columns import Wanted

ACTIONS = {
    "[columns]": ('Say under [columns] which one it is: "{name}" = "name in the file"', Rule.SCHEMA),
    "[label]": ('Say under [label] which one it is: column = "name in the file"', Rule.SCHEMA),
    "[patient]": ("Say under [patient] column which one it is", Rule.DATA),
}
"""By the table of party.toml that names the column."""


def patient_of(column: str) -> Wanted:
    """The column that says whose a row is, as messages call it."""
    return Wanted("patient", column)


def absent_or_double(wanted: Wanted, names: Sequence[str], table: str) -> Problem:
    """What to tell of it. The names that the file has are not quoted: they may be a row."""
    if wanted.column in names:
        what = f"the file has {names.count(wanted.column)} columns of this name"
        return Problem(wanted.where, what, "Rename all but one: which is meant cannot be known")
    action, rule = ACTIONS[table]
    if any(_plain(name) == _plain(wanted.column) for name in names):
        action = "It has one that differs only in capitals, spaces, - or _: write the name as it stands in the file"
        rule = Rule.SCHEMA
    return Problem(wanted.where, "the file has no such column", action.format(name=wanted.name), rule)


def _plain(name: str) -> str:
    return " ".join(name.replace("_", " ").replace("-", " ").lower().split())
