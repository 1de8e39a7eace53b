"""A question that failed counts alike at the coordinator and at every party that voted, and can be asked again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from consilium.accounting.mechanisms import GNMax
from consilium.accounting.units import Unit
from consilium.coordinator.collection.admission import Greeting, SeenPositions, enrol, train
from consilium.coordinator.collection.means import Collecting, Standing, VoteKeys
from consilium.coordinator.collection.plaintext import PLAINTEXT
from consilium.coordinator.config import Privacy, QueryBudget
from consilium.coordinator.events import EventLog, read_events
from consilium.coordinator.label_service import LabelService
from consilium.coordinator.ledger import Ledger
from consilium.protocol.errors import BudgetExceeded, ConsiliumError
from consilium.protocol.noise import SeededNoise
from tests.federation import FakeTransport, drop, make_config, make_homes, make_rows, make_secure

PARTIES = 4
BUDGET = QueryBudget(queries=20, answers=20)
STAGE_OF = {"plaintext": "query.vote", "secure": "query.sa_consistency"}


class Federation:
    """One federation of four parties with real accounts, whose messages of one kind can be lost."""

    def __init__(self, folder: Path, collection: str) -> None:
        homes = make_homes(folder / "homes", PARTIES, collection=collection)
        keys: VoteKeys = PLAINTEXT
        changes: dict[str, Any] = {"minimum_parties": 4}
        if collection == "secure":
            keys = make_secure(homes, folder)
            changes["roster"] = keys.roster.digest
        privacy, mechanism = Privacy(unit=Unit.PARTY, delta=1e-5), GNMax(sigma=2.0)
        self.config = make_config(
            collection=collection, mechanism=mechanism, privacy=privacy, query_budget=BUDGET, **changes
        )
        self.log_path = folder / "events.jsonl"
        self.transport, self.log = FakeTransport(homes), EventLog(self.log_path)
        self.ledger = Ledger.of(folder / "ledger.db", self.config)
        greeting = Greeting(self.ledger.position)
        enrolled = enrol(self.transport, self.config, self.log, greeting)
        members = train(self.transport, self.config, enrolled, self.log).members
        self.kind = STAGE_OF[collection]
        standing = Standing(self.ledger, seen=SeenPositions(folder / "seen.json"))
        means = Collecting(self.transport, self.config, members, folder, standing, greeting, self.log)
        self.service = LabelService(self.config, self.ledger, keys.collector(means), SeededNoise, PARTIES, self.log)

    def answered(self) -> list[int]:
        """Of each party, how many queries it has answered."""
        return [node.store.answered_in(self.config.digest(), 1) for node in self.transport.parties.values()]


@pytest.fixture(params=["plaintext", "secure"])
def federation(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Federation]:
    made = Federation(tmp_path, request.param)
    yield made
    made.ledger.close()
    made.log.close()


def rows(start: int, stop: int) -> np.ndarray:
    return make_rows(40, 3)[0][start:stop]


def fail(federation: Federation, asked: np.ndarray) -> None:
    """The answers of two parties do not come."""
    federation.transport.faults |= dict.fromkeys(((0, federation.kind), (1, federation.kind)), drop)
    with pytest.raises(ConsiliumError):
        federation.service.ask(asked)
    federation.transport.faults.clear()


def test_both_sides_count_what_a_failed_question_used_up_and_the_same_again_is_free(federation: Federation) -> None:
    service, ledger = federation.service, federation.ledger
    service.ask(rows(0, 5))
    fail(federation, rows(5, 12))
    assert ledger.unanswered() == 7
    assert federation.answered() == [12] * PARTIES
    assert ledger.spent()[0] == 5, "nothing was released of them, and nothing charged"
    assert service.describe().queries_left == 8
    assert [event.kind for event in read_events(federation.log_path)].count("not-answered") == 1
    with pytest.raises(BudgetExceeded, match="9 new queries asked, 8 queries"):
        service.ask(rows(12, 21))
    assert len(service.ask(rows(5, 12))) == 7 and ledger.unanswered() == 0
    assert (service.describe().queries_left, federation.answered()) == (8, [12] * PARTIES)
    service.ask(rows(12, 20))
    assert federation.answered() == [BUDGET.queries] * PARTIES


def test_others_are_asked_no_further_than_the_parties_allow(federation: Federation) -> None:
    if federation.config.noise_in_sums:  # what failed before anybody voted uses up nothing
        kind, federation.kind = federation.kind, "query.sa_share"
        fail(federation, rows(0, 7))
        assert (federation.ledger.unanswered(), federation.answered()) == (0, [0] * PARTIES)
        federation.kind = kind
    fail(federation, rows(0, 15))
    federation.service.ask(rows(15, 20))
    if federation.config.noise_in_sums:  # the others' session is over: each is charged anew
        with pytest.raises(BudgetExceeded, match="15 new queries asked, 0 queries"):
            federation.service.ask(rows(0, 15))
    else:
        federation.service.ask(rows(0, 15))
