"""Secure votes of real parties over the wire: what comes out, what is charged, who is left out, what is kept."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import ArrayRecord

from consilium.accounting.mechanisms import Confident
from consilium.coordinator.collection.base import Counts, Queries
from consilium.coordinator.collection.plaintext import PLAINTEXT
from consilium.coordinator.collection.secure import SecureCollector
from consilium.coordinator.config import QueryBudget
from consilium.coordinator.label_service import LabelService
from consilium.coordinator.ledger import Ledger
from consilium.protocol.errors import BudgetExceeded, ConfigError
from consilium.protocol.identity import Identity
from consilium.protocol.noise import SeededNoise, SystemNoise
from consilium.protocol.records import encode_array
from consilium.sums.errors import ThresholdNotMet
from consilium.sums.secure.messages import Stage
from tests.coordinator.mechanisms.drawing import NoNoise
from tests.federation import drop, make_config, make_homes, make_relative, make_secure
from tests.sums.small import SecureSmall, masked, queries_of

PARTIES = 7  # t = 5
NAMES = tuple(f"p{place:02d}" for place in range(PARTIES))
TWO_ROUNDS = Confident(threshold=1, sigma1=2.5, sigma2=2.5)
MANY = {"query_budget": QueryBudget(queries=100, answers=100)}


def faulty(made: SecureSmall, stage: Stage, *places: int, fault: Callable = drop) -> None:
    made.transport.faults = {(place, f"query.sa_{stage}"): fault for place in places}


def fails(made: SecureSmall, match: str | None = None) -> None:
    with pytest.raises(ThresholdNotMet, match=match):
        made.ask(queries())


def queries(count: int = 20, seed: int = 3) -> np.ndarray:
    return queries_of(count, seed)


@pytest.fixture
def cluster(tmp_path: Path):
    return lambda **changes: masked(tmp_path, **changes)


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parties that add no noise, so that sums can be held against those of their votes."""
    monkeypatch.setattr("consilium.party.node.SystemNoise", NoNoise)


@pytest.mark.parametrize("make", [make_config, make_relative])
def test_sums_are_those_of_the_teachers_votes(silent, cluster, make) -> None:
    made = cluster(make=make)
    counts = made.ask(queries())
    assert counts.votes.tolist() == made.true_sum(queries()) and (counts.parties, counts.teachers) == (NAMES, PARTIES)
    assert counts.sigma == pytest.approx(4 * np.sqrt(2 / 3 * PARTIES / 2), rel=1e-3)


class TestCharges:
    """A party charges before its masked vector leaves, and each session anew."""

    def test_nothing_before_masked_and_all_after_it(self, cluster) -> None:
        made = cluster(**MANY)
        for stage, charged in ((Stage.ADVERTISE, {0}), (Stage.SHARE, {0}), (Stage.UNMASK, {20})):
            faulty(made, stage, 1, 4, 6)
            fails(made, f"stage {stage}: 4 parties are left, 5 are needed")
            assert made.charged() == charged
            assert {event["party"] for event in made.events("left-out")} >= {"p01", "p04", "p06"}

    def test_the_same_queries_again_are_fresh_noise_and_cost_again_within_the_budget(self, cluster) -> None:
        made = cluster(query_budget=QueryBudget(queries=40, answers=40))
        collector, sums = made.collector(), []
        for times in (1, 2):
            sums.append(made.ask(queries(), 1, collector).votes)
            collector.settle()
            assert made.charged() == {20 * times} and made.sessions() == []
        assert not (sums[0] == sums[1]).all()
        with pytest.raises(BudgetExceeded, match=r"charged all queries .* larger query_budget"):
            made.ask(queries(), 1, collector)
        assert made.charged() == {40}

    @pytest.mark.parametrize("fails", [False, True])
    def test_both_rounds_are_charged_and_the_ledger_says_each_once(self, cluster, monkeypatch, fails: bool) -> None:
        """The first one also where the second fails."""
        made, x = cluster(mechanism=TWO_ROUNDS, query_budget=QueryBudget(queries=100, answers=60)), queries(80, 7)
        ledger, collect = Ledger.of(made.root / "ledger.db", made.config), SecureCollector.collect

        def breaking(self: SecureCollector, asked: Queries, *others: Any) -> Counts:
            faulty(made, Stage.MASKED, *(range(5) if fails and asked.round == 2 else ()))
            return collect(self, asked, *others)

        def service() -> LabelService:
            return LabelService(made.config, ledger, made.collector(), SeededNoise, PARTIES, made.log)

        monkeypatch.setattr(SecureCollector, "collect", breaking)
        answered = 0
        with pytest.raises(ThresholdNotMet) if fails else nullcontext():
            answered = int(service().ask(x).answered.sum())
        assert ledger.spent() == (80, answered) and (answered == 0) == fails and answered <= 60
        assert made.charged() == {80} and (fails or made.charged(2) == {answered})
        service().ask(x)  # from the ledger
        assert made.charged() == {80} and ledger.in_vain() == 0, "both sums stand there under one name"
        ledger.close()


