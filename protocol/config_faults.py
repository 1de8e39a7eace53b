"""What is wrong with a configuration, in our own words: each fault a line with key, what is allowed, and what is given.

The words of pydantic never reach the user: they speak of models, inputs and instances.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from consilium.protocol.known_keys import most_alike, nearest, place_of

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

    >>> in_one("scenario x", ["caps: is required"])
    'scenario x: caps: is required'
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


def _given(kind: str, context: Mapping[str, Any], given: object) -> str:
    """What was given instead, and, of a choice, what may have been meant."""
    if kind in _ABSENT or kind in ("too_short", "too_long"):
        return ""
    if kind in _OWN_WORDS:
        return f", got {shown(given)}" if isinstance(given, str | int | float) else ""
    if kind not in _CHOICES:
        return f", got {shown(given)}"
    word = context["tag"] if kind == "union_tag_invalid" else given
    near = most_alike(word, _allowed(kind, context)) if isinstance(word, str) else None
    return f", got {shown(word)}{f'; did you mean {chr(34)}{near}{chr(34)}?' if near else ''}"


def _allowed(kind: str, context: Mapping[str, Any]) -> list[str]:
    """The words of a choice, which pydantic lists in quotes: 'a', 'b' or 'c'."""
    listed = str(context["expected_tags"] if kind == "union_tag_invalid" else context["expected"])
    return [name for at, name in enumerate(listed.split("'")) if at % 2]


def _either(words: list[str]) -> str:
    """Words as a choice: a, b or c."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _word(key: str) -> str:
    """A key that somebody else may have written: what no terminal should get is escaped, and it is shortened."""
    return key if key.isprintable() and len(key) <= 2 * MOST_SHOWN else ascii(key[: 2 * MOST_SHOWN])


def _count(number: int, what: str) -> str:
    """A number of things: 1 entry, 2 entries."""
    plural = f"{what[:-1]}ies" if what.endswith("y") else f"{what}s"
    return f"{number} {what if number == 1 else plural}"
