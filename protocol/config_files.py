"""Configuration files: TOML or JSON into frozen models; every fault a line with file, key, what is allowed and given.

The words of pydantic never reach the user: they speak of models, inputs and instances.
"""

from __future__ import annotations

import json
import math
import tomllib
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from consilium.protocol.errors import ConfigError
from consilium.protocol.files import unreadable
from consilium.protocol.models import Frozen

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
        if part != location[-1]:
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
    near = {
        ".".join([*above, other]): _alike(name, other) + 0.1 for other in beside if _alike(name, other) >= LEAST_ALIKE
    }
    first = ["0" if key.isdigit() else key for key in above]  # of a list of tables, `_paths` names the first
    for path in _paths(model, values, ()):
        dotted = ".".join(path)
        if list(path[:-1]) != first and _alike(name, path[-1]) >= LEAST_ALIKE_ELSEWHERE:
            near.setdefault(dotted, _alike(name, path[-1]))
    return sorted(near, key=lambda dotted: (-near[dotted], dotted))[:MOST_NEAR]


def most_alike(written: str, allowed: list[str]) -> str | None:
    """The allowed word that is most like a given one, if any is.

    >>> most_alike("confidant", ["gnmax", "confident"])
    'confident'
    """
    ranked = sorted(allowed, key=lambda word: (-_alike(written, word), word))
    return ranked[0] if ranked and _alike(written, ranked[0]) >= LEAST_ALIKE_WORD else None


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


MOST_FAULTS = 10
MOST_SHOWN = 60
"""Characters of a value that is told."""


def faults_of(
    error: ValidationError, model: type[BaseModel], values: Mapping[str, Any], quoting: bool = True
) -> list[str]:
    """All faults, each "key: what is wrong", without the key where the whole is meant.

    Values are told where they are single ones at keys that the model knows, shortened; never those of lists or tables.

    Parameters
    ----------
    quoting : False tells no value and no unknown key: somebody may have put a secret there.
    """
    lines: dict[str, None] = {}  # a value of several possible types is faulty once for each
    for item in error.errors(include_url=False):
        kind, context = item["type"], item.get("ctx", {})
        place = place_of(model, item["loc"])
        key = ".".join(place.keys)
        if kind == "extra_forbidden" and not quoting:
            lines["an unknown key"] = None
            continue
        if kind == "extra_forbidden":
            near = nearest(model, values, place)
            hint = f"; did you mean {_either(near)}?" if near else ""
            lines[f"{_word(key)}: unknown key{f' of {place.kind}' if place.kind else ''}{hint}"] = None
            continue
        if kind in _OF_A_KIND:
            key = ".".join([*place.keys, str(context["discriminator"]).strip("'")])
        text = _sentence(kind, context, item["msg"])
        if quoting:
            text += _given(kind, context, item.get("input"))
        lines[f"{_word(key)}: {text}" if key else text] = None
    return list(lines)


def in_one(where: str, faults: list[str]) -> str:
    """Faults as the text of one error: of one fault a line, of more a line each, and how many more than ten there are.

    >>> in_one("scenario x", ["query_budget: is required"])
    'scenario x: query_budget: is required'
    """
    if len(faults) == 1:
        return f"{where}: {faults[0]}"
    shown = [f"\n  {fault}" for fault in faults[:MOST_FAULTS]]
    more = f"\n  and {len(faults) - MOST_FAULTS} more" if len(faults) > MOST_FAULTS else ""
    return f"{where}: {len(faults)} faults{''.join(shown)}{more}"


def shown(value: object) -> str:
    """A value for people: text in quotes and shortened, as a table or list only that it is one.

    >>> shown("many"), shown(True), shown([1, 2]), shown(None)
    ("'many'", 'true', 'a list', 'null')
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return ascii(value if len(value) <= MOST_SHOWN else f"{value[:MOST_SHOWN]}...")
    if isinstance(value, int):
        return str(value) if abs(value) < 10**18 else "a number of more than 18 digits"
    if isinstance(value, float):
        return "infinity" if value == math.inf else f"{value:.12g}"
    if isinstance(value, Mapping):
        return "a table"
    return "a list" if isinstance(value, list | tuple | set | frozenset) else "another type"


_OF_A_KIND = ("union_tag_invalid", "union_tag_not_found")
"""Faults of the key that says of what kind a table is."""

_ABSENT = ("missing", "missing_argument", "union_tag_not_found")
_CHOICES = ("literal_error", "enum", "union_tag_invalid")
_OWN_WORDS = ("value_error", "assertion_error")

Words = Callable[[Mapping[str, Any]], str]

_MUST_BE: dict[str, str | Words] = {
    "greater_than": lambda context: f"must be greater than {context['gt']:g}",
    "greater_than_equal": lambda context: f"must be at least {context['ge']:g}",
    "less_than": lambda context: f"must be less than {context['lt']:g}",
    "less_than_equal": lambda context: f"must be at most {context['le']:g}",
    "multiple_of": lambda context: f"must be a multiple of {context['multiple_of']:g}",
    "finite_number": "must be a finite number",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_parsing_size": "must be a whole number of fewer digits",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "string_type": "must be text",
    "string_sub_type": "must be text",
    "string_unicode": "must be text",
    "string_too_short": lambda context: f"must have at least {_count(context['min_length'], 'character')}",
    "string_too_long": lambda context: f"must have at most {_count(context['max_length'], 'character')}",
    "string_pattern_mismatch": lambda context: f"must match the pattern {context['pattern']}",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
    "set_type": "must be a list",
    "frozen_set_type": "must be a list",
    "iterable_type": "must be a list",
    "dict_type": "must be a table",
    "mapping_type": "must be a table",
    "model_type": "must be a table",
    "model_attributes_type": "must be a table",
    "dataclass_type": "must be a table",
    "none_required": "must be null",
    "date_type": "must be a day, such as 2028-06-30 without quotes",
    "bytes_type": "must be bytes",
    "json_invalid": "must be JSON",
    "json_type": "must be JSON",
}
"""By pydantic's name of the fault: what is asked for."""


