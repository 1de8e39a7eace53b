"""One query budget for many divisions: no noise is paid for queries that cannot be asked."""

from __future__ import annotations

from typing import Any

import pytest

from consilium.simulations.study.compute import _within_rows

FEDERATION: dict[str, Any] = {
    "mechanism": {"name": "histogram"},
    "query_budget": {"queries": 300, "answers": 200},
    "privacy": {"epsilon": 1.0, "delta": 1e-5, "unit": "party"},
}


@pytest.mark.parametrize(("rows", "queries", "answers"), [(16, 16, 16), (250, 250, 200), (1000, 300, 200)])
def test_each_different_row_is_asked_once_at_most(rows: int, queries: int, answers: int) -> None:
    assert _within_rows(FEDERATION, rows)["query_budget"] == {"queries": queries, "answers": answers}


@pytest.mark.parametrize(
    "change", [{"mechanism": {"name": "histogram", "sigma": 40.0}}, {"privacy": {"delta": 1e-5, "unit": "party"}}]
)
def test_noise_and_budgets_that_are_stated_stay(change: dict[str, Any]) -> None:
    federation = FEDERATION | change
    assert _within_rows(federation, 16) == federation
