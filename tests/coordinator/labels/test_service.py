"""The label service in this process: query budget, repeated queries, that a label never leaves uncharged, and released
histograms: the noisy counts that are charged, and nothing else. Two coordinators on one ledger: no query is charged
twice, none gets two labels, none is lost."""

from __future__ import annotations

import json
import resource
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from consilium.accounting.mechanisms import GNMax, Histogram
from consilium.accounting.target import worst_case
from consilium.accounting.units import Unit
from consilium.coordinator.collection.admission import NotedCollector, enrol, train
from consilium.coordinator.collection.base import Counts
from consilium.coordinator.collection.means import Collecting, Standing, VoteKeys
from consilium.coordinator.collection.plaintext import PLAINTEXT
from consilium.coordinator.config import Privacy, QueryBudget
from consilium.coordinator.events import EventLog, read_events
from consilium.coordinator.label_service import LabelService
from consilium.coordinator.ledger import Ledger
from consilium.coordinator.privacy import promised, spent
from consilium.coordinator.verify.ledger import Contradiction, read_ledger
from consilium.protocol.errors import BudgetExceeded, ConfigError, ConsiliumError, DataError, LedgerError
from consilium.protocol.label_source import NO_LABEL, Outcome
from consilium.protocol.noise import SeededNoise, SystemNoise
from consilium.protocol.queries import canonical_queries, query_ids
from tests.federation import FakeTransport, drop, make_config, make_homes, make_rows, make_secure

T = 10
X = make_rows(40, 3)[0]


def exact(rows: np.ndarray) -> np.ndarray:
    ones = (np.abs(rows[:, 0]) * 7).astype(np.int64) % (T + 1)
    return np.column_stack([T - ones, ones])


