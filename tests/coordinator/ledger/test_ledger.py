"""The ledger: nothing is lost, nothing is overwritten, a change is found; and its sanitised epsilon leaves once."""

from __future__ import annotations

import json
import math
import sqlite3
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import kstest, truncnorm

from consilium.accounting.mechanisms import Confident, Histogram, Interactive
from consilium.accounting.sanitise.release import secret_smoothness
from consilium.accounting.units import Unit
from consilium.coordinator.collection.base import Counts
from consilium.coordinator.config import FederationConfig, QueryBudget, check_sanitised
from consilium.coordinator.label_service import LabelService
from consilium.coordinator.ledger import GENESIS, HISTOGRAM, Batch, Ledger, batch_hash, blobs
from consilium.coordinator.parts import Privacy, SanitisedKeys
from consilium.coordinator.privacy import answered_batches, close, most_teachers, promised, spent
from consilium.party.store import Store
from consilium.protocol.databases import committed
from consilium.protocol.errors import BudgetExceeded, ConfigError, LedgerError
from consilium.protocol.label_source import Outcome
from consilium.protocol.noise import SeededNoise
from tests.federation import make_config, make_rows

EVENT = {"type": "confident"}


def batch(*names: str, labels=None, votes=123) -> Batch:
    count = len(names)
    return Batch(
        event=EVENT,
        parties=3,
        query_ids=names,
        labels=np.array([1] * count if labels is None else labels, dtype=np.int64),
        reinforced=np.zeros(count, dtype=bool),
        histogram=np.full((count, 2), votes),
        probabilities=np.full((count, 2), -0.0),
    )


@pytest.fixture
def ledger(tmp_path: Path):
    opened = Ledger(tmp_path / "ledger.db", "f" * 64, "{}")
    yield opened
    opened.close()


def test_a_check_of_queries_is_drawn_once_until_they_are_released(ledger) -> None:
    """A coordinator that died after it showed what passed shows the same again."""
    assert [ledger.checked(["a", "b"], outcome) for outcome in ("first", "second")] == ["first", "first"]
    assert ledger.checked(["b"], "other") == "other"
    ledger.commit(batch("a", "b"), 10, 10)
    assert ledger.checked(["a", "b"], "third") == "third"


@pytest.mark.parametrize(("queries", "answers"), [(2, 10), (10, 2)])
def test_caps_hold_inside_the_transaction(ledger, queries: int, answers: int) -> None:
    ledger.commit(batch("a", "b"), 2, 2)
    with pytest.raises(BudgetExceeded):
        ledger.commit(batch("c"), queries, answers)
    assert ledger.spent() == (2, 2)


def test_a_query_is_never_recorded_twice(ledger) -> None:
    ledger.commit(batch("a"), 10, 10)
    with pytest.raises(LedgerError, match="UNIQUE constraint"):
        ledger.commit(batch("b", "a"), 10, 10)
    assert ledger.spent() == (1, 1)
    assert list(ledger.find(["a", "b"])) == ["a"]


def test_what_parties_charge_in_each_session_anew_is_counted_as_often(ledger) -> None:
    ledger.voted_on(["a", "b"], ["p"], "one")
    ledger.voted_on(["a", "b"], ["p"], "one")  # it goes on
    assert ledger.in_vain() == 2 and ledger.charged(["a", "b"]) == 2 and ledger.charged(["a"]) == 0
    ledger.voted_on(["a", "b"], ["p"], "two")
    assert ledger.in_vain() == 4 and ledger.unanswered() == 2
    ledger.commit(batch("a", "b"), 10, 10)
    assert ledger.in_vain() == 2 and ledger.unanswered() == 0
    ledger.voted_on(["c"], ["p"], "three")
    ledger.voted_on(["d"], ["p"], "four")
    assert ledger.charged(["c"]) == 0 and ledger.charged(["d"]) == 1, "parties remember the last session alone"


def tried_out(ledger: Ledger, salt: str) -> list[list[int]]:
    """Votes of seven parties on one query of three classes that fit the head that every node is shown: all are tried.

    Whoever does this knows when the query was answered, and the label.
    """
    at = ledger._file.execute("SELECT at FROM batches")[0][0]
    event, fits = json.dumps(EVENT, separators=(",", ":")), []
    for votes in [[a, b, 7 - a - b] for a in range(8) for b in range(8 - a)]:
        rows = [("a", int(Outcome.ANSWERED), 1, None, *blobs(np.array([votes]), HISTOGRAM, 1), None)]
        head = batch_hash(salt, GENESIS, 1, at, event, 3, rows)
        if head == ledger.position().head:
            fits.append(votes)
    return fits


