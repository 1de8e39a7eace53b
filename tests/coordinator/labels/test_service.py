"""The label service: query budget, repeated queries, and that a label never leaves uncharged."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from consilium.accounting.mechanisms import GNMax
from consilium.accounting.target import worst_case
from consilium.coordinator.collection.base import Counts
from consilium.coordinator.config import QueryBudget
from consilium.coordinator.label_service import LabelService
from consilium.coordinator.ledger import Ledger
from consilium.coordinator.privacy import promised, spent
from consilium.protocol.errors import BudgetExceeded, ConfigError, DataError, LedgerError, NotEnoughParties
from consilium.protocol.label_source import NO_LABEL, Outcome
from consilium.protocol.noise import SeededNoise, SystemNoise
from tests.federation import make_config, make_rows

T = 10


class Votes:
    """A collector that gives each query a fixed histogram of T votes and counts how often it was asked."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def settle(self):
        pass

    def collect(self, queries, sigma, progress=None):
        self.asked.append(len(queries.rows))
        ones = (np.abs(queries.rows[:, 0]) * 7).astype(np.int64) % (T + 1)
        return Counts(np.column_stack([T - ones, ones]), tuple(f"p{i}" for i in range(T)), T)


@pytest.fixture
def make(tmp_path: Path, log):
    ledgers = []

    def build(collector=None, name="ledger.db", seed=1, **changes):
        config = make_config(**changes)
        ledger = Ledger.of(tmp_path / name, config)
        ledgers.append(ledger)
        return (
            LabelService(config, ledger, collector or Votes(), lambda batch: SeededNoise(1000 * seed + batch), T, log),
            ledger,
            config,
        )

    yield build
    for ledger in ledgers:
        ledger.close()


def test_asking_again_returns_the_recorded_label_and_costs_nothing(make) -> None:
    """Also of a new process, with other noise."""
    collector = Votes()
    service, ledger, _ = make(collector)
    x, _ = make_rows(30, 3)
    first, spent_before = service.ask(x), ledger.spent()
    assert set(np.unique(first.outcomes)) <= {Outcome.ANSWERED, Outcome.ABSTAINED}
    assert ((first.labels == NO_LABEL) == (first.outcomes != Outcome.ANSWERED)).all()
    assert (service.ask(x[::-1]).labels == first.labels[::-1]).all()
    assert (ledger.spent(), collector.asked) == (spent_before, [30]) and spent_before[1] == first.answered.sum()
    ledger.close()
    second, _, _ = make(seed=2)
    assert (second.ask(x).labels == first.labels).all()


def test_equal_rows_are_paid_for_once(make) -> None:
    collector = Votes()
    service, ledger, _ = make(collector)
    x, _ = make_rows(5, 3)
    answers = service.ask(np.concatenate([x, x, x[:2]]))
    assert collector.asked == [5]
    assert ledger.spent()[0] == 5
    assert (answers.labels[:5] == answers.labels[5:10]).all()


def test_a_request_beyond_the_cap_is_refused_whole(make) -> None:
    collector = Votes()
    service, ledger, _ = make(collector, query_budget=QueryBudget(queries=25, answers=25))
    x, _ = make_rows(40, 3)
    with pytest.raises(BudgetExceeded, match="26 new queries asked, 25 queries") as caught:
        service.ask(x[:26])
    assert caught.value.exit_code == 5
    assert collector.asked == []
    assert ledger.spent() == (0, 0)
    service.ask(x[:25])
    with pytest.raises(BudgetExceeded, match="1 new queries asked, 0 queries"):
        service.ask(x[24:26])


def test_the_cap_on_answers_cuts_and_what_is_beyond_is_neither_asked_nor_paid(make) -> None:
    service, ledger, _ = make(mechanism=GNMax(sigma=1.0), query_budget=QueryBudget(queries=12, answers=12))
    x, _ = make_rows(12, 3)
    assert (service.ask(x).outcomes == Outcome.ANSWERED).all()
    assert ledger.spent() == (12, 12)
    service, ledger, _ = make(name="second.db", query_budget=QueryBudget(queries=40, answers=7))
    x, _ = make_rows(40, 3)
    answers = service.ask(x)
    assert answers.answered.sum() == 7
    last = np.flatnonzero(answers.answered)[-1]
    assert (answers.outcomes[last + 1 :] == Outcome.NOT_ASKED).all()
    assert (answers.outcomes[: last + 1] != Outcome.NOT_ASKED).all()
    assert ledger.spent() == (last + 1, 7)
    again = service.ask(x)  # the same request, cut at the same place
    assert (again.labels == answers.labels).all()
    assert (again.outcomes == answers.outcomes).all()
    with pytest.raises(BudgetExceeded, match="0 answers are left"):
        service.ask(x[last + 1 :])
    assert ledger.spent() == (last + 1, 7)


