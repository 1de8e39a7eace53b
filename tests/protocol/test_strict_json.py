"""JSON without NaN and infinity, and what it tells instead."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from consilium.protocol.strict_json import dumps, is_infinite, number

CASES: list[tuple[Any, Any]] = [
    ({"epsilon": math.inf}, {"epsilon": None, "infinite": ["epsilon"]}),
    ({"epsilon": 1.5}, {"epsilon": 1.5}),
    ({"order": math.nan}, {"order": None}),
    ({"curve": [1.0, math.inf]}, {"curve": [1.0, None], "infinite": ["curve"]}),
    ({"inner": {"epsilon": math.inf}}, {"inner": {"epsilon": None, "infinite": ["epsilon"]}}),
    ([{"a": (math.inf, 1)}], [{"a": [None, 1], "infinite": ["a"]}]),
]


@pytest.mark.parametrize(("value", "written"), CASES)
def test_what_is_written(value: Any, written: Any) -> None:
    assert json.loads(dumps(value), parse_constant=pytest.fail) == written


def test_what_is_read() -> None:
    table = json.loads(dumps({"epsilon": math.inf, "delta": 1e-5, "order": math.nan}))
    assert (number(table, "epsilon"), number(table, "delta")) == (math.inf, 1e-5)
    assert [is_infinite(table, key) for key in ("epsilon", "delta", "order", "absent")] == [True, False, False, False]
    with pytest.raises(TypeError):
        number(table, "order")
    with pytest.raises(KeyError):
        number(table, "absent")
