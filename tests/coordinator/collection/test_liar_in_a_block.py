"""One liar in exact sums: nothing is used up, and its block is out after a bounded number of spoiled sums."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from consilium.coordinator.collection.history import most_spoiled
from consilium.coordinator.events import EventLog
from consilium.sums.errors import BadSum
from consilium.sums.masks.party import checked_votes
from tests.coordinator.collection.cluster import Cluster, queries, told

pytestmark = pytest.mark.slow
LIAR, BLOCK = 5, ("p04", "p05")


class Lying:
    """A cluster in which one party gives a vote too many where `lies` says so."""

    def __init__(
        self, root: Path, monkeypatch: pytest.MonkeyPatch, lies: Callable[[], bool], parties: int = 10, liar: int = LIAR
    ) -> None:
        self.made = Cluster(root, EventLog(root / "events.jsonl"), parties=parties)
        self.members = self.made.ready()

        def votes_of(votes: np.ndarray, terms) -> np.ndarray:
            own = checked_votes(votes, terms)
            if self.made.transport.requests[-1][0] != liar or not lies():
                return own
            return own + np.eye(2, dtype=np.int64)[0]

        monkeypatch.setattr("consilium.party.masked_session.checked_votes", votes_of)

    def ask(self, seed: int) -> tuple[str, ...]:
        """Parties in a sum on a few queries, by a coordinator that was started just now."""
        collector = self.made.collector(self.members)
        found = collector(*queries(5, seed))
        collector.settle()
        return found.parties

    @property
    def sessions(self) -> int:
        """That were begun."""
        return sum(event["stage"] == "secure sum: masked" for event in told(self.made, "stage"))


@pytest.mark.proofs
def test_a_block_that_spoils_sums_is_found_and_left_out_in_the_same_request(tmp_path: Path, monkeypatch) -> None:
    """It lies always: ten parties in five blocks of two, of which a sum can do without one."""
    lying = Lying(tmp_path, monkeypatch, lambda: True)
    asked = 0
    while not told(lying.made, "excluded"):
        parties = lying.ask(asked)
        assert "p05" not in parties and len(parties) == 8
        asked += 1
    assert lying.sessions - asked <= most_spoiled(5, 1)
    assert {event["party"] for event in told(lying.made, "excluded")} == {*BLOCK}
    (said,) = told(lying.made, "false-votes")
    assert said["what"].startswith("one of p04, p05 sends false votes")
    before = lying.sessions
    assert len(lying.ask(100)) == 8 and lying.sessions == before + 1, "nobody has to look any more"


def test_a_block_without_which_there_is_no_sum_is_not_left_out(tmp_path: Path, monkeypatch) -> None:
    """Of seven in three blocks five must be there, and the liar is in the block of three. Nothing is used up."""
    lies = [True]
    lying = Lying(tmp_path, monkeypatch, lambda: lies[0], parties=7, liar=1)
    for seed in range(3):
        with pytest.raises(BadSum, match="nothing was used up"):
            lying.ask(seed)
    assert not told(lying.made, "excluded")
    lies[0] = False
    assert len(lying.ask(0)) == 7