def test_spent_is_never_above_promised(make) -> None:
    service, ledger, config = make(query_budget=QueryBudget(queries=40, answers=7))
    x = make_rows(40, 3)[0]
    service.ask(x[:5])
    service.ask(x)
    batches = ledger.batches()
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
    assert service.describe().epsilon == top


def test_no_label_leaves_if_the_ledger_cannot_be_written(make) -> None:
    service, ledger, _ = make()
    # root may write to a file whatever its mode says: a read-only connection fails for everybody
    ledger._file.execute("PRAGMA query_only=ON")
    with pytest.raises(LedgerError, match="cannot be written"):
        service.ask(make_rows(10, 3)[0])
    assert ledger.spent() == (0, 0)


def test_the_charge_is_durable_before_the_label_is_returned(make, tmp_path: Path, monkeypatch) -> None:
    service, ledger, _ = make()
    seen = []
    real = ledger.find

    def find(ids):
        with sqlite3.connect(tmp_path / "ledger.db") as other:  # what another process can read at that moment
            seen.append(other.execute("SELECT COUNT(*) FROM releases").fetchone()[0])
        return real(ids)

    monkeypatch.setattr(ledger, "find", find)
    service.ask(make_rows(10, 3)[0])
    assert seen == [0, 10]  # labels are read back from the ledger, after the commit


@pytest.mark.parametrize("rows", [np.zeros((0, 3)), np.zeros((2, 2)), np.full((2, 3), np.nan)])
def test_queries_that_cannot_be_asked_are_refused(make, rows) -> None:
    collector = Votes()
    service, ledger, _ = make(collector)
    with pytest.raises(DataError):
        service.ask(rows)
    assert collector.asked == []
    assert ledger.spent() == (0, 0)


def test_seeded_noise_is_refused_outside_a_simulation(tmp_path: Path, log) -> None:
    config = make_config(simulation=False, seed=-1, noise_seed=None)
    ledger = Ledger.of(tmp_path / "l.db", config)
    with pytest.raises(ConfigError, match="seeded noise"):
        LabelService(config, ledger, Votes(), lambda batch: SeededNoise(batch), T, log)
    LabelService(config, ledger, Votes(), lambda _: SystemNoise(), T, log)
    ledger.close()
    with pytest.raises(ConfigError, match="in memory outside a simulation"):
        LabelService(config, Ledger.in_memory(config), Votes(), lambda _: SystemNoise(), T, log)


def test_a_ledger_in_memory_says_what_a_file_says(make) -> None:
    service, ledger, config = make()
    x, _ = make_rows(20, 3)
    memory = Ledger.in_memory(config)
    replayed = LabelService(config, memory, Votes(), lambda batch: SeededNoise(1000 + batch), T)
    for rows in (x[:12], x[6:]):
        assert service.ask(rows).labels.tolist() == replayed.ask(rows).labels.tolist()
    assert ledger.spent() == memory.spent() and memory.position().batch == 2
    assert [batch.event for batch in ledger.batches()] == [batch.event for batch in memory.batches()]


def test_why_a_request_failed_is_in_the_event_log(make, log, tmp_path) -> None:
    class Fails(Votes):
        def collect(self, queries, sigma, progress=None):
            raise NotEnoughParties("2 parties after stage 'vote' (1 x p07 is away)")

    service, ledger, _ = make(Fails())
    with pytest.raises(NotEnoughParties):
        service.ask(make_rows(3, 3)[0])
    assert ledger.spent() == (0, 0)
    lines = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    (event,) = [line for line in lines if line["event"] == "not-answered"]
    assert event["error"] == "NotEnoughParties" and "p07" in event["reason"]
