"""On which rows a tuned value was chosen, and whether runs on private votes had a part: what files, reports and cards
say alike ([why](docs/decisions/tuning.md)).

It changes nothing of what a federation asks, draws or promises, and nobody can check it: it is in no digest and no
terms. What runs on private votes cost is charged by `privacy.candidates`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field, TypeAdapter, ValidationError

from consilium.protocol.models import Frozen

Rows = Literal["development", "judged", "published", "none", "unknown"]
RunVotes = Literal["none", "simulated", "own"]

ON_ROWS: Mapping[Rows, str] = {
    "development": "on development rows",
    "judged": "with a look at rows that judge",
    "published": "as it was published elsewhere",
    "none": "on no rows",
    "unknown": "on rows that nobody wrote down",
}
ON_VOTES: Mapping[RunVotes, str] = {
    "none": "",
    "simulated": "in view of runs on votes of simulated parties",
    "own": "in view of runs on these parties' own votes",
}
NOT_COVERED = (
    "The guarantee is of one run, or of as many candidate runs as the mechanism is charged for. It does not cover"
    " choosing values in view of other runs on the same votes"
)
NOT_STATED = "Nobody has said on which rows the values of this federation and its student were chosen"


class Provenance(Frozen):
    """One entry `[[provenance]]`."""

    keys: tuple[str, ...] = Field(min_length=1, description="keys of this file whose values were chosen so")
    rows: Rows = Field(
        description="on which rows: `development`, which are named and are not those that judge; `judged`, rows that"
        " judge had a part; `published`, a number from elsewhere; `none`, no rows; `unknown`, nobody wrote it down"
    )
    votes: RunVotes = Field(
        default="none",
        description="whether runs on private votes had a part: `simulated`, votes of a simulation's parties; `own`,"
        " those of the very parties that this file is for, which `consilium provision` refuses unless"
        " `federation.privacy.candidates` charges them",
    )
    where: str = Field(min_length=1, max_length=400, description="data, seeds and split, in one sentence")

    @property
    def chosen(self) -> str:
        """How, in a few words.

        >>> Provenance(keys=("query_budget.queries",), rows="judged", votes="own", where="Seed 0.").chosen
        "with a look at rows that judge, in view of runs on these parties' own votes"
        """
        return ", ".join(filter(None, (ON_ROWS[self.rows], ON_VOTES[self.votes])))


def uncovered(entries: Sequence[Provenance]) -> tuple[str, ...]:
    """Keys of values that were chosen in view of runs on votes: no epsilon of one run covers that."""
    return tuple(key for entry in entries if entry.votes != "none" for key in entry.keys)


def of_own_votes(entries: Sequence[Provenance], candidates: int) -> tuple[str, ...]:
    """Keys of values that were chosen by runs on the very parties' votes, where one run alone is charged."""
    return tuple(key for entry in entries if entry.votes == "own" for key in entry.keys) if candidates == 1 else ()


def well_formed(value: object) -> tuple[Provenance, ...]:
    """The entries in somebody's file, which may be of another version; none, where one of them is no entry."""
    try:
        return TypeAdapter(tuple[Provenance, ...]).validate_python(value)
    except ValidationError:
        return ()


def keys_of(table: Mapping[str, Any], prefix: str = "") -> set[str]:
    """All dotted keys of nested tables, those of the tables among them.

    >>> sorted(keys_of({"query_budget": {"queries": 3}, "name": "x"}))
    ['name', 'query_budget', 'query_budget.queries']
    """
    found = set()
    for key, value in table.items():
        found.add(f"{prefix}{key}")
        if isinstance(value, Mapping):
            found |= keys_of(value, f"{prefix}{key}.")
    return found


def without(entries: object, changed: str) -> list[dict[str, Any]] | object:
    """Entries as a file has them, without what they say of the key `changed`, of what lies below it and above it.

    >>> without([{"keys": ["query_budget.queries", "query_budget.answers"], "rows": "none"}], "query_budget.queries")
    [{'keys': ['query_budget.answers'], 'rows': 'none'}]
    """
    if not isinstance(entries, list):
        return entries

    def touched(key: object) -> bool:
        return any(f"{one}.".startswith(f"{other}.") for one, other in ((key, changed), (changed, key)))

    kept = []
    for entry in entries:
        keys = entry.get("keys") if isinstance(entry, dict) else None
        if not isinstance(keys, list):
            kept.append(entry)
        elif left := [key for key in keys if not touched(key)]:
            kept.append({**entry, "keys": left})
    return kept
