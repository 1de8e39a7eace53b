"""What a promise is said to mean is never less than what it allows."""

from __future__ import annotations

import math

import pytest

from consilium.protocol.releases import ReleaseKind, widest
from consilium.report.disclosure import Disclosure, in_plain_words, people, times_as_likely


def test_without_protection_nobody_is_protected() -> None:
    assert [each.protected for each in people()] == ["yes", "no", "in part"]
    assert [each.protected for each in people(unprotected="seeded")] == ["no", "no", "no"]
    assert all(each.why for each in people("hospital", "hospitals", "one record"))


def test_kinds_are_ordered_by_what_they_may_say() -> None:
    for kind in ReleaseKind:
        assert widest([kind, ReleaseKind.WINNER]) is kind
        assert Disclosure(kind, "secure").release.noun in ("label", "noisy histogram")


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.693, 1.0, 2.3025, 4.6, 5.0, 9.99, 13.8])
def test_a_factor_is_rounded_up_and_by_less_than_a_hundredth(epsilon: float) -> None:
    told = float(times_as_likely(epsilon).removesuffix(" times").replace(",", ""))
    assert math.exp(epsilon) <= told + 1e-9 <= math.exp(epsilon) * 1.01


@pytest.mark.parametrize("epsilon", [13.9, 40.0, 85.47, 1e4])
def test_a_large_factor_is_a_power_of_ten_above_it(epsilon: float) -> None:
    power = int(times_as_likely(epsilon).removeprefix("10^").removesuffix(" times"))
    assert power - 1 <= epsilon / math.log(10) <= power


@pytest.mark.parametrize(
    ("unit", "neighbouring", "subject"),
    [
        ("party", "replace", "Other data of a whole party (a hospital with all its records) make no outcome"),
        ("record", "replace", "Other data of one record (a single case at one party) make no outcome"),
        ("patient", "add_or_remove", "Adding or removing one patient (all records at one party) makes no outcome"),
    ],
)
def test_it_is_said_of_the_unit(unit: str, neighbouring: str, subject: str) -> None:
    told = in_plain_words(1.0, 1e-6, unit, neighbouring)
    assert told.startswith(subject)
    assert "2.72 times as likely, plus a chance of 1e-06 (delta)" in told
    assert "right in at most 74 in 100 cases; a coin is in 50 in 100." in told
    assert "not private" in in_plain_words(math.inf, 1e-6, unit, neighbouring)
