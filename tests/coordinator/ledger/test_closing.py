"""Close: the sanitised epsilon leaves once, charged and recorded; nothing is asked after it."""

from __future__ import annotations

import json
import math
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
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
from consilium.coordinator.ledger import Ledger
from consilium.coordinator.parts import Privacy, SanitisedKeys
from consilium.coordinator.privacy import answered_batches, close, most_teachers, promised, spent
from consilium.protocol.errors import BudgetExceeded, ConfigError, LedgerError
from consilium.protocol.noise import SeededNoise
from tests.federation import make_config, make_rows

PLAN = SanitisedKeys(order=2.5, beta=0.1, sigma_ss=6.0)
PRIVACY = Privacy(unit=Unit.RECORD, delta=1e-5, sanitised=PLAN)
CONFIDENT = Confident(threshold=60, sigma1=30.0, sigma2=10.0)
T = 100


class Votes:
    """Four votes in five for a class that the first feature tells; fewer teachers in a request of three rows."""

    def collect(self, queries, sigma, progress=None):
        rows = queries.rows
        teachers = T if len(rows) != 3 else T - 10
        winner = (rows[:, 0] > 60).astype(int)
        votes = np.full((len(rows), 2), teachers // 5)
        votes[np.arange(len(rows)), winner] = teachers - teachers // 5
        return Counts(votes, tuple(f"p{i}" for i in range(teachers)), teachers)

    def settle(self):
        pass


@pytest.fixture
def make(tmp_path: Path, log):
    ledgers = []

    def build(name="ledger.db", **changes):
        config = make_config(**{"mechanism": CONFIDENT, "privacy": PRIVACY, **changes})
        ledger = Ledger.of(tmp_path / name, config)
        ledgers.append(ledger)
        service = LabelService(config, ledger, Votes(), lambda batch: SeededNoise(batch), T, log)
        return config, ledger, service

    yield build
    for ledger in ledgers:
        ledger.close()


INTERACTIVE = Interactive(threshold=20, sigma1=30.0, sigma2=10.0, confidence=0.9)


@pytest.mark.parametrize(
    ("mechanism", "query_budget"),
    [(CONFIDENT, QueryBudget(queries=60, answers=40)), (INTERACTIVE, QueryBudget(queries=60, answers=40))],
    ids=lambda value: getattr(value, "name", ""),
)
def test_it_is_released_once_charged_and_recorded(make, log, mechanism, query_budget) -> None:
    config, ledger, service = make(mechanism=mechanism, query_budget=query_budget)
    x, _ = make_rows(33, 3)
    probabilities = np.tile([0.4, 0.6], (33, 1)) if mechanism is INTERACTIVE else None
    service.ask(x[:30], probabilities=None if probabilities is None else probabilities[:30])
    service.ask(x[30:], probabilities=None if probabilities is None else probabilities[30:])
    first = close(config, ledger, lambda: 0.5, log)
    assert first is not None
    assert close(config, ledger, lambda: -3.0, log) == first  # not drawn again
    assert ledger.closing() == json.dumps(first, sort_keys=True)
    batches = ledger.batches()
    secret = secret_smoothness(answered_batches(batches), PLAN.plan(), most_teachers(batches))
    assert most_teachers(batches) == T
    assert first["released_rdp"] == pytest.approx(secret.rdp + secret.smooth * 6.0 * 0.5, abs=2e-4)
    guarantee = first["guarantee"]
    assert guarantee["kind"] == "sanitised"
    assert guarantee["publishable"] is True
    before, after = spent(config, batches), spent(config, batches, closed=True)
    assert after["spent"].epsilon > before["spent"].epsilon
    assert after["spent"].epsilon <= promised(config).epsilon


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
