"""Secure votes of real parties over the wire: what comes out, what is charged, who is left out, what is kept."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import ArrayRecord

from consilium.accounting.mechanisms import Confident
from consilium.coordinator.collection.admission import Greeting, enrol, train
from consilium.coordinator.collection.base import Counts, Queries
from consilium.coordinator.collection.means import Collecting
from consilium.coordinator.collection.plaintext import PLAINTEXT
from consilium.coordinator.collection.secure import SecureCollector, believed
from consilium.coordinator.config import FederationConfig, QueryBudget
from consilium.coordinator.label_service import LabelService
from consilium.coordinator.ledger import Ledger
from consilium.party.voting import Lot
from consilium.protocol.errors import BudgetExceeded, ConfigError
from consilium.protocol.identity import Identity
from consilium.protocol.noise import SeededNoise, SystemNoise
from consilium.protocol.queries import canonical_queries, query_ids
from consilium.protocol.records import encode_array, refusal_to_record
from consilium.protocol.refusals import Refusal, Rule
from consilium.sums.errors import BadShare, ThresholdNotMet
from consilium.sums.secure.coordinator import SecureSession
from consilium.sums.secure.messages import Stage
from consilium.sums.terms import NO_LEDGER
from tests.coordinator.mechanisms.drawing import NoNoise
from tests.federation import FakeTransport, cast, drop, make_config, make_homes, make_relative, make_secure, standing

PARTIES = 7  # t = 5
NAMES = tuple(f"p{place:02d}" for place in range(PARTIES))
TWO_ROUNDS = Confident(threshold=1, sigma1=2.5, sigma2=2.5)
MANY = {"query_budget": QueryBudget(queries=100, answers=100)}


class Cluster:
    """Parties at home, enrolled and trained in a federation with secure votes. silent: by place and stage."""

    def __init__(self, root: Path, log, make: Callable = make_config, colluders: int = 0, **changes: Any) -> None:
        self.root, self.log = root, log
        self.homes = make_homes(root / "parties", PARTIES)
        self.keys = make_secure(self.homes, root, colluders)
        self.config: FederationConfig = make(collection="secure", roster=self.keys.roster.digest, **changes)
        self.transport = FakeTransport(self.homes, {})
        self.parties = list(self.transport.parties.values())
        greeting = Greeting(lambda: NO_LEDGER, asked=lambda: NAMES)
        members = enrol(self.transport, self.config, log, greeting)
        self.members = train(self.transport, self.config, members, log).members

    def collector(self) -> SecureCollector:
        """Of a new process: only the files of the last one are left."""
        means = Collecting(
            self.transport, self.config, self.members, self.root, standing(), Greeting(lambda: NO_LEDGER), self.log
        )
        return SecureCollector(means, self.keys)

    def faulty(self, stage: Stage, *places: int, fault: Callable = drop) -> None:
        self.transport.faults = {(place, f"query.sa_{stage}"): fault for place in places}

    def plain(self, x: np.ndarray) -> np.ndarray:
        """The sum of all votes, from the parties' teachers."""
        total, digest = np.zeros((len(x), 2), dtype=np.int64), self.config.digest()
        for party in self.parties:
            lot = Lot(party.settings.name, digest, query_ids(x))
            total += cast(party.teachers(digest), self.config.rows.standardise(x), lot)
        return total

    def charged(self, round_: int = 1) -> set[int]:
        return {party.store.answered_in(self.config.digest(), round_) for party in self.parties}

    def told(self, event: str) -> list[dict]:
        lines = (self.root / "events.jsonl").read_text().splitlines()
        return [line for line in map(json.loads, lines) if line["event"] == event]

    def service(self, ledger: Ledger) -> LabelService:
        return LabelService(self.config, ledger, self.collector(), SeededNoise, PARTIES, self.log)

    def ask(self, x: np.ndarray, round_: int = 1, collector: SecureCollector | None = None) -> Counts:
        return (collector or self.collector()).collect(Queries(x, round_), self.config.sigmas[round_ - 1])

    def fails(self, match: str | None = None, x: np.ndarray | None = None, error: type = ThresholdNotMet) -> None:
        with pytest.raises(error, match=match):
            self.ask(queries() if x is None else x)


def queries(count: int = 20, seed: int = 3) -> np.ndarray:
    return canonical_queries(np.random.default_rng(seed).normal(size=(count, 3)) * [10, 20, 1] + [60, 140, 0], 3)