def _sentence(kind: str, context: Mapping[str, Any], message: str) -> str:
    """What is asked for, or what a check of our own says."""
    if kind in _OWN_WORDS:
        return message.removeprefix("Value error, ").removeprefix("Assertion failed, ")
    if kind in _ABSENT:
        return "is required"
    if kind in ("too_short", "too_long"):
        bound = ("least", context["min_length"]) if kind == "too_short" else ("most", context["max_length"])
        has = context.get("actual_length")
        return f"must have at {bound[0]} {_count(bound[1], 'entry')}{f', has {has}' if has is not None else ''}"
    if kind in _CHOICES:
        names = _allowed(kind, context)
        quoted = [f'"{name}"' for name in names]
        return f"must be {_either(quoted) if quoted else context['expected']}"
    words = _MUST_BE.get(kind, "has a form that is not allowed here")
    return words if isinstance(words, str) else words(context)


def _given(kind: str, context: Mapping[str, Any], value: object) -> str:
    """What was given instead, and, of a choice, what may have been meant."""
    if kind in _ABSENT or kind in ("too_short", "too_long"):
        return ""
    if kind in _OWN_WORDS:
        return f", got {shown(value)}" if isinstance(value, str | int | float) else ""
    if kind not in _CHOICES:
        return f", got {shown(value)}"
    word = context["tag"] if kind == "union_tag_invalid" else value
    near = most_alike(word, _allowed(kind, context)) if isinstance(word, str) else None
    return f", got {shown(word)}{f'; did you mean {chr(34)}{near}{chr(34)}?' if near else ''}"


def _allowed(kind: str, context: Mapping[str, Any]) -> list[str]:
    """The words of a choice, which pydantic lists in quotes: 'a', 'b' or 'c'."""
    listed = str(context["expected_tags"] if kind == "union_tag_invalid" else context["expected"])
    return [name for place, name in enumerate(listed.split("'")) if place % 2]


def _either(words: list[str]) -> str:
    """Words as a choice: a, b or c."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _word(key: str) -> str:
    """A key that somebody else may have written: what no terminal should get is escaped, and it is shortened."""
    return key if key.isprintable() and len(key) <= 2 * MOST_SHOWN else ascii(key[: 2 * MOST_SHOWN])


def _count(number: int, noun: str) -> str:
    """A number of things: 1 entry, 2 entries."""
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number} {noun if number == 1 else plural}"


F = TypeVar("F", bound=Frozen)


def read_table(path: Path) -> dict[str, Any]:
    """A .toml or .json file as a dict.

    Raises
    ------
    PathError : it is not there, or may not be read. ConfigError : it is no table in TOML or JSON.
    """
    kind = "JSON" if path.suffix == ".json" else "TOML"
    action = "Correct the file, or give another"
    try:
        text = path.read_text(encoding="utf-8")
        table = json.loads(text) if kind == "JSON" else tomllib.loads(text)
    except OSError as error:
        raise unreadable(path, error) from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not valid {kind}: it is no text in UTF-8", action) from None
    except json.JSONDecodeError as error:
        raise ConfigError(f"{path} is not valid {kind}: line {error.lineno}, column {error.colno}", action) from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not valid {kind}: {_toml_fault(error)}", action) from None
    if not isinstance(table, dict):
        raise ConfigError(f"{path}: must be a table", action)
    return table


def _toml_fault(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "tables within tables without end"
    return str(error) if isinstance(error, tomllib.TOMLDecodeError) else "a number of too many digits"


def validate(table: dict[str, Any], model: type[F], where: str) -> F:
    """The table as a model.

    Raises
    ------
    ConfigError : every fault, up to ten: where, key, what is allowed, what was given; nearest keys of an unknown one.
    """
    try:
        return model.model_validate(table)
    except ValidationError as error:
        raise ConfigError(in_one(where, faults_of(error, model, table))) from None


def load(path: Path, model: type[F]) -> F:
    """Read and validate one file. Raises PathError, ConfigError."""
    return validate(read_table(path), model, str(path))


def drop_other_kinds(table: Any, tag: str, kinds: Iterable[type[BaseModel]]) -> None:
    """Drop the keys that the kind which the table names does not have."""
    if not isinstance(table, dict):
        return
    for kind in kinds:
        if kind.model_fields[tag].default == table.get(tag):
            for key in set(table) - set(kind.model_fields):
                del table[key]
