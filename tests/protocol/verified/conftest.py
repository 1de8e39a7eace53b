"""Both fields of verified votes, for tests of what holds in either."""

from __future__ import annotations

import pytest

from consilium.sums.aggregators import terms
from consilium.sums.field import Field


@pytest.fixture(params=terms.FIELDS, ids=[f"modulo {numbers.prime}" for numbers in terms.FIELDS.values()])
def numbers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Field:
    """All sessions of a test are in this field, whatever their rosters need."""
    monkeypatch.setattr(terms, "version_for", lambda reach: request.param)
    return terms.FIELDS[request.param]