class TestStartingAgain:
    """A coordinator that stopped goes on with the same session."""

    def test_a_sum_that_is_on_disk_is_not_asked_again(self, cluster) -> None:
        made = cluster(mechanism=TWO_ROUNDS, **MANY)
        first = made.ask(queries())
        second = made.ask(queries()[:9], 2)
        asked, again = len(made.transport.requests), made.collector()
        assert (made.ask(queries(), 1, again).votes == first.votes).all()
        assert (made.ask(queries()[:9], 2, again).votes == second.votes).all()
        assert len(made.transport.requests) == asked
        assert made.charged() == {20} and made.charged(2) == {9}

    @pytest.mark.parametrize("stage", [Stage.SHARE, Stage.MASKED, Stage.CONSISTENCY, Stage.UNMASK])
    def test_a_session_that_failed_is_taken_up_where_it_stopped(self, silent, cluster, stage: Stage) -> None:
        made = cluster()
        faulty(made, stage, 1, 4, 6)
        fails(made)
        made.transport.faults.clear()
        assert made.ask(queries()).votes.tolist() == made.true_sum(queries())
        assert made.charged() == {20} and not made.events("session-lost")

    @pytest.mark.parametrize(("forgetful", "lost"), [((1, 4), False), ((1, 4, 6), True)], ids=["t left", "t - 1 left"])
    def test_what_was_paid_for_is_thrown_away_only_if_fewer_than_t_can_help(self, cluster, forgetful, lost) -> None:
        made = cluster(**MANY)
        faulty(made, Stage.UNMASK, 1, 4, 6)
        fails(made, "unmask")
        for place in forgetful:
            made.parties[place].store.execute("DELETE FROM secure_sessions")
            made.parties[place].store.execute("DELETE FROM secure_replies")
            del made.transport.faults[place, "query.sa_unmask"]
        made.transport.faults |= {(place, "query.sa_share"): drop for place in (1, 4, 6)}
        fails(made)
        assert bool(made.events("session-lost")) is lost
        made.transport.faults.clear()
        assert made.ask(queries()).teachers == PARTIES
        assert made.charged() == ({40} if lost else {20})


class TestWhoIsLeftOut:
    def test_who_sends_more_than_a_reply_can_have_is_out_before_it_is_looked_into(self, cluster) -> None:
        """Else a few liars fill the coordinator's memory: replies of a stage are there together."""
        made = cluster()

        def huge(record):
            many = encode_array(np.zeros((2000, 2), dtype=np.uint16))
            record["arrays"] = ArrayRecord({**dict(record["arrays"]), "y": many})
            return record

        faulty(made, Stage.MASKED, 3, fault=huge)
        assert made.ask(queries()).parties == NAMES[:3] + NAMES[4:]
        assert "arrays of more than" in made.events("left-out")[0]["reason"]

    @pytest.mark.parametrize("lie", [1000, 0])
    def test_a_gross_lie_is_said_and_nobody_named(self, cluster, monkeypatch, lie: int) -> None:
        lies = iter([lie] + [0] * PARTIES)

        class Lying(SystemNoise):
            def gaussian(self, sigma: float, shape: tuple[int, ...]) -> np.ndarray:
                return super().gaussian(sigma, shape) + next(lies)

        monkeypatch.setattr("consilium.party.node.SystemNoise", Lying)
        made = cluster(**MANY)
        made.ask(queries(30))
        assert len(made.events("false-votes")) == (lie > 0)


def test_keys_must_be_those_of_the_federation(cluster) -> None:
    made = cluster()
    (made.root / "other").mkdir()
    with pytest.raises(ConfigError, match="the federation asks for"):
        make_secure(make_homes(made.root / "other/parties", 3), made.root / "other").check(made.config)
    with pytest.raises(ConfigError, match="noise_shares 6 is above the 5 honest parties"):
        made.keys.check(made.config.model_copy(update={"noise_shares": 6}))
    with pytest.raises(ConfigError, match="another key"):
        replace(made.keys, signer=Identity.generate()).check(made.config)
    with pytest.raises(ConfigError, match="secure votes need a roster and the coordinator's key"):
        PLAINTEXT.check(made.config)
