"""One liar in exact sums: nothing is used up, and its block is out after a bounded number of spoiled sums."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from consilium.coordinator.collection.history import HISTORY, most_spoiled
from consilium.coordinator.collection.secure import SecureCollector
from consilium.coordinator.events import EventLog
from consilium.party.spend import SpendStore
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


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.proofs)])
def test_one_that_lies_at_random_uses_nothing_up_and_is_found(tmp_path: Path, monkeypatch, seed: int) -> None:
    """In every other sum that it is in. Each party counts a query once, in however many sums it was."""
    rng = np.random.default_rng(seed)
    lying = Lying(tmp_path, monkeypatch, lambda: bool(rng.random() < 0.5))
    asked = 0
    while not told(lying.made, "excluded"):
        lying.ask(1000 * seed + asked)
        asked += 1
        assert asked < 60
    assert lying.sessions - asked <= most_spoiled(5, 1)
    assert {event["party"] for event in told(lying.made, "excluded")} == {*BLOCK}
    counted = [SpendStore(home / "state" / "spend.db").answered() for home in lying.made.homes]
    assert max(counted) == 5 * asked


def test_control_where_nobody_is_looked_for_each_request_fails(tmp_path: Path, monkeypatch) -> None:
    """What was before: the sum is spoiled each time. That its queries are not used up is the parties' part."""
    monkeypatch.setattr(SecureCollector, "_doubt", lambda self, summed: False)
    lying = Lying(tmp_path, monkeypatch, lambda: True)
    for seed in (1, 1, 2):
        with pytest.raises(BadSum):
            lying.ask(seed)
    monkeypatch.undo()
    assert len(lying.ask(1)) == 10, "the same queries, once it votes as it should"


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


def test_suspects_are_known_to_a_coordinator_that_was_started_anew(tmp_path: Path, monkeypatch) -> None:
    lies = [True]
    lying = Lying(tmp_path, monkeypatch, lambda: lies[0])
    lying.ask(0)
    kept = json.loads((tmp_path / "sessions" / HISTORY).read_text())["suspects"]
    assert [4, 5] in kept or told(lying.made, "excluded")
    lies[0] = False
    assert len(lying.ask(1)) == 8, "one of the suspects is set aside, though nobody lies now"
