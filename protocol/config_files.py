"""Configuration files: TOML or JSON into frozen models; every fault a line with file, key, what is allowed and given.
The words of pydantic never reach the user: they speak of models, inputs and instances."""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from difflib import SequenceMatcher, get_close_matches
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from consilium.protocol.errors import ConfigError
from consilium.protocol.files import unreadable
from consilium.protocol.models import Frozen

MOST_NEAR, MOST_DEEP = 3, 4
"""Keys that are told; tables within tables in which they are sought."""
LEAST_ALIKE, LEAST_ALIKE_ELSEWHERE, LEAST_ALIKE_WORD = 0.7, 0.8, 0.6
"""Of a key beside the faulty one, of a key in another table, and of a word of a choice, which is printed whole beside
it; from 0 to 1, see `difflib.SequenceMatcher.ratio`."""
MOST_FAULTS = 10
MOST_SHOWN = 60
"""Characters of a value that is told."""
Model = type[BaseModel]


def _place(location: tuple[int | str, ...], values: Mapping[str, Any]) -> tuple[list[str], str]:
    """Where a fault is: keys as the user writes them, and "mechanism confident" where the last one's table is one of
    several kinds, else "". location: as pydantic has it, in which the kind of a table stands like a key of its own:
    ("mechanism", "confident", "sigma"). What the user did not write, and is not the last, is such a kind."""
    keys, kind, inner = list[str](), "", values or None
    for at, part in enumerate(location):
        written = part in inner if isinstance(inner, Mapping) else isinstance(inner, list | tuple)
        last = at == len(location) - 1
        if keys and inner is not None and not written and not (last and isinstance(inner, Mapping)):
            kind = str(part) if keys[-1].isdigit() else f"{keys[-1]} {part}"
            continue
        keys.append(str(part))
        kind = kind if last else ""
        try:
            inner = inner[part]  # type: ignore[index, call-overload]
        except (LookupError, TypeError):
            inner = None
    return keys, kind


def _nearest(model: Model, keys: list[str], of_kind: bool) -> list[str]:
    """Up to three known keys that are most like an unknown one, as dotted paths without places in lists. Those of the
    same table come first; one of another table must be more alike, and none is named for a table of several kinds."""
    *above, name = (key for key in keys if not key.isdigit())
    near: dict[str, float] = {}
    for *table, key in _paths(model):
        alike, same = SequenceMatcher(None, name.lower(), key.lower()).ratio(), table == above
        unlike_kind = key == name if same else of_kind
        if alike >= (LEAST_ALIKE if same else LEAST_ALIKE_ELSEWHERE) and not unlike_kind:
            near[".".join([*table, key])] = alike + 0.1 * same
    return sorted(near, key=lambda dotted: (-near[dotted], dotted))[:MOST_NEAR]