class Votes:
    """A collector that gives each query these votes and counts how often it was asked."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def settle(self):
        pass

    def collect(self, queries, sigma):
        self.asked.append(len(queries.rows))
        return Counts(exact(queries.rows), tuple(f"p{i}" for i in range(T)), T)


class Asked:
    def __init__(self, folder: Path, log, name: str = "ledger.db", seed: int = 1, **changes) -> None:
        self.config, self.votes = make_config(**changes), Votes()
        self.ledger = Ledger.of(folder / name, self.config)
        self.service = LabelService(
            self.config, self.ledger, self.votes, lambda batch: SeededNoise(1000 * seed + batch), T, log
        )
        self.ask = self.service.ask


@pytest.fixture
def make(tmp_path: Path, log):
    made: list[Asked] = []

    def build(**changes) -> Asked:
        made.append(Asked(tmp_path, log, **changes))
        return made[-1]

    yield build
    for each in made:
        each.ledger.close()


def test_asking_again_returns_the_recorded_label_and_costs_nothing(make) -> None:
    """Also of a new process, with other noise; and of equal rows."""
    made, x = make(), X[:30]
    first, spent_before = made.ask(x), made.ledger.spent()
    assert set(np.unique(first.outcomes)) <= {Outcome.ANSWERED, Outcome.ABSTAINED}
    assert ((first.labels == NO_LABEL) == (first.outcomes != Outcome.ANSWERED)).all()
    assert (made.ask(x[::-1]).labels == first.labels[::-1]).all()
    twice = made.ask(np.concatenate([x[:5], x[:5], X[30:], X[30:]]))
    assert (twice.labels[:5] == twice.labels[5:10]).all() and (twice.labels[10:20] == twice.labels[20:]).all()
    assert made.votes.asked == [30, 10] and made.ledger.spent()[0] == 40
    assert spent_before == (30, first.answered.sum())
    made.ledger.close()
    assert (make(seed=2).ask(x).labels == first.labels).all()


def test_a_request_beyond_the_cap_is_refused_whole(make) -> None:
    made = make(query_budget=QueryBudget(queries=25, answers=25))
    with pytest.raises(BudgetExceeded, match="26 new queries asked, 25 queries") as caught:
        made.ask(X[:26])
    assert (caught.value.exit_code, made.votes.asked, made.ledger.spent()) == (5, [], (0, 0))
    made.ask(X[:25])
    with pytest.raises(BudgetExceeded, match="1 new queries asked, 0 queries"):
        made.ask(X[24:26])


def test_the_cap_on_answers_cuts_and_what_is_beyond_is_neither_asked_nor_paid(make) -> None:
    whole = make(mechanism=GNMax(sigma=1.0), query_budget=QueryBudget(queries=12, answers=12))
    assert (whole.ask(X[:12]).outcomes == Outcome.ANSWERED).all() and whole.ledger.spent() == (12, 12)
    made = make(name="second.db", query_budget=QueryBudget(queries=40, answers=7))
    answers = made.ask(X)
    assert answers.answered.sum() == 7
    last = np.flatnonzero(answers.answered)[-1]
    assert (answers.outcomes[last + 1 :] == Outcome.NOT_ASKED).all()
    assert (answers.outcomes[: last + 1] != Outcome.NOT_ASKED).all()
    again = made.ask(X)  # the same request, cut at the same place
    assert (again.labels == answers.labels).all() and (again.outcomes == answers.outcomes).all()
    with pytest.raises(BudgetExceeded, match="0 answers are left"):
        made.ask(X[last + 1 :])
    assert made.ledger.spent() == (last + 1, 7)


def test_spent_is_never_above_promised(make) -> None:
    made = make(query_budget=QueryBudget(queries=40, answers=7))
    made.ask(X[:5])
    made.ask(X)
    batches, config = made.ledger.batches(), made.config
    guarantees, top = spent(config, batches), promised(config).epsilon
    answered = sum(int(batch.answered.sum()) for batch in batches)
    asked = sum(len(batch.query_ids) for batch in batches)
    together = worst_case([config.event(asked, answered)], config.privacy.delta)
    assert guarantees["spent"].epsilon == pytest.approx(together.epsilon, rel=1e-3), "in two rounds, as in one"
    assert 0 < guarantees["data_dependent"].epsilon <= guarantees["spent"].epsilon <= top
    assert promised(config).publishable
    assert guarantees["spent"].to_json()["kind"] == "realised"  # chosen after the fact: visible, and no promise
    assert not guarantees["spent"].publishable
    assert not guarantees["data_dependent"].publishable
    assert made.service.describe().epsilon == top


def test_the_charge_is_durable_before_the_label_is_returned(make, tmp_path: Path, monkeypatch) -> None:
    made, seen = make(), []
    real = made.ledger.find

    def find(ids):
        with sqlite3.connect(tmp_path / "ledger.db") as other:  # what another process can read at that moment
            seen.append(other.execute("SELECT COUNT(*) FROM releases").fetchone()[0])
        return real(ids)

    monkeypatch.setattr(made.ledger, "find", find)
    made.ask(X[:10])
    assert seen == [0, 10]  # labels are read back from the ledger, after the commit


@pytest.mark.parametrize("rows", [np.zeros((0, 3)), np.zeros((2, 2)), np.full((2, 3), np.nan)])
def test_queries_that_cannot_be_asked_are_refused(make, rows) -> None:
    made = make()
    with pytest.raises(DataError):
        made.ask(rows)
    assert (made.votes.asked, made.ledger.spent()) == ([], (0, 0))


def test_seeded_noise_and_a_ledger_in_memory_are_refused_outside_a_simulation() -> None:
    config = make_config(simulation=False, seed=-1, noise_seed=None)
    with pytest.raises(ConfigError, match="seeded noise"):
        LabelService(config, Ledger.in_memory(config), Votes(), SeededNoise, T)
    with pytest.raises(ConfigError, match="in memory outside a simulation"):
        LabelService(config, Ledger.in_memory(config), Votes(), lambda _: SystemNoise(), T)


COUNTS = {"mechanism": Histogram(sigma=3.0), "query_budget": QueryBudget(queries=100, answers=100)}


def test_the_student_gets_votes_with_the_noise_that_is_charged_and_counts_are_in_no_text(make) -> None:
    made = make(**COUNTS)
    answers, config = made.ask(X), made.config
    terms, released = made.service.describe(), answers.counts
    assert released is not None and (terms.most_votes, terms.count_sigma) == (T, 3.0)
    assert released.tolist() == (exact(X) + SeededNoise(1001).gaussian(3.0, (40, 2))).tolist()
    assert answers.labels.tolist() == released.argmax(axis=1).tolist()
    [batch] = made.ledger.batches()
    unit = {"unit": config.privacy.unit, "neighbouring": config.privacy.neighbouring}
    event = COUNTS["mechanism"].event(asked=40, answered=40, teachers_per_party=1, **unit)
    assert batch.event == event.to_json()
    numbers = json.dumps(released.tolist())[2:-2].split("], [")
    assert not any(number in text for number in numbers for text in (repr(answers), repr(batch), repr(made.service)))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda drawn: {"counts": None}, "has no histograms"),
        (lambda drawn: {"counts": drawn.counts[:, :1]}, "histograms of 1 classes"),
        (lambda drawn: {"labels": 1 - drawn.labels}, "is not the largest count"),
    ],
)
def test_a_ledger_that_contradicts_its_mechanism_is_found(make, tmp_path: Path, monkeypatch, change, told) -> None:
    """Written by the coordinator itself, chain and all."""
    made, commit = make(**COUNTS), Ledger.commit
    monkeypatch.setattr(
        Ledger, "commit", lambda self, batch, *budget: commit(self, replace(batch, **change(batch)), *budget)
    )
    made.ask(X[:5])
    made.ledger.close()
    with pytest.raises(Contradiction, match=told):
        read_ledger(tmp_path / "ledger.db")


ROWS = 150


BUDGET = QueryBudget(queries=4000, answers=4000)
REAL = make_config(simulation=False, noise_seed=None, seed=-1, query_budget=BUDGET)
"""With real noise, as a deployed one."""


def serve(ledger: Ledger) -> LabelService:
    return LabelService(REAL, ledger, Votes(), lambda _: SystemNoise(), T)


def test_two_coordinators_and_many_students(tmp_path: Path) -> None:
    """Two hundred requests of one to three rows each; each coordinator has the ledger open for itself."""
    x = canonical_queries(make_rows(ROWS, 11)[0], 3)
    ids, generator = query_ids(x), np.random.default_rng(0)
    wanted = [generator.choice(ROWS, size=generator.integers(1, 4), replace=False) for _ in range(200)]
    with ExitStack() as stack:
        ledgers = [stack.enter_context(closing(Ledger.of(tmp_path / "ledger.db", REAL))) for _ in range(2)]
        services = [serve(ledger) for ledger in ledgers]

        def ask(number: int) -> list[tuple[str, int, int]]:
            answers = services[number % 2].ask(x[wanted[number]])
            names = [ids[row] for row in wanted[number]]
            return list(zip(names, answers.outcomes.tolist(), answers.labels.tolist(), strict=True))

        with ThreadPoolExecutor(16) as pool:
            got = {each for said in pool.map(ask, range(200)) for each in said}
        batches, recorded = ledgers[0].batches(), ledgers[1].find(ids)
        asked, answered = ledgers[0].spent()
    assert len({query_id for query_id, _, _ in got}) == len(got), "one query, two labels"
    assert got == {(name, int(release.outcome), release.label) for name, release in recorded.items()}, "a label is lost"
    assert asked == len(got) == sum(len(batch.query_ids) for batch in batches), "a query was charged twice"
    assert answered == sum(outcome == Outcome.ANSWERED for _, outcome, _ in got)
    assert len(batches) > 10


def test_a_full_disk_releases_nothing_and_loses_nothing(tmp_path: Path) -> None:
    x = make_rows(3000, 1)[0]
    with closing(Ledger.of(tmp_path / "ledger.db", REAL)) as ledger:
        service = serve(ledger)
        first = service.ask(x[:10])
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        # a write beyond the limit ends as on a full disk, in the middle
        resource.setrlimit(resource.RLIMIT_FSIZE, ((tmp_path / "ledger.db").stat().st_size + 20_000, before[1]))
        try:
            with pytest.raises(LedgerError, match=r"the disk takes no more.*nothing leaves this node"):
                service.ask(x[10:])
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert ledger.spent() == (10, int(first.answered.sum()))
        assert (service.ask(x[:10]).labels == first.labels).all()
        assert len(service.ask(x[10:])) == 2990  # space again: the run goes on
        assert len(ledger.batches()) == 2


# A question that failed counts alike at the coordinator and at every party that voted, and can be asked again.

PARTIES = 4
TWENTY = QueryBudget(queries=20, answers=20)
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
            collection=collection, mechanism=mechanism, privacy=privacy, query_budget=TWENTY, **changes
        )
        self.log_path = folder / "events.jsonl"
        self.transport, self.log = FakeTransport(homes), EventLog(self.log_path)
        self.ledger = Ledger.of(folder / "ledger.db", self.config)
        standing = Standing(self.ledger)
        enrolled = enrol(self.transport, self.config, self.log, standing)
        members = train(self.transport, self.config, enrolled, self.log).members
        self.kind = STAGE_OF[collection]
        means = Collecting(self.transport, self.config, members, folder, standing, self.log)
        noted = NotedCollector(keys.collector(means), None, members, standing)
        self.service = LabelService(self.config, self.ledger, noted, SeededNoise, PARTIES, self.log)

    def answered(self) -> list[int]:
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
    names = [node.name for node in federation.transport.parties.values()]
    assert [*map(ledger.least_seen, names)] == [2] * PARTIES, "one whose state is older is noticed"
    assert (service.describe().queries_left, federation.answered()) == (8, [12] * PARTIES)
    service.ask(rows(12, 20))
    assert federation.answered() == [TWENTY.queries] * PARTIES


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
