"""Files in the form of version 0.2, which said in three dialects what `[federation]` says now: their new form.

Nothing is read by these rules. They only tell whoever has an old file or an old habit what to write instead.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

import tomli_w
from pydantic import BaseModel

from consilium.protocol.errors import ConfigError
from consilium.protocol.parties.teachers import TEACHERS

PLAN = {
    **{key: f"federation.{key}" for key in (
        "name", "votes", "teachers_per_party", "minimum_parties", "colluders", "least_survivors", "least_difference",
        "spare", "teacher", "mechanism", "privacy", "caps", "timeouts",
    )},
    "pool.file": "rows.pool",
    "pool.least_distance": "federation.pool_least_distance",
    "parties": "party",
    "students": "student",
}  # fmt: skip
"""Old keys of a provisioning file, and what stands for them now."""


def new_key(key: str, moved: Mapping[str, str]) -> str | None:
    """What to write for an old dotted key; None for one that is still right, or never was.

    >>> new_key("mechanism.sigma2", PLAN), new_key("federation.mechanism.sigma2", PLAN)
    ('federation.mechanism.sigma2', None)
    """
    for old in sorted(moved, key=len, reverse=True):
        if key == old or key.startswith(old + "."):
            return moved[old] + key[len(old) :]
    return None


def new_table(table: Mapping[str, Any], moved: Mapping[str, str]) -> dict[str, Any]:
    """The same settings under the new keys; keys that a kind of teacher does not have, and never used, are left out."""
    out: dict[str, Any] = {}
    for key, value in _entries(table, {old for old in moved if "." in old}):
        _put(out, new_key(key, moved) or key, value)
    teacher = out.get("federation", {}).get("teacher")
    if isinstance(teacher, dict):
        teacher.setdefault("model", "logistic_regression")  # what was trained where no model was named
        drop_other_kinds(teacher, "model", TEACHERS)
    return out


def new_plan(table: Mapping[str, Any]) -> dict[str, Any]:
    """A provisioning file of version 0.2 in its present form."""
    return new_table({"votes": "secure", **table}, PLAN)


def is_old(table: Mapping[str, Any]) -> bool:
    """Whether a file has the form of version 0.2."""
    return "federation" not in table and any(key in table for key in ("mechanism", "privacy", "caps"))


def old_form(new: Mapping[str, Any], where: str) -> ConfigError:
    """What to say of a file in the old form, whose new form is `new`."""
    text = tomli_w.dumps(_said(new))
    return ConfigError(
        f"{where} has the form of version 0.2",
        f"What a federation is stands under [federation] now. In the new form the file says:\n\n{text}",
    )


def drop_other_kinds(table: Any, tag: str, kinds: Iterable[type[BaseModel]]) -> None:
    """Drop the keys that the kind which the table names does not have."""
    if not isinstance(table, dict):
        return
    for kind in kinds:
        if kind.model_fields[tag].default == table.get(tag):
            for key in set(table) - set(kind.model_fields):
                del table[key]


def _said(table: Mapping[str, Any]) -> dict[str, Any]:
    """Without the nulls of a JSON file, which TOML does not have: the key is left out there."""
    told = {key: _said(value) if isinstance(value, Mapping) else value for key, value in table.items()}
    return {key: value for key, value in told.items() if value is not None}


def _entries(table: Mapping[str, Any], split: set[str]) -> list[tuple[str, Any]]:
    """Top-level keys with their values; tables of which single keys moved, key by key."""
    found = []
    for key, value in table.items():
        inner = {old.partition(".")[2] for old in split if old.startswith(key + ".")}
        if inner and isinstance(value, Mapping):
            found += [(f"{key}.{name}", copy.deepcopy(item)) for name, item in value.items()]
        else:
            found.append((key, copy.deepcopy(value)))
    return found


def _put(table: dict[str, Any], key: str, value: Any) -> None:
    *parents, last = key.split(".")
    for parent in parents:
        table = table.setdefault(parent, {})
    table[last] = value
