"""What a guarantee prints: never less than it is, and what a large delta means."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consilium.accounting.guarantees import Guarantee, Kind, rounded_up
from consilium.accounting.units import Neighbouring, Towards, Unit


@given(st.floats(0, 1e6))
def test_a_printed_epsilon_is_never_below_the_real_one(epsilon):
    over = Fraction(rounded_up(epsilon)) - Fraction(repr(epsilon))
    assert 0 <= over < Fraction(1, 10_000)


@pytest.mark.parametrize(("delta", "large"), [(1e-5, False), (1e-3, False), (0.0011, True), (0.1, True)])
def test_a_large_delta_is_put_in_words(delta, large):
    guarantee = Guarantee(
        epsilon=0.72101, delta=delta, order=3.0, unit=Unit.PARTY, neighbouring=Neighbouring.REPLACE,
        teachers_per_party=1, towards=Towards.STUDENT, kind=Kind.WORST_CASE, method="exact",
    )  # fmt: skip
    text = str(guarantee)
    assert text.startswith(f"epsilon 0.7211 at delta {delta:g}")
    assert ("is large" in text) == large