def _paths(annotation: Any, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Of all keys below; of a table of several kinds, those of each."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        for name, field in annotation.model_fields.items():
            yield (*above, name)
            if len(above) < MOST_DEEP:
                yield from _paths(field.annotation, (*above, name))
    for part in get_args(annotation):
        yield from _paths(part, above)


def faults_of(error: ValidationError, model: Model, values: Mapping[str, Any], quoting: bool = True) -> list[str]:
    """All faults, each "key: what is wrong", without the key where the whole is meant. Values are told where they are
    single ones at keys that the model knows, shortened; never those of lists or tables. quoting: False tells no value
    and no unknown key: somebody may have put a secret there."""
    lines: dict[str, None] = {}  # a value of several possible types is faulty once for each
    for item in error.errors(include_url=False):
        kind, context = item["type"], item.get("ctx", {})
        keys, table = _place(item["loc"], values)
        if kind == "extra_forbidden":
            near = _nearest(model, keys, bool(table)) if quoting else []
            hint = f"; did you mean {_either(near)}?" if near else ""
            of_table = f" of {table}" if table else ""
            lines[f"{_word(keys)}: unknown key{of_table}{hint}" if quoting else "an unknown key"] = None
            continue
        if kind in _OF_A_KIND:
            keys.append(str(context["discriminator"]).strip("'"))
        text = _sentence(kind, context, item["msg"])
        if quoting:
            text += _given(kind, context, item.get("input"))
        lines[f"{_word(keys)}: {text}" if keys else text] = None
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
_NOUNS = {
    **{"integer": "a whole number", "number": "a number", "boolean": "true or false", "string": "text"},
    **{"dictionary": "a table", "date": "a day, such as 2028-06-30 without quotes"},
    **dict.fromkeys(("tuple", "list", "set", "frozenset"), "a list"),
}
"""What is asked for, by pydantic's word for it."""
_OURS = {
    "greater than or equal to": "at least",
    "less than or equal to": "at most",
    "items after validation, not": "entries, has",
    "item after validation, not": "entry, has",
}


def _sentence(kind: str, context: Mapping[str, Any], message: str) -> str:
    """What is asked for, or what a check of our own says. message: pydantic's."""
    if kind == "value_error":
        return message.removeprefix("Value error, ")
    if kind in _ABSENT:
        return "is required"
    if kind in _CHOICES:
        names = [f'"{name}"' for name in _allowed(kind, context)]
        return f"must be {_either(names) if names else context['expected']}"
    if kind == "int_parsing_size":
        return "is too large a number"
    noun = re.match(r"Input should be a (?:valid )?(\w+)", message)
    if noun and noun[1] in _NOUNS:
        return f"must be {_NOUNS[noun[1]]}"
    limit = re.match(r"\w+ should ((?:be (?:greater|less|a finite|a multiple)|have at|match) ?.+)", message)
    if limit is None:
        return "has a form that is not allowed here"
    text = limit[1]
    for theirs, ours in _OURS.items():
        text = text.replace(theirs, ours)
    return f"must {text}"


def _given(kind: str, context: Mapping[str, Any], value: object) -> str:
    """What was given instead, and, of a choice, what may have been meant."""
    if kind in _ABSENT or kind in ("too_short", "too_long"):
        return ""
    if kind == "value_error":
        return f", got {shown(value)}" if isinstance(value, str | int | float) else ""
    if kind not in _CHOICES:
        return f", got {shown(value)}"
    word = context["tag"] if kind == "union_tag_invalid" else value
    text = word.lower() if isinstance(word, str) else ""
    near = get_close_matches(text, _allowed(kind, context), 1, LEAST_ALIKE_WORD)
    return f", got {shown(word)}" + (f'; did you mean "{near[0]}"?' if near else "")


def _allowed(kind: str, context: Mapping[str, Any]) -> list[str]:
    """The words of a choice, which pydantic lists in quotes: 'a', 'b' or 'c'."""
    listed = str(context["expected_tags"] if kind == "union_tag_invalid" else context["expected"])
    return listed.split("'")[1::2]


def _either(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _word(keys: list[str]) -> str:
    """A key that somebody else may have written: what no terminal should get is escaped, and it is shortened."""
    key = ".".join(keys)
    return key if key.isprintable() and len(key) <= 2 * MOST_SHOWN else ascii(key[: 2 * MOST_SHOWN])


F = TypeVar("F", bound=Frozen)


def read_table(path: Path) -> dict[str, Any]:
    """A .toml or .json file as a dict. Raises PathError: it is not there, or may not be read. ConfigError: it is no
    table in TOML or JSON."""
    kind, action = "JSON" if path.suffix == ".json" else "TOML", "Correct the file, or give another"
    try:
        text = path.read_text(encoding="utf-8")
        table = json.loads(text) if kind == "JSON" else tomllib.loads(text)
    except OSError as error:
        raise unreadable(path, error) from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not valid {kind}: {error}", action) from None
    if not isinstance(table, dict):
        raise ConfigError(f"{path}: must be a table", action)
    return table


def validate(table: dict[str, Any], model: type[F], where: str) -> F:
    """The table as a model. Raises ConfigError: every fault, up to ten: where, key, what is allowed, what was given;
    nearest keys of an unknown one."""
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
