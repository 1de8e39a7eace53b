"""Whoever falsifies rows of exact sums is told no honest count: by no error, and by no number that moves with it.

A lying party, or one of two aggregators, may add anything to a sum. What that makes of a row depends on honest votes.
If it decided on an error, whoever asks again and again with another lie would find a count, and pay for nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from consilium.accounting.errors import VotesError
from consilium.accounting.events import Mechanism
from consilium.accounting.mechanisms import Interactive
from consilium.coordinator.collection.clear import Counts, seen
from consilium.coordinator.config import QueryBudget
from consilium.coordinator.label_service import LabelService
from consilium.coordinator.ledger import Ledger
from consilium.sums.masks.ring import decode, encode
from consilium.sums.masks.unmasking import clip
from tests.coordinator.mechanisms.drawing import MECHANISMS, NoNoise
from tests.federation import make_config, make_rows

EXACT = [mechanism for mechanism in MECHANISMS if not mechanism.noise_by_parties]
INTERACTIVE = Interactive(threshold=4, sigma1=4.0, sigma2=3.0, confidence=0.9)
VOTES, HONEST = 10, (3, 5, 2)


def falsified(honest: np.ndarray, lie: np.ndarray, votes: int = VOTES) -> tuple[np.ndarray, np.ndarray]:
    """Rows of an exact masked sum, int64 (queries, classes), as mechanisms get them, and which were made to fit."""
    return clip(decode(encode(honest + lie, 16), 16), 16, votes)


def with_lie(lie: int) -> tuple[np.ndarray, np.ndarray]:
    """Two rows, of which a liar moved as many votes from the first class to the second in the first one."""
    return falsified(np.array([HONEST, (9, 1, 0)]), np.array([[-lie, lie, 0], [0, 0, 0]]))


@pytest.mark.parametrize("mechanism", EXACT, ids=lambda each: each.name)
def test_whether_there_is_an_answer_tells_nothing(mechanism: Mechanism) -> None:
    p = np.full((2, 3), 1 / 3) if mechanism.needs_probabilities else None
    for lie in range(-12, 13):
        rows, _ = with_lie(lie)
        drawn = mechanism.release(lambda positions, _, rows=rows: (rows[positions], VOTES), 2, 2, NoNoise(), p)
        assert 1 <= len(drawn.labels) <= 2


def test_control_rows_that_are_held_against_their_total_give_the_count_away() -> None:
    """`draw` is for honest rows: of these it is an error exactly where the lie is more than the honest count."""
    refused = []
    for lie in range(11):
        try:
            INTERACTIVE.draw(with_lie(lie)[0], NoNoise(), np.full((2, 3), 1 / 3))
        except VotesError:
            refused.append(lie)
    assert refused == list(range(HONEST[0] + 1, 11))


class Compares(Interactive):
    """The same, which shows the numbers that it compares with its threshold, before noise."""

    def _passed(self, number: np.ndarray, noise: Any) -> np.ndarray:
        shown.append(number.copy())
        return super()._passed(number, noise)


shown: list[np.ndarray] = []


def compared(rows: np.ndarray, total: int, p: np.ndarray) -> int:
    shown.clear()
    mechanism = Compares(**INTERACTIVE.model_dump())
    mechanism.release(lambda positions, _: (rows[positions], total), 1, 1, NoNoise(), p)
    return int(shown[0][0])


@given(
    honest=st.lists(st.integers(0, 2), min_size=VOTES, max_size=VOTES),
    instead=st.integers(0, 2),
    lie=st.lists(st.integers(-(2**15), 2**15 - 1), min_size=2, max_size=2),
    p=st.lists(st.floats(0, 1), min_size=3, max_size=3),
)
def test_one_vote_moves_what_is_compared_by_one(
    honest: list[int], instead: int, lie: list[int], p: list[float]
) -> None:
    """Whatever a liar adds: the number of votes that predictions are multiplied with is public, and no row's total."""
    votes = [np.bincount(each, minlength=3)[None] for each in (honest, [instead, *honest[1:]])]
    lies = np.array([[*lie, -sum(lie)]])
    one, other = (compared(falsified(each, lies)[0], VOTES, np.array([p])) for each in votes)
    assert abs(one - other) <= 1


def test_control_a_row_s_own_total_moves_with_honest_votes() -> None:
    lies, p = np.array([[32766, -1, -32765]]), np.array([[0.746, 0.091, 0.163]])
    rows = [falsified(np.array([each]), lies)[0] for each in ((2, 2, 6), (2, 1, 7))]
    one, other = (compared(each, int(each.sum()), p) for each in rows)
    assert abs(one - other) == 2


@given(lie=st.lists(st.integers(-(2**15), 2**15 - 1), min_size=9, max_size=9), seed=st.integers(0, 9))
def test_rows_that_are_taken_for_votes_are_votes(lie: list[int], seed: int) -> None:
    """Of 20,000 votes on ten classes, whose rows go around the ring: what the ledger makes of them needs the total."""
    votes = 20_000
    honest = np.random.default_rng(seed).multinomial(votes, np.full(10, 0.1), size=1)
    rows, clipped = falsified(honest, np.array([[*lie, -sum(lie)]]), votes)
    kept = seen(rows, clipped, votes)
    assert kept.sum() == votes
    assert kept.min() >= 0


def test_a_row_that_goes_once_around_the_ring_is_not_taken_for_votes() -> None:
    """Each cell is one that votes can give, and the total is right in the ring; only not in whole numbers."""
    honest, around = np.full((1, 10), 2_000), np.full((1, 10), 8_553)
    around[0, 0] += 2**16 + 20_000 - around.sum()
    rows, clipped = falsified(honest, around - honest, 20_000)
    assert (rows == around).all()
    assert rows.max() <= 20_000
    assert clipped.all()


class Falsified:
    """A collector of ten votes on each query, the first of which is falsified by so much."""

    def __init__(self, lie: int) -> None:
        self.lie = lie

    def __call__(self, queries: np.ndarray, query_set: str, progress: Any, phase: int = 1) -> Counts:
        rows, clipped = with_lie(self.lie)
        names = tuple(f"p{at}" for at in range(VOTES))
        return Counts(rows, names, VOTES, clipped)

    def settle(self) -> None:
        pass


@pytest.mark.parametrize("mechanism", EXACT, ids=lambda each: each.name)
def test_every_lie_is_answered_and_charged_alike(
    tmp_path: Path, log: Any, monkeypatch: pytest.MonkeyPatch, mechanism: Mechanism
) -> None:
    """Through the service and its ledger, on both sides of the honest count."""
    monkeypatch.setattr("tests.federation.CLASSES", ("well", "ill", "worse"))
    config = make_config(mechanism=mechanism, query_budget=QueryBudget(queries=100, answers=100))
    charged = set()
    for lie in range(12):
        ledger = Ledger(tmp_path / f"{lie}.db", config.digest(), config.model_dump_json())
        service = LabelService(config, ledger, Falsified(lie), lambda _: NoNoise(), VOTES, log)
        assert len(service.ask(make_rows(2, 1)[0]).labels) == 2
        charged.add(ledger.spent()[0])
        ledger.close()
    assert charged == {2}
