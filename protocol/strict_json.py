"""JSON that every reader takes. It has no infinity: such a number is null, and its table lists the key in "infinite".

    {"epsilon": null, "delta": 1e-05, "infinite": ["epsilon"]}

Of a list below a listed key, every null is infinity. A null that no "infinite" names is a value that is not there.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

INFINITE = "infinite"


def strict(value: Any) -> Any:
    """Plain values in which no number is infinite or NaN (null).

    >>> strict({"epsilon": math.inf, "delta": 1e-05})
    {'epsilon': None, 'delta': 1e-05, 'infinite': ['epsilon']}
    """
    if isinstance(value, Mapping):
        table = {str(key): strict(item) for key, item in value.items()}
        infinite = [str(key) for key, item in value.items() if _is_or_has_infinity(item)]
        return {**table, INFINITE: infinite} if infinite else table
    if isinstance(value, list | tuple):
        return [strict(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def dumps(value: Any, indent: int | None = None) -> str:
    """`value` as strict JSON."""
    try:
        return json.dumps(value, indent=indent, allow_nan=False)
    except ValueError:  # some number is infinite, or NaN
        return json.dumps(strict(value), indent=indent, allow_nan=False)


def is_infinite(table: Mapping[str, Any], key: str) -> bool:
    """Whether a table of such JSON says that the number at `key` is infinite."""
    listed = table.get(INFINITE)
    return isinstance(listed, list) and key in listed and table.get(key) is None


def number(table: Mapping[str, Any], key: str) -> float:
    """The number at `key` of such JSON. Raises KeyError, TypeError or ValueError where there is none."""
    return math.inf if is_infinite(table, key) else float(table[key])


def _is_or_has_infinity(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(map(_is_or_has_infinity, value))
    return isinstance(value, float) and math.isinf(value)