def test_the_head_does_not_tell_the_votes_to_whoever_tries_them_all(ledger) -> None:
    ledger.commit(replace(batch("a"), histogram=np.array([[2, 4, 1]]), probabilities=None), 10, 10)
    assert tried_out(ledger, "0" * 64) == []
    assert tried_out(ledger, ledger._meta["salt"]) == [[2, 4, 1]], "control: all is right but for the secret"


def test_another_federation_cannot_use_it_and_only_the_owner_can_read_it(ledger) -> None:
    with pytest.raises(LedgerError, match="another federation"):
        Ledger(ledger.path, "e" * 64, "{}")
    ledger._file.execute("UPDATE meta SET value = '5' WHERE key = 'format'")
    with pytest.raises(LedgerError, match="another federation or format"):
        Ledger(ledger.path, "f" * 64, "{}")
    assert stat.S_IMODE(ledger.path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE releases SET label = 0 WHERE query_id = 'a'",
        "UPDATE releases SET histogram = probabilities WHERE query_id = 'a'",
        "UPDATE releases SET counts = histogram WHERE query_id = 'a'",
        "UPDATE batches SET event = '{}' WHERE seq = 1",
        "UPDATE batches SET parties = 4 WHERE seq = 2",
        "DELETE FROM batches WHERE seq = 1",
        "DELETE FROM releases WHERE query_id = 'b'",
    ],
)
def test_any_change_breaks_the_chain(ledger, statement: str) -> None:
    ledger.commit(batch("a", "b"), 10, 10)
    ledger.commit(batch("c"), 10, 10)
    assert len(ledger.batches()) == 2
    with sqlite3.connect(ledger.path) as other:
        other.execute(statement)
    with pytest.raises(LedgerError, match="hash chain is broken"):
        ledger.batches()


def test_nothing_that_was_charged_comes_undone_in_a_power_cut(ledger, tmp_path: Path) -> None:
    """The folder is synced after a journal is removed: one that comes back undoes what it is of."""
    store = Store(tmp_path / "party.db")
    with committed(tmp_path / "given.db", (), 1) as given:
        for file in (ledger._file, store, given):
            assert file.execute("PRAGMA synchronous") == [(3,)]
            assert file.execute("PRAGMA journal_mode") == [("delete",)]


PLAN = SanitisedKeys(order=2.5, beta=0.1, sigma_ss=6.0)
PRIVACY = Privacy(unit=Unit.RECORD, delta=1e-5, sanitised=PLAN)
CONFIDENT = Confident(threshold=60, sigma1=30.0, sigma2=10.0)
T = 100


