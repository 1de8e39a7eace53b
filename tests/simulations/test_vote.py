"""Sums of recorded votes are the sums of the votes, however many parties are counted at a time."""

from __future__ import annotations

import numpy as np
import pytest

import consilium.simulations.vote as module
from consilium.simulations.vote import TeacherVotes
from tests.simulations.methods.cases import taught

PARTIES, TEACHERS, ROWS, CLASSES = 7, 2, 30, 5
NAMES = tuple(f"party-{number}" for number in range(PARTIES))


def some_said(ties: int) -> TeacherVotes:
    """Votes by lot; the first teachers of the first `ties` parties were torn between two classes on row 3."""
    generator = np.random.default_rng(0)
    said = generator.integers(0, CLASSES, (PARTIES, TEACHERS, ROWS)).astype(np.uint8)
    tied = np.zeros((ties, CLASSES), dtype=bool)
    tied[:, :2] = True
    party, teacher = np.arange(ties, dtype=np.int32), np.zeros(ties, dtype=np.int32)
    return TeacherVotes(said, party, teacher, np.full(ties, 3, dtype=np.int32), tied)


@pytest.mark.parametrize("at_once", [1, 50, 10**6], ids=["row by row", "three rows", "all"])
@pytest.mark.parametrize("ties", [0, 6])
@pytest.mark.parametrize("rows", [[3], [5, 3, 29, 0], list(range(ROWS))], ids=["one", "some", "all rows"])
def test_totals_are_the_sum_of_the_votes(
    at_once: int, ties: int, rows: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    said = some_said(ties)
    asked = np.array(rows), NAMES, "federation", [f"query-{row}" for row in rows], CLASSES
    expected = said.votes(*asked).sum(axis=0)
    monkeypatch.setattr(module, "_AT_ONCE", at_once)
    found = said.totals(*asked)
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == np.int64


def test_what_was_said_stays_as_it_was() -> None:
    """Lots are drawn into a copy."""
    said = some_said(6)
    before = said.cast.copy()
    said.totals(np.arange(ROWS), NAMES, "federation", [str(row) for row in range(ROWS)], CLASSES)
    np.testing.assert_array_equal(said.cast, before)


def test_what_no_lot_decides_is_counted_once_for_all_federations(monkeypatch: pytest.MonkeyPatch) -> None:
    said, rows, ids = some_said(6), np.arange(ROWS), [str(row) for row in range(ROWS)]
    totals = [said.totals(rows, NAMES, federation, ids, CLASSES) for federation in ("one", "other", "third")]
    assert any((totals[0] != other).any() for other in totals[1:])
    monkeypatch.delattr(module, "_AT_ONCE")  # without which nothing is counted
    np.testing.assert_array_equal(said.totals(rows, NAMES, "one", ids, CLASSES), totals[0])


def test_what_a_party_has_by_itself_is_one_model_of_all_its_rows() -> None:
    """Not the mean of its teachers on shards, each of a few rows, beside which any student would look good."""
    four = "federation.teachers_per_party=4", "federation.privacy.unit=record"
    of_one, of_four = taught(0.0)[1], taught(0.0, *four)[1]
    np.testing.assert_allclose(of_four.test_scores, of_one.test_scores, atol=1e-6)
    np.testing.assert_allclose(of_four.test_right, of_one.test_right)
    assert not np.array_equal(of_four.pool.cast[:, 0], of_one.pool.cast[:, 0])
