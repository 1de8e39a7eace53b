"""Interactive on verified exact sums, where an aggregator may move counts: it compares by the number of votes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from consilium.accounting.checks import check_votes
from consilium.accounting.errors import VotesError
from consilium.coordinator.config import QueryBudget
from consilium.coordinator.label_service import LabelService
from consilium.coordinator.ledger import Ledger
from consilium.coordinator.mechanisms import Drawn
from consilium.coordinator.mechanisms.checked import Confident, Interactive
from consilium.protocol.noise import NoiseSource, SeededNoise
from consilium.sums.aggregators import half, leader
from tests.verified.small import made, queries_of

PARTIES = 7
LIES = range(PARTIES)


@pytest.mark.parametrize("protected", [True, False], ids=["protected", "control"])
def test_a_lying_aggregator_learns_nothing_from_whether_there_is_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protected: bool
) -> None:
    """It adds x to one class and takes x + 1 from the other: made to fit, both counts are at an end if the first is at
    least 7 - x, and add up to 7. Control: where rows are held against their totals, all other lies are errors.
    """
    if not protected:

        def held(self: Interactive, votes: np.ndarray, _: int, noise: NoiseSource, p: np.ndarray | None) -> Drawn:
            total = self._total(votes)
            return Confident._drawn(self, check_votes(votes, total), total, noise, p)

        monkeypatch.setattr(Interactive, "_drawn", held)
    mechanism = Interactive(threshold=1, sigma1=4.0, sigma2=4.0, confidence=0.9)
    budget, p = QueryBudget(queries=100, answers=100), np.full((6, 2), 0.5)
    small = made(tmp_path, parties=PARTIES, mechanism=mechanism, query_budget=budget, exact_sums=True)
    x, failed = queries_of(6), []
    honest = int(small.ask(x).votes[0, 0])
    for lie in LIES:

        def moved(field: Any, one: np.ndarray, other: np.ndarray, *more: Any, lie: int = lie) -> Any:
            changed = other.astype(np.int64)
            changed[0] += [lie, -lie - 1]
            return half.add_up(field, one, changed % field.prime, *more)

        monkeypatch.setattr(leader, "add_up", moved)
        ledger = Ledger(tmp_path / f"{lie}.db", small.config.digest(), small.config.model_dump_json())
        service = LabelService(small.config, ledger, lambda _: SeededNoise(1), small.collector(), PARTIES, small.log)
        try:
            service.ask(x, probabilities=p)
        except VotesError:
            failed.append(lie)
        assert ledger.spent()[0] == (0 if lie in failed else 6)
        ledger.close()
    assert 0 < honest < PARTIES
    assert failed == ([] if protected else [lie for lie in LIES if lie < PARTIES - honest])
