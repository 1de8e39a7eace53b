"""Attributes: exact counts and learning by heart give them away; what is released does so by no more than luck."""

from __future__ import annotations

from functools import cache

import pytest

from consilium.simulations.attack.attributes import BY_HEART, OUTCOME, SUBJECT, TRAINED, Guessed, guessed_attributes
from consilium.simulations.attack.membership import asked_rows
from tests.simulations.attack.small import everything

MUCH_NOISE = ("federation.mechanism={name='histogram', sigma=100}",)
LABELS = ('federation.mechanism={name = "gnmax", sigma = 10.0}',)


@cache
def guessed(*overrides: str) -> list[Guessed]:
    mine = everything(*overrides)
    return guessed_attributes(mine, asked_rows(mine))


def test_counts_without_noise_tell_of_their_subject_what_noise_hides() -> None:
    of_subjects = [one for one in guessed(*MUCH_NOISE) if one.whose == SUBJECT and one.attribute != OUTCOME]
    released, control = of_subjects
    assert (released.by, control.by) == ("released counts", "counts without noise")
    assert released.attribute == control.attribute
    assert control.interval[0] > 0.1
    assert released.beyond < 0.1 * control.beyond


def test_what_learnt_by_heart_tells_its_rows_and_a_student_does_not() -> None:
    of_rows = {one.by: one for one in guessed(*MUCH_NOISE) if one.whose == TRAINED and one.attribute == OUTCOME}
    assert of_rows[BY_HEART].control
    assert of_rows[BY_HEART].interval[0] > 0.2
    assert of_rows[BY_HEART].value > 0.95
    assert abs(of_rows["the student's model"].beyond) < 0.1
    for one in of_rows.values():
        assert one.interval[0] <= one.beyond <= one.interval[1]


def test_labels_have_no_counts_to_guess_from() -> None:
    assert {one.whose for one in guessed(*LABELS)} == {TRAINED}


@pytest.mark.parametrize("key", ["whose", "attribute", "by", "control", "auc", "beyond", "interval", "rows"])
def test_values_are_plain(key: str) -> None:
    assert key in guessed(*MUCH_NOISE)[0].to_json()
