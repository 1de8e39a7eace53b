"""A question that failed counts alike at the coordinator and at every party that voted, and can be asked again.

The control: a coordinator that does not write down whom it asked says that more can be asked than parties allow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
from consilium.protocol.label_source import Unanswered
from consilium.protocol.noise import SeededNoise
from tests.federation import FakeTransport, drop, make_config, make_homes, make_rows, make_secure

PARTIES = 4
BUDGET = QueryBudget(queries=20, answers=20)
STAGE_OF = {"plaintext": "query.vote", "secure": "query.sa_consistency"}


class Federation:
    """One federation of four parties with real accounts, whose messages of one kind can be lost."""

    def __init__(self, folder: Path, collection: str, noted: bool = True) -> None:
        homes = make_homes(folder / "homes", PARTIES, collection=collection)
        keys: VoteKeys = PLAINTEXT
        changes: dict[str, Any] = {"minimum_parties": 4}
        if collection == "secure":
            keys = make_secure(homes, folder)
            changes["roster"] = keys.roster.digest
        self.config = make_config(
            collection=collection,
            mechanism=GNMax(sigma=2.0),
            privacy=Privacy(unit=Unit.PARTY, delta=1e-5),
            query_budget=BUDGET,
            **changes,
        )
        self.log_path = folder / "events.jsonl"
        self.transport, self.log = FakeTransport(homes), EventLog(self.log_path)
        self.ledger = Ledger.of(folder / "ledger.db", self.config)
        greeting = Greeting(self.ledger.position)
        self.members = enrol(self.transport, self.config, self.log, greeting)
        self.members = train(self.transport, self.config, self.members, self.log).members
        self.kind = STAGE_OF[collection]

        standing = Standing(self.ledger, seen=SeenPositions(folder / "seen.json"))
        if not noted:
            standing.voting = lambda queries, parties, session="": None  # type: ignore[method-assign]
        means = Collecting(self.transport, self.config, self.members, folder, standing, greeting, self.log)
        noise = SeededNoise
        self.service = LabelService(self.config, self.ledger, keys.collector(means), noise, PARTIES, self.log)

    def losing(self) -> None:
        """The next answers of two parties do not come."""
        self.transport.faults |= dict.fromkeys(((0, self.kind), (1, self.kind)), drop)

    def mended(self) -> None:
        self.transport.faults.clear()

    def answered(self) -> list[int]:
        """Of each party, how many queries it has answered."""
        return [node.store.answered_in(self.config.digest(), 1) for node in self.transport.parties.values()]


@pytest.fixture(params=["plaintext", "secure"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Federation]]:
    made: list[Federation] = []

    def build(**more: Any) -> Federation:
        made.append(Federation(tmp_path / str(len(made)), request.param, **more))
        return made[-1]

    yield build
    for federation in made:
        federation.ledger.close()
        federation.log.close()


def rows(start: int, stop: int) -> np.ndarray:
    return make_rows(40, 3)[0][start:stop]


def fail(federation: Federation, asked: np.ndarray) -> None:
    federation.losing()
    with pytest.raises(ConsiliumError):
        federation.service.ask(asked)
    federation.mended()


def test_both_sides_count_what_a_failed_question_used_up(make: Callable[..., Federation]) -> None:
    federation = make()
    federation.service.ask(rows(0, 5))
    fail(federation, rows(5, 12))
    used = federation.ledger.unanswered()
    assert used == Unanswered(7, ("p00", "p01", "p02", "p03"))
    assert federation.answered() == [5 + used.queries] * PARTIES
    assert federation.ledger.spent()[0] == 5, "nothing was released of them, and nothing charged"
    assert federation.service.describe().queries_left == BUDGET.queries - 12
    assert [event.kind for event in read_events(federation.log_path)].count("not-answered") == 1


def test_the_same_questions_again_use_up_nothing_more(make: Callable[..., Federation]) -> None:
    federation = make()
    fail(federation, rows(0, 15))
    left = federation.service.describe().queries_left
    assert left == 5
    answers = federation.service.ask(rows(0, 15))
    assert len(answers) == 15 and federation.ledger.unanswered() == Unanswered()
    assert federation.service.describe().queries_left == left
    assert federation.answered() == [15] * PARTIES
    federation.service.ask(rows(15, 20))
    assert federation.answered() == [BUDGET.queries] * PARTIES


def test_others_are_asked_no_further_than_the_parties_allow(make: Callable[..., Federation]) -> None:
    federation = make()
    fail(federation, rows(0, 15))
    with pytest.raises(BudgetExceeded, match="6 new queries asked, 5 queries"):
        federation.service.ask(rows(15, 21))
    federation.service.ask(rows(15, 20))
    if federation.config.noise_in_sums:  # the others' session is over: each is charged anew
        with pytest.raises(BudgetExceeded, match="15 new queries asked, 0 queries"):
            federation.service.ask(rows(0, 15))
    else:
        federation.service.ask(rows(0, 15))


def test_control_a_coordinator_that_does_not_count_them_asks_what_parties_refuse(
    make: Callable[..., Federation],
) -> None:
    federation = make(noted=False)
    fail(federation, rows(0, 15))
    assert federation.service.describe().queries_left == BUDGET.queries, "it is wrong"
    with pytest.raises(ConsiliumError, match=r"promise|0 parties|need"):
        federation.service.ask(rows(15, 21))
    assert federation.answered() == [15] * PARTIES


def test_a_question_that_failed_before_anybody_voted_uses_up_nothing(make: Callable[..., Federation]) -> None:
    federation = make()
    if federation.kind == "query.vote":
        pytest.skip("plaintext votes are asked at once")
    federation.transport.faults |= {(0, "query.sa_share"): drop, (1, "query.sa_share"): drop}
    with pytest.raises(ConsiliumError):
        federation.service.ask(rows(0, 7))
    assert federation.ledger.unanswered() == Unanswered()
    assert federation.answered() == [0] * PARTIES
