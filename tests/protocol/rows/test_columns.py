"""Columns of numbers: what is wrong with each value, and in which unit the others are."""

from __future__ import annotations

import numpy as np
import pytest

from consilium.protocol.rows.columns import ValueState, Wanted, from_numbers

GOOD, MISSING, INFINITE = ValueState.GOOD, ValueState.MISSING, ValueState.INFINITE


@pytest.mark.parametrize(
    ("numbers", "changes", "values", "states"),
    [
        ([1, 2], {}, [1, 2], [GOOD, GOOD]),
        ([32.0, 212.0], {"factor": 5 / 9, "offset": -160 / 9}, [0, 100], [GOOD, GOOD]),
        ([1.0, 2.0], {"offset": 1.0}, [2, 3], [GOOD, GOOD]),
        ([1.0, 1e308], {"factor": 100.0}, [100, np.nan], [GOOD, INFINITE]),
        ([1.0, -9.0], {"missing": ("-9",)}, [1, np.nan], [GOOD, MISSING]),
        ([1.0, -9.0], {"missing": ("NA",)}, [1, -9], [GOOD, GOOD]),
        ([np.nan, np.inf], {}, [np.nan, np.nan], [MISSING, INFINITE]),
        ([1.0, 2.0], {"codes": {"1": 7.0, "2": 8.0}}, [7, 8], [GOOD, GOOD]),
    ],
)
def test_numbers_come_in_the_federations_unit(numbers: list, changes: dict, values: list, states: list) -> None:
    column = from_numbers(np.array(numbers), Wanted("x", "x", **changes))
    np.testing.assert_allclose(column.values, values, atol=1e-12)
    assert column.states.tolist() == states
