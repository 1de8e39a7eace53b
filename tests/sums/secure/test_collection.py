"""Secure votes of real parties over the wire: what comes out, what is charged, who is left out, what is kept. Sums
under masks are the plain sums, whoever drops, dies or is asked twice."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
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
from consilium.sums.errors import InconsistentView, ThresholdNotMet
from consilium.sums.secure.coordinator import drive
from consilium.sums.secure.masks import clip
from consilium.sums.secure.messages import STAGES, Stage
from consilium.sums.secure.party import pack
from tests.coordinator.mechanisms.drawing import NoNoise
from tests.federation import drop, make_config, make_homes, make_relative, make_secure
from tests.sums.secure.network import Federation, Network, at, play, run_until
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


@pytest.mark.parametrize("n", [3, 10, 50])
def test_sums_are_the_plain_ones(tmp_path: Path, n: int) -> None:
    """Every message twice, to parties of which nothing lives on but their files."""
    federation = Federation(tmp_path, n, in_memory=n > 10)
    result = play(federation, Network(federation, twice=n <= 10))
    assert np.array_equal(result.sums, federation.total(federation.names))
    assert result.survivors == tuple(federation.names) and not result.clipped.any()
    assert federation.charged == [(name, 1) for name in federation.names]


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("mute", [False, True], ids=["not asked", "not heard"])
def test_one_drops_at_any_stage_and_the_sum_is_there(tmp_path: Path, stage: Stage, mute: bool) -> None:
    """Who is gone before its y is heard is in no sum. Who drops later is, and its masks come off all the same."""
    federation, unheard = Federation(tmp_path, 10), at(stage, "party-003", lambda _: None)
    network = Network(federation, on_reply=unheard) if mute else Network(federation, on_request=unheard)
    in_time = stage in (Stage.CONSISTENCY, Stage.UNMASK)
    survivors = tuple(name for name in federation.names if name != "party-003" or in_time)
    result = play(federation, network)
    assert result.survivors == survivors and np.array_equal(result.sums, federation.total(survivors))


@pytest.mark.parametrize("stage", STAGES[2:])
def test_exactly_t_are_enough_and_one_less_gives_nothing(tmp_path: Path, stage: Stage) -> None:
    federation = Federation(tmp_path, 9)
    t = federation.roster.t
    network = Network(federation, lost={stage: federation.names[t:]})
    summed = federation.names[:t] if stage is Stage.MASKED else federation.names
    assert np.array_equal(drive(federation.session(), network.send).sums, federation.total(summed))
    federation = Federation(tmp_path, 9, in_memory=True)
    network, session = Network(federation, lost={stage: federation.names[t - 1 :]}), federation.session()
    with pytest.raises(ThresholdNotMet, match=f"stage {stage}: {t - 1} parties are left, {t} are needed"):
        drive(session, network.send)
    assert session.state.result is None
    network.lost = {}
    assert len(drive(session, network.send).survivors) == 9, "the stage is sent again, and nothing was lost"


def test_least_above_t_is_enforced_until_the_set_is_fixed(tmp_path: Path) -> None:
    """By the coordinator, and by each party itself: it gives nothing to a set of fewer."""
    federation = Federation(tmp_path, 6, colluders=1, least=6)
    for stage in STAGES[:3]:
        with pytest.raises(ThresholdNotMet, match="5 parties are left, 6 are needed"):
            drive(federation.session(), Network(federation, lost={stage: ["party-005"]}).send)
    for stage, name in ((Stage.MASKED, "sharers"), (Stage.CONSISTENCY, "survivors")):
        session = run_until(federation, stage)
        request = session.requests()["party-000"]
        fewer = {name: np.arange(5, dtype=np.uint16)}
        fewer |= {"ciphertexts": request.ciphertexts[:4]} if stage is Stage.MASKED else {}  # type: ignore[attr-defined]
        with pytest.raises(InconsistentView, match="has 5 parties, 6 are needed"):
            federation.serve("party-000", request.model_copy(update=fewer))
    assert {round_ for _, round_ in federation.charged} == {1}, "of the session that came further"


@pytest.mark.parametrize("deviation", [0.4, 3.0, 3000.0])
def test_a_false_vote_moves_a_cell_by_no_more_than_an_honest_one(deviation: float) -> None:
    """The map is the identity on what honest votes give, and one for one around the whole ring."""
    half, votes = 2**31, 250
    reach = min(int(np.ceil(9 * deviation)), (half - votes) // 2)
    around = np.concatenate([np.arange(-3000, 3000), np.arange(half - 3000, half), np.arange(-half, 3000 - half)])
    cells, out = clip(np.stack([around, votes - around], axis=1), votes, deviation)
    following = clip(np.stack([(around + 1 + half) % (2 * half) - half, around], axis=1), votes, deviation)[0]
    assert (np.abs(following[:, 0] - cells[:, 0]) <= 1).all()
    honest = (around >= -reach) & (around <= votes + reach)
    assert (cells[honest, 0] == around[honest]).all() and (cells[:, 0] >= -reach).all()
    assert (cells[:, 0] <= votes + reach).all() and out[np.abs(around) > votes + 10 * deviation].all()


class TestAPartyDies:
    """At any statement, or is served by two processes."""

    @pytest.mark.parametrize("stage", STAGES)
    def test_at_each_statement_it_has_done_nothing_or_all(self, tmp_path: Path, stage: Stage, monkeypatch) -> None:
        """Each statement of the stage fails in turn, the last COMMIT too: no reply, the state of before."""
        federation = Federation(tmp_path, 3)
        session = run_until(federation, stage)
        request, before = session.requests()["party-000"], list(federation.store("party-000")._connection.iterdump())
        for deadly in range(100):
            voter = federation.voter("party-000")
            execute, left = voter.store.execute, iter(range(deadly))

            def dying(statement: str, *values: object, execute=execute, left=left) -> list[tuple]:
                if next(left, None) is None and statement != "ROLLBACK":
                    raise KeyboardInterrupt
                return execute(statement, *values)

            with monkeypatch.context() as patch:
                patch.setattr(voter.store, "execute", dying)
                try:
                    federation.serve("party-000", request, voter)
                    break
                except KeyboardInterrupt:
                    voter.store.close()
                    assert list(federation.store("party-000")._connection.iterdump()) == before
        else:
            raise AssertionError("it never came through")
        assert 3 < deadly < 20
        result = drive(session, Network(federation).send)
        assert np.array_equal(result.sums, federation.total(federation.names))

    def test_two_processes_serve_the_same_request(self, tmp_path: Path) -> None:
        """One asks the teachers and charges, both give the same bytes."""
        federation = Federation(tmp_path, 3)
        request = run_until(federation, Stage.MASKED).requests()["party-000"]
        with ThreadPoolExecutor(4) as pool:
            replies = {pack(reply) for reply in pool.map(federation.serve, ["party-000"] * 4, [request] * 4)}
        assert len(replies) == 1 and federation.charged == [("party-000", 1)]