@pytest.fixture
def cluster(tmp_path: Path, log):
    return lambda **changes: Cluster(tmp_path, log, **changes)


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parties that add no noise, so that sums can be held against those of their votes."""
    monkeypatch.setattr("consilium.party.node.SystemNoise", NoNoise)


@pytest.mark.parametrize("make", [make_config, make_relative])
def test_sums_are_those_of_the_teachers_votes(silent, cluster, make) -> None:
    made = cluster(make=make)
    counts = made.ask(queries())
    assert (counts.votes == made.plain(queries())).all() and (counts.parties, counts.teachers) == (NAMES, PARTIES)
    assert counts.sigma == pytest.approx(4 * np.sqrt(2 / 3 * PARTIES / 2), rel=1e-3)


class TestCharges:
    """A party charges before its masked vector leaves, and each session anew."""

    def test_nothing_before_masked_and_all_after_it(self, cluster) -> None:
        made = cluster(**MANY)
        for stage, charged in ((Stage.ADVERTISE, {0}), (Stage.SHARE, {0}), (Stage.UNMASK, {20})):
            made.faulty(stage, 1, 4, 6)
            made.fails(f"stage {stage}: 4 parties are left, 5 are needed")
            assert made.charged() == charged
            assert {event["party"] for event in made.told("left-out")} >= {"p01", "p04", "p06"}

    def test_the_same_queries_again_are_fresh_noise_and_cost_again_within_the_budget(self, cluster) -> None:
        made = cluster(query_budget=QueryBudget(queries=40, answers=40))
        collector, sums = made.collector(), []
        for times in (1, 2):
            sums.append(made.ask(queries(), 1, collector).votes)
            collector.settle()
            assert made.charged() == {20 * times} and not list((made.root / "sessions").glob("*.session"))
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
            made.faulty(Stage.MASKED, *(range(5) if fails and asked.round == 2 else ()))
            return collect(self, asked, *others)

        monkeypatch.setattr(SecureCollector, "collect", breaking)
        answered = 0
        with pytest.raises(ThresholdNotMet) if fails else nullcontext():
            answered = int(made.service(ledger).ask(x).answered.sum())
        assert ledger.spent() == (80, answered) and (answered == 0) == fails and answered <= 60
        assert made.charged() == {80} and (fails or made.charged(2) == {answered})
        made.service(ledger).ask(x)  # from the ledger
        assert made.charged() == {80} and sum(event["stage"].endswith("share") for event in made.told("stage")) == 1
        ledger.close()


class TestStartingAgain:
    """A coordinator that stopped goes on with the same session."""

    def test_a_sum_that_is_on_disk_is_not_asked_again(self, cluster) -> None:
        made = cluster(mechanism=TWO_ROUNDS, **MANY)
        first = made.ask(queries())
        asked, collector = len(made.transport.requests), made.collector()
        assert (made.ask(queries(), 1, collector).votes == first.votes).all()
        assert len(made.transport.requests) == asked
        second = made.ask(queries()[:9], 2, collector)
        kinds = {kind for _, kind in made.transport.requests[asked:]}
        assert kinds == {"query.sa_masked", "query.sa_consistency", "query.sa_unmask"}, "the keys of the first"
        asked, again = len(made.transport.requests), made.collector()
        made.ask(queries(), 1, again)
        assert (made.ask(queries()[:9], 2, again).votes == second.votes).all()
        assert len(made.transport.requests) == asked
        assert made.charged() == {20} and made.charged(2) == {9}

    @pytest.mark.parametrize("stage", [Stage.SHARE, Stage.MASKED, Stage.CONSISTENCY, Stage.UNMASK])
    def test_a_session_that_failed_is_taken_up_where_it_stopped(self, silent, cluster, stage: Stage) -> None:
        made = cluster()
        made.faulty(stage, 1, 4, 6)
        made.fails()
        made.transport.faults.clear()
        assert (made.ask(queries()).votes == made.plain(queries())).all()
        assert made.charged() == {20} and not made.told("session-lost")

    @pytest.mark.parametrize(("forgetful", "lost"), [((1, 4), False), ((1, 4, 6), True)], ids=["t left", "t - 1 left"])
    def test_what_was_paid_for_is_thrown_away_only_if_fewer_than_t_can_help(self, cluster, forgetful, lost) -> None:
        made = cluster(**MANY)
        made.faulty(Stage.UNMASK, 1, 4, 6)
        made.fails("unmask")
        for place in forgetful:
            made.parties[place].store.execute("DELETE FROM secure_sessions")
            made.parties[place].store.execute("DELETE FROM secure_replies")
            del made.transport.faults[place, "query.sa_unmask"]
        made.transport.faults |= {(place, "query.sa_share"): drop for place in (1, 4, 6)}
        made.fails()
        assert bool(made.told("session-lost")) is lost
        made.transport.faults.clear()
        assert made.ask(queries()).teachers == PARTIES
        assert made.charged() == ({40} if lost else {20})

    def test_a_second_sum_that_is_lost_has_a_session_of_its_own(self, cluster) -> None:
        """The first stays what it was."""
        made = cluster(mechanism=TWO_ROUNDS, **MANY)
        collector = made.collector()
        first = made.ask(queries(), 1, collector)
        made.faulty(Stage.MASKED, *range(5))
        with pytest.raises(ThresholdNotMet):
            made.ask(queries()[:9], 2, collector)
        made.transport.faults.clear()
        assert made.ask(queries()[5:9], 2, collector).parties == NAMES
        again = made.collector()
        assert (made.ask(queries(), 1, again).votes == first.votes).all()
        assert made.ask(queries()[5:9], 2, again).parties == NAMES
        again.settle()
        assert not list((made.root / "sessions").glob("*.session"))


def accuse(record):
    return refusal_to_record(Refusal(rule=Rule.BAD_KEY, party="p03"))


class TestWhoIsLeftOut:
    def test_whom_c_plus_two_accuse_of_a_session_that_fails(self, cluster, monkeypatch) -> None:
        """In the same call the next session is without it, and so are those of later starts. Control: without that, one
        message ends every session."""
        made = cluster()
        made.faulty(Stage.SHARE, 0, 1, 2, 4, fault=accuse)
        with monkeypatch.context() as patch:
            patch.setattr(SecureCollector, "_check_accused", lambda self: None)
            made.fails("share", queries(5, 5))
        left = {place: [accuse] for place in (0, 1, 2, 4)}
        once = {at: lambda record, at=at: left[at].pop()(record) if left[at] else record for at in left}
        made.transport.faults = {(place, "query.sa_share"): fault for place, fault in once.items()}
        for x in (queries(), queries(9, 9)):
            assert made.ask(x).parties == NAMES[:3] + NAMES[4:]
        assert [event["party"] for event in made.told("excluded")] == ["p03"]

    @pytest.mark.parametrize("colluders", [0, 1, 3])
    def test_colluders_and_one_more_are_not_believed(self, colluders: int) -> None:
        accusers = {"few": {*NAMES[: colluders + 1]}, "enough": {*NAMES[: colluders + 2]}}
        assert believed(accusers, colluders) == ["enough"]

    def test_whom_a_proof_names_and_when_too_few_are_left(self, cluster, monkeypatch) -> None:
        """After masked vectors were paid for, whoever asks again decides; before, the next session begins."""
        made, take, liars, lied_in = cluster(**MANY), SecureSession.take, ["p01"], dict[str, str]()

        def lied(session: SecureSession, replies) -> None:
            sid = session.state.terms.sid
            if session.state.stage is Stage.UNMASK and (liars or sid in lied_in):
                name = lied_in[sid] = lied_in.get(sid) or liars.pop()
                raise BadShare(name, "does not open", [name])
            take(session, replies)

        monkeypatch.setattr(SecureSession, "take", lied)
        made.fails(error=BadShare)
        assert made.ask(queries()).parties == ("p00", *NAMES[2:])
        for liar in ("p02", "p04"):
            liars += [liar]
            made.fails(x=queries(5, 5), error=BadShare)
        made.fails("advertise: 4 parties", queries(5, 5))

    def test_who_sends_more_than_a_reply_can_have_is_out_before_it_is_looked_into(self, cluster) -> None:
        """Else a few liars fill the coordinator's memory: replies of a stage are there together."""
        made = cluster()

        def huge(record):
            many = encode_array(np.zeros((2000, 2), dtype=np.uint16))
            record["arrays"] = ArrayRecord({**dict(record["arrays"]), "y": many})
            return record

        made.faulty(Stage.MASKED, 3, fault=huge)
        assert made.ask(queries()).parties == NAMES[:3] + NAMES[4:]
        assert "arrays of more than" in made.told("left-out")[0]["reason"]

    def test_a_history_that_cannot_be_used(self, cluster) -> None:
        made = cluster()
        path = made.root / "sessions" / "history.json"
        path.parent.mkdir()
        for content in ("{", "[]", json.dumps({"roster": "0" * 64, "left_out": {}})):
            path.write_text(content)
            made.fails("sessions/history", error=ConfigError)

    @pytest.mark.parametrize("lie", [1000, 0])
    def test_a_gross_lie_is_said_and_nobody_named(self, cluster, monkeypatch, lie: int) -> None:
        lies = iter([lie] + [0] * PARTIES)

        class Lying(SystemNoise):
            def gaussian(self, sigma: float, shape: tuple[int, ...]) -> np.ndarray:
                return super().gaussian(sigma, shape) + next(lies)

        monkeypatch.setattr("consilium.party.node.SystemNoise", Lying)
        made = cluster(**MANY)
        made.ask(queries(30))
        assert len(made.told("false-votes")) == (lie > 0) and not made.told("excluded")


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