class Votes:
    """Four votes in five for a class that the first feature tells; fewer teachers in a request of three rows."""

    def collect(self, queries, sigma):
        rows, teachers = queries.rows, T if len(queries.rows) != 3 else T - 10
        votes = np.full((len(rows), 2), teachers // 5)
        votes[np.arange(len(rows)), (rows[:, 0] > 60).astype(int)] = teachers - teachers // 5
        return Counts(votes, tuple(f"p{i}" for i in range(teachers)), teachers)

    def settle(self): ...


@pytest.fixture
def make(tmp_path: Path, log):
    ledgers = []

    def build(**changes):
        config = make_config(**{"mechanism": CONFIDENT, "privacy": PRIVACY, **changes})
        ledgers.append(ledger := Ledger.of(tmp_path / "ledger.db", config))
        return config, ledger, LabelService(config, ledger, Votes(), SeededNoise, T, log)

    yield build
    for ledger in ledgers:
        ledger.close()


INTERACTIVE = Interactive(threshold=20, sigma1=30.0, sigma2=10.0, confidence=0.9)


@pytest.mark.parametrize("mechanism", [CONFIDENT, INTERACTIVE], ids=lambda each: each.name)
def test_it_is_released_once_charged_and_recorded(make, log, mechanism) -> None:
    config, ledger, service = make(mechanism=mechanism, query_budget=QueryBudget(queries=60, answers=40))
    x, _ = make_rows(33, 3)
    for rows in (x[:30], x[30:]):
        service.ask(rows, probabilities=np.tile([0.4, 0.6], (len(rows), 1)) if mechanism is INTERACTIVE else None)
    first = close(config, ledger, lambda: 0.5, log)
    assert first is not None
    assert close(config, ledger, lambda: -3.0, log) == first  # not drawn again
    assert ledger.closing() == json.dumps(first, sort_keys=True)
    batches = ledger.batches()
    secret = secret_smoothness(answered_batches(batches), PLAN.plan(), T)
    assert most_teachers(batches) == T
    assert first["released_rdp"] == pytest.approx(secret.rdp + secret.smooth * 6.0 * 0.5, abs=2e-4)
    assert (first["guarantee"]["kind"], first["guarantee"]["publishable"]) == ("sanitised", True)
    before, after = spent(config, batches), spent(config, batches, closed=True)
    assert before["spent"].epsilon < after["spent"].epsilon <= promised(config).epsilon


def test_nothing_is_asked_after_it_but_recorded_labels_can_be_had(make, log) -> None:
    config, ledger, service = make()
    x, _ = make_rows(30, 3)
    first = service.ask(x[:20])
    close(config, ledger, lambda: 0.0, log)
    assert (service.ask(x[:20]).labels == first.labels).all()
    with pytest.raises(BudgetExceeded, match="closed"):
        service.ask(x)
    assert service.describe().queries_left == 0
    with pytest.raises(LedgerError, match="closed"):  # and not by another coordinator that looked before the closing
        ledger.commit(ledger.batches()[0], 100, 100)
    assert ledger.spent()[0] == 20


@pytest.mark.parametrize(("privacy", "rows"), [(PRIVACY, 0), (Privacy(unit=Unit.RECORD, delta=1e-5), 10)])
def test_nothing_asked_or_no_plan_closes_nothing(make, log, privacy: Privacy, rows: int) -> None:
    config, ledger, service = make(privacy=privacy)
    if rows:
        service.ask(make_rows(rows, 3)[0])
    assert close(config, ledger, lambda: 0.0, log) is None
    assert ledger.closing() is None


def test_many_who_close_get_one_result(make, log) -> None:
    config, ledger, service = make()
    service.ask(make_rows(30, 3)[0])
    together = threading.Barrier(6)

    def one(number: int) -> str:
        other = Ledger(ledger.path, config.digest(), "")
        together.wait()
        try:
            return json.dumps(close(config, other, lambda: number / 7, log))
        finally:
            other.close()

    with ThreadPoolExecutor(6) as pool:
        assert len(set(pool.map(one, range(6)))) == 1


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE closing SET result = replace(result, 'released_rdp', 'released')",
        "UPDATE closing SET at = '2020-01-01'",
        "UPDATE closing SET previous = hash",
    ],
)
def test_a_changed_closing_is_found(make, log, statement) -> None:
    config, ledger, service = make()
    service.ask(make_rows(30, 3)[0])
    close(config, ledger, lambda: 0.0, log)
    with sqlite3.connect(ledger.path) as other:
        other.execute(statement)
    with pytest.raises(LedgerError, match="chain is broken at the closing"):
        ledger.closing()


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"privacy": PRIVACY.model_copy(update={"sanitised": SanitisedKeys(order=2.5, beta=1, sigma_ss=5)})}, "finite"),
        ({"mechanism": Histogram(sigma=8.0)}, "no data-dependent bound"),
    ],
)
def test_a_plan_that_cannot_be_carried_out_ends_the_run_before_a_question(changes, why) -> None:
    config: FederationConfig = make_config(**{"mechanism": CONFIDENT, "privacy": PRIVACY, **changes})
    with pytest.raises(ConfigError, match=f"privacy.sanitised.*{why}"):
        check_sanitised(config, T)
    check_sanitised(make_config(mechanism=CONFIDENT, privacy=PRIVACY), T)


def test_the_released_numbers_are_distributed_as_planned(make, log) -> None:
    """Kolmogorov-Smirnov over 60 closings with the system's entropy; false alarm once in 1e6."""
    plan = SanitisedKeys(order=2.5, beta=0.1, sigma_ss=0.5)
    config, ledger, service = make(privacy=Privacy(unit=Unit.RECORD, delta=1e-5, sanitised=plan))
    service.ask(make_rows(30, 3)[0])
    secret = secret_smoothness(answered_batches(ledger.batches()), plan.plan(), T)
    scale = secret.smooth * plan.sigma_ss
    drawn = []
    for _ in range(60):
        result = close(config, ledger, None, log)
        assert result is not None
        drawn.append((result["released_rdp"] - secret.rdp) / scale)
        with sqlite3.connect(ledger.path) as other:
            other.execute("DELETE FROM closing")
    cut = -secret.rdp / scale  # what fell below 0 was clipped there
    inside = [value for value in drawn if not math.isclose(value, cut)]
    assert len(inside) > 45
    assert kstest(inside, truncnorm(cut, np.inf).cdf).pvalue > 1e-6
