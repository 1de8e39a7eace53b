"""The keys that a configuration model knows: where a faulty one stands, and which known ones are nearest to it."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

MOST_NEAR = 3
LEAST_ALIKE = 0.7
"""Of a key beside the faulty one, from 0 to 1, see `difflib.SequenceMatcher.ratio`."""
LEAST_ALIKE_WORD = 0.6
"""Of a word of a choice, which is printed whole beside it."""
LEAST_ALIKE_ELSEWHERE = 0.8
"""Of a key in another table."""

Model = type[BaseModel]


@dataclass(frozen=True)
class Place:
    """Where a fault is. keys: as the user writes them. table: model of the table that holds the last of them, None
    where that is no table of a model. kind: "mechanism confident" where the table is one of several kinds, else ""."""

    keys: tuple[str, ...]
    table: Model | None
    kind: str


def place_of(model: Model, location: tuple[int | str, ...]) -> Place:
    """The place of a fault.

    Parameters
    ----------
    location : as pydantic has it, in which the kind of a table stands like a key of its own: ("mechanism",
        "confident", "sigma").
    """
    keys: list[str] = []
    inner: Any = model
    table: Model | None = None
    kind = ""
    for part in location:
        inner, chosen = _of_several(inner, part)
        if chosen is not None:
            kind = f"{keys[-1]} {chosen}" if keys and not keys[-1].isdigit() else chosen
            continue
        keys.append(str(part))
        table = inner if _is_model(inner) else None
        if table is None or part not in table.model_fields:
            inner = _element(inner)
            continue
        inner = table.model_fields[str(part)].annotation
        if table is not None and part != location[-1]:
            kind = ""
    return Place(tuple(keys), table, kind)


def nearest(model: Model, values: Mapping[str, Any], place: Place) -> list[str]:
    """Up to three known keys that are most like an unknown one, as dotted paths.

    Those of the same table come first; one of another table must be more alike.

    Parameters
    ----------
    values : what the user wrote: of a table of several kinds, only the keys of the kind that it names count.
    """
    *above, name = place.keys
    beside = set(place.table.model_fields) if place.table is not None else set()
    found = {
        ".".join([*above, other]): _alike(name, other) + 0.1 for other in beside if _alike(name, other) >= LEAST_ALIKE
    }
    first = ["0" if key.isdigit() else key for key in above]  # of a list of tables, `_paths` names the first
    for path in _paths(model, values, ()):
        dotted = ".".join(path)
        if list(path[:-1]) != first and _alike(name, path[-1]) >= LEAST_ALIKE_ELSEWHERE:
            found.setdefault(dotted, _alike(name, path[-1]))
    return sorted(found, key=lambda dotted: (-found[dotted], dotted))[:MOST_NEAR]


def most_alike(given: str, allowed: list[str]) -> str | None:
    """The allowed word that is most like a given one, if any is.

    >>> most_alike("confidant", ["gnmax", "confident"])
    'confident'
    """
    ranked = sorted(allowed, key=lambda word: (-_alike(given, word), word))
    return ranked[0] if ranked and _alike(given, ranked[0]) >= LEAST_ALIKE_WORD else None


def _alike(left: str, right: str) -> float:
    return SequenceMatcher(None, left.lower(), right.lower()).ratio()


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _members(annotation: Any) -> list[Any]:
    """The types that an annotation stands for, without None."""
    if get_origin(annotation) is Annotated:
        return _members(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        return [member for part in get_args(annotation) for member in _members(part)]
    return [] if annotation is type(None) else [annotation]


def _kinds(member: Any) -> set[str]:
    """What the tables of a model may call themselves: its fields that can have few texts only."""
    if not _is_model(member):
        return set()
    fields = (field.annotation for field in member.model_fields.values())
    return {str(value) for kind in fields if get_origin(kind) is Literal for value in get_args(kind)}


def _of_several(annotation: Any, part: int | str) -> tuple[Any, str | None]:
    """The type that an annotation stands for, and, where there are several and `part` names one, that name."""
    members = _members(annotation)
    if len(members) < 2:
        return (members[0] if members else None), None
    for member in members:
        if part in _kinds(member):
            return member, str(part)
        if part == getattr(member, "__name__", None):
            return member, str(part)
    return None, None


def _element(annotation: Any) -> Any:
    """The type of what a list, tuple or dict holds."""
    arguments = [part for part in get_args(annotation) if part is not ...]
    return arguments[-1] if arguments else None


def _paths(
    annotation: Any, value: Any, above: tuple[str, ...], around: frozenset[Model] = frozenset()
) -> Iterator[tuple[str, ...]]:
    """Paths of all keys below; of a model that is one of those `around` it only where the user wrote one."""
    members = [member for member in _members(annotation)]
    models = [member for member in members if _is_model(member)]
    named = [
        member for member in models if isinstance(value, Mapping) and _kinds(member) & set(map(str, value.values()))
    ]
    for model in named[:1] if len(models) > 1 and named else models:
        if model in around and value is None:
            continue
        for name, field in model.model_fields.items():
            yield (*above, name)
            inner = value.get(name) if isinstance(value, Mapping) else None
            yield from _paths(field.annotation, inner, (*above, name), around | {model})
    for member in members:
        if get_origin(member) in (list, tuple) and (element := _element(member)) is not None:
            first = value[0] if isinstance(value, list) and value else None
            yield from _paths(element, first, (*above, "0"), around)
