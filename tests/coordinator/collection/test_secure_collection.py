"""Secure and distributed votes through real parties: the sums of clear ones, and nothing that was not promised."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from consilium.coordinator.collection.clear import ClearCollector
from consilium.coordinator.collection.members import enrol, train
from consilium.coordinator.collection.secure import SecureCollector, SecureKeys
from consilium.coordinator.config import Caps, FederationConfig
from consilium.coordinator.federation import run_federation
from consilium.coordinator.labels.service import LabelService
from consilium.coordinator.ledger.store import Ledger
from consilium.coordinator.mechanisms import Confident, Distributed, DistributedTwoPhase
from consilium.coordinator.secagg.history import History
from consilium.coordinator.secagg.machine import Aggregation
from consilium.party.secagg.store import SessionStatus, SessionStore
from consilium.protocol.errors import ConfigError, NotEnoughParties
from consilium.protocol.labels.service import Outcome, no_progress
from consilium.protocol.noise import SeededNoise
from consilium.protocol.parties.records import refusal_to_record
from consilium.protocol.parties.refusals import Refusal, Refused, Rule
from consilium.protocol.rows.queries import canonical_queries, query_ids, query_set_hash
from consilium.protocol.secagg.errors import BadShare, SetTooClose, ThresholdNotMet
from consilium.protocol.secagg.messages import AdvertiseRequest
from consilium.protocol.secagg.session import NO_LEDGER, SessionDescriptor
from consilium.protocol.secagg.stages import Stage
from tests.deploy.kits import edit
from tests.federation import (
    FakeTransport,
    drop,
    hello_of,
    make_config,
    make_homes,
    make_relative,
    make_secure,
    standing,
    vote_request,
    with_array,
)

pytestmark = pytest.mark.slow

PARTIES = 7  # t = 5
STAGES = ("sa_advertise", "sa_share", "sa_masked", "sa_consistency", "sa_unmask")
ONE_PHASE = Distributed(threshold=3, sigma=4.0, noise_shares=5)
TWO_PHASES = DistributedTwoPhase(threshold=1, sigma1=2.5, sigma2=2.5, noise_shares=5)


class Cluster:
    """Parties at home, enrolled and trained in a federation with the given votes mode."""

    def __init__(self, root: Path, log, votes="secure", faults=None, policy=None, make=make_config, **changes) -> None:
        self.root, self.log = root, log
        self.homes = make_homes(root / "parties", PARTIES, **(policy or {}))
        self.keys = make_secure(self.homes, root)
        self.config: FederationConfig = make(votes=votes, roster=self.keys.roster.digest, **changes)
        self.transport = FakeTransport(self.homes, faults)

    def ready(self):
        members = enrol(self.transport, self.config, NO_LEDGER.ledger, self.log)
        return train(self.transport, self.config, members, self.log).members

    def collector(self, members) -> SecureCollector:
        folder = self.root / "sessions"
        return SecureCollector(self.transport, self.config, members, self.keys, folder, standing(), self.log)


@pytest.fixture
def cluster(tmp_path: Path, log):
    return lambda **changes: Cluster(tmp_path, log, **changes)


def queries(count: int = 20, seed: int = 3) -> tuple[np.ndarray, str]:
    x = canonical_queries(np.random.default_rng(seed).normal(size=(count, 3)) * [10, 20, 1] + [60, 140, 0], 3)
    return x, query_set_hash(x)


def seven_in_clear(made: Cluster, x: np.ndarray, keep: list[int]) -> np.ndarray:
    """The sum of the votes of some of the parties, from their teachers."""
    from consilium.party.teachers import store
    from consilium.party.teachers.ballot import Lot, cast

    total = np.zeros((len(x), 2), dtype=np.int64)
    for index in keep:
        home, digest = made.transport.parties[index].home, made.config.digest()
        trained = store.load(home.teachers(digest), digest)
        total += cast(trained, made.config.rows.standardise(x), Lot(home.name, digest, query_ids(x)))
    return total


@pytest.mark.parametrize("make", [make_config, make_relative])
def test_a_secure_sum_is_the_clear_sum(cluster, make) -> None:
    made = cluster(make=make)
    members = made.ready()
    x, name = queries()
    histogram = made.collector(members)(x, name)
    assert (histogram.votes == seven_in_clear(made, x, list(range(PARTIES)))).all()
    assert histogram.parties == tuple(f"p{i:02d}" for i in range(PARTIES))
    assert histogram.teachers == PARTIES


@pytest.mark.parametrize("stage", STAGES)
def test_two_may_drop_at_any_stage(cluster, stage: str) -> None:
    made = cluster(faults={(1, f"query.{stage}"): drop, (4, f"query.{stage}"): drop})
    histogram = made.collector(made.ready())(*queries())
    # whoever has sent its masked votes is counted, also if it is gone afterwards
    keep = list(range(PARTIES)) if stage in ("sa_consistency", "sa_unmask") else [0, 2, 3, 5, 6]
    assert (histogram.votes == seven_in_clear(made, queries()[0], keep)).all()
    assert len(histogram.parties) == len(keep)


@pytest.mark.parametrize("stage", STAGES)
def test_three_are_too_many_and_the_error_says_where(cluster, stage: str) -> None:
    made = cluster(faults={(index, f"query.{stage}"): drop for index in (1, 4, 6)})
    with pytest.raises(ThresholdNotMet, match=f"stage {stage[3:]}: 4 parties are left, 5 are needed; missing: p01"):
        made.collector(made.ready())(*queries())
    told = [json.loads(line) for line in (made.root / "events.jsonl").read_text().splitlines()]
    assert {event["party"] for event in told if event["event"] == "left-out"} == {"p01", "p04", "p06"}


def test_a_coordinator_that_stopped_before_the_ledger_goes_on_with_the_same_session(cluster) -> None:
    made = cluster()
    members = made.ready()
    first = made.collector(members)(*queries())
    asked = len(made.transport.requests)
    again = made.collector(members)(*queries())  # a new process: only the file is left
    assert (again.votes == first.votes).all()
    assert len(made.transport.requests) == asked  # the sum was on disk


def test_settled_sums_are_forgotten_and_the_parties_refuse_a_second_one(cluster) -> None:
    made = cluster()
    members = made.ready()
    collector = made.collector(members)
    collector(*queries())
    assert len(list((made.root / "sessions").glob("*.session"))) == 1
    collector.settle()
    assert not list((made.root / "sessions").glob("*.session"))
    with pytest.raises(ThresholdNotMet, match="advertise"):
        collector(*queries())  # the difference of two sums would show who dropped
    x, _ = queries(25, 4)
    x[3] = queries()[0][0]  # one old query among new ones
    with pytest.raises(ThresholdNotMet, match="masked"):
        collector(x, query_set_hash(x))


SHARED = "query.sa_share"


def told(made: Cluster, event: str) -> list[dict]:
    lines = (made.root / "events.jsonl").read_text().splitlines()
    return [line for line in map(json.loads, lines) if line["event"] == event]


WITHOUT_P03 = ("p00", "p01", "p02", "p04", "p05", "p06")


def test_whoever_sends_rubbish_to_its_peers_is_left_out_at_once(cluster) -> None:
    """Before anybody votes, and by the coordinator's own check: no session is lost."""
    made = cluster(faults={(3, SHARED): with_array("ciphertexts", lambda matrix: matrix ^ 1)})
    assert made.collector(made.ready())(*queries()).parties == WITHOUT_P03
    reasons = {event["party"]: event["reason"] for event in told(made, "left-out")}
    assert reasons == {"p03": "its shares are not shares of what its advert is committed to"}


def accuse(record):
    return refusal_to_record(Refusal(rule=Rule.BAD_KEY, party="p03"))


ACCUSED = {(index, SHARED): accuse for index in (0, 1, 2, 4)}
"""Four of seven refuse p03's key: with p03 in the session, too few are left."""


def once(fault):
    """The fault in the first exchange only: an honest party accuses nobody who is not there."""
    left = [fault]
    return lambda record: left.pop()(record) if left else record


def test_whom_many_accuse_is_named_and_left_out(cluster) -> None:
    """In the same call: the session ends, the next one is without it, and it stays out."""
    made = cluster(faults={at: once(fault) for at, fault in ACCUSED.items()})
    members = made.ready()
    assert made.collector(members)(*queries()).parties == WITHOUT_P03
    assert [event["party"] for event in told(made, "excluded")] == ["p03"]
    made.transport.requests.clear()
    assert made.collector(members)(*queries(9, 9)).parties == WITHOUT_P03  # a new process knows it too
    assert 3 not in {node for node, _ in made.transport.requests}


def test_without_leaving_liars_out_one_message_ends_every_session(cluster, monkeypatch) -> None:
    """The control: what was before."""
    monkeypatch.setattr(SecureCollector, "_check_accused", lambda self: None)
    made = cluster(faults=dict(ACCUSED))
    members = made.ready()
    for _ in range(2):
        with pytest.raises(ThresholdNotMet, match="share"):
            made.collector(members)(*queries())
    assert not told(made, "excluded")


def test_one_party_s_word_does_not_exclude_another(cluster) -> None:
    """One that accuses may lie itself: the others go on without it, and the accused is asked again."""
    made = cluster(faults={(0, "query.sa_masked"): accuse})
    members = made.ready()
    assert made.collector(members)(*queries()).parties == tuple(f"p{i:02d}" for i in range(1, PARTIES))
    assert not told(made, "excluded")


def test_parties_that_an_error_names_are_left_out_in_the_same_call(cluster, monkeypatch) -> None:
    """Whatever check names them, before unmasking: here at the consistency stage, two at once, then enough are left."""
    made = cluster()
    take = Aggregation.take

    def checked(machine, replies):
        if machine.stage is Stage.CONSISTENCY and {"p01", "p05"} <= set(replies):
            raise BadShare("p01", "does not verify", ["p01", "p05"])
        return take(machine, replies)

    monkeypatch.setattr(Aggregation, "take", checked)
    assert made.collector(made.ready())(*queries()).parties == ("p00", "p02", "p03", "p04", "p06")
    assert sorted(event["party"] for event in told(made, "excluded")) == ["p01", "p05"]


def test_too_few_without_the_liars_is_the_end(cluster, monkeypatch) -> None:
    made = cluster()

    def checked(machine, replies):
        raise BadShare("p01", "does not verify", ["p01", "p02", "p05"])

    monkeypatch.setattr(Aggregation, "take", checked)
    with pytest.raises(BadShare):
        made.collector(made.ready())(*queries())
    assert len(told(made, "stage")) == 2 + 1  # enrol, train, and one exchange


def test_a_member_that_comes_back_is_told_what_it_has_answered(cluster) -> None:
    """Two were away when the others gave their sum. Asked again, they can answer and the others cannot: each says so
    with the number of queries, and the sum of two is none."""
    made = cluster(faults={(index, "query.sa_advertise"): drop for index in (1, 4)})
    members = made.ready()
    collector = made.collector(members)
    collector(*queries())
    collector.settle()
    made.transport.faults.clear()
    with pytest.raises(ThresholdNotMet, match="2 parties are left"):
        collector(*queries())
    reasons = {event["party"]: event["reason"] for event in told(made, "left-out")}
    assert reasons["p00"] == "refused: already-answered, requested 20, limit 0"
    x = np.concatenate([queries(25, 4)[0], queries()[0][:3]])
    with pytest.raises(ThresholdNotMet, match="masked"):
        collector(x, query_set_hash(x))
    reasons = {event["party"]: event["reason"] for event in told(made, "left-out")}
    assert reasons["p00"] == "refused: already-answered, requested 28, limit 25"


def test_a_session_whose_unmasking_was_begun_is_kept_until_enough_are_back(cluster) -> None:
    """The four that gave their shares refuse these queries in any other session."""
    made = cluster(faults={(index, "query.sa_unmask"): drop for index in (1, 4, 6)})
    members = made.ready()
    for _ in range(3):
        with pytest.raises(ThresholdNotMet, match="unmask"):
            made.collector(members)(*queries())
    made.transport.faults.clear()
    histogram = made.collector(members)(*queries())
    assert (histogram.votes == seven_in_clear(made, queries()[0], list(range(PARTIES)))).all()


def test_one_that_is_away_after_a_sum_over_all_ends_the_next_before_unmasking(cluster) -> None:
    """By the coordinator's own account, and nothing is used up: when it is back, all is well."""
    made = cluster()
    members = made.ready()
    made.collector(members)(*queries())
    made.transport.faults |= {(1, "query.sa_share"): drop}
    made.transport.requests.clear()
    with pytest.raises(SetTooClose, match="by 0 on one side, at least 2"):
        made.collector(members)(*queries(9, 9))
    assert {kind for _, kind in made.transport.requests} == {f"query.{stage}" for stage in STAGES[:3]}
    made.transport.faults.clear()
    assert len(made.collector(members)(*queries(9, 9)).parties) == PARTIES


def test_with_spare_parties_one_may_be_away_after_the_first_sum(cluster) -> None:
    made = cluster(spare=2)
    members = made.ready()
    first = set(made.collector(members)(*queries()).parties)
    assert len(first) == 5
    made.transport.faults |= {(int(min(first)[1:]), "query.sa_share"): drop}
    second = set(made.collector(members)(*queries(9, 9)).parties)
    assert len(first - second) == len(second - first) == 2
    sums = [made.collector(members)(*queries(9, seed)).parties for seed in range(10, 14)]
    assert all(set(summed) == second for summed in sums)  # those are there again: nothing new is tried


def test_parties_refuse_what_a_coordinator_without_an_account_tries(cluster) -> None:
    """Its history is lost; theirs is not."""
    made = cluster()
    members = made.ready()
    made.collector(members)(*queries())
    (made.root / "sessions" / "history.json").unlink()
    made.transport.faults |= {(1, "query.sa_share"): drop}
    with pytest.raises(ThresholdNotMet, match="stage consistency: 0 parties"):
        made.collector(members)(*queries(9, 9))
    reasons = {event["party"]: event["reason"] for event in told(made, "left-out")}
    assert reasons["p00"] == "refused: set-too-close, requested 0, limit 2"


def test_a_coordinator_that_inherits_its_account_waits_for_those_of_the_sum_before(cluster, tmp_path: Path) -> None:
    """As in a new federation of the same parties; the control is the coordinator without an account, above."""
    made = cluster()
    members = made.ready()
    first = made.collector(members)(*queries())
    path = made.root / "sessions" / "history.json"
    shutil.move(path, tmp_path / "earlier.json")
    History(path, made.keys.roster).inherit([tmp_path / "earlier.json"])
    made.transport.faults |= {(1, "query.sa_share"): drop}
    with pytest.raises(SetTooClose):  # by its own choice: no party was asked to unmask anything
        made.collector(members)(*queries(9, 9))
    assert not any("refused" in event["reason"] for event in told(made, "left-out"))
    made.transport.faults.clear()
    assert made.collector(members)(*queries(9, 9)).parties == first.parties


def test_a_history_that_cannot_be_used(cluster) -> None:
    made = cluster()
    members = made.ready()
    made.collector(members)(*queries())
    path = made.root / "sessions" / "history.json"
    for content in ("{", "[]", json.dumps({**json.loads(path.read_text()), "roster": "0" * 64})):
        path.write_text(content)
        with pytest.raises(ConfigError, match="sessions/history"):
            made.collector(members)(*queries(9, 9))


def test_noisy_sums_may_differ_by_one_party(cluster) -> None:
    """What they tell together is charged."""
    made = cluster(votes="distributed", mechanism=ONE_PHASE, caps=Caps(queries=100, answers=100))
    members = made.ready()
    made.collector(members)(*queries())
    made.transport.faults |= {(1, "query.sa_share"): drop}
    assert len(made.collector(members)(*queries(9, 9)).parties) == PARTIES - 1


@pytest.mark.parametrize("stage", STAGES)
def test_a_session_that_failed_is_taken_up_where_it_stopped(cluster, stage: str) -> None:
    made = cluster(faults={(index, f"query.{stage}"): drop for index in (1, 4, 6)})
    members = made.ready()
    with pytest.raises(ThresholdNotMet):
        made.collector(members)(*queries())
    made.transport.faults.clear()  # the network is back
    histogram = made.collector(members)(*queries())
    assert (histogram.votes == seven_in_clear(made, queries()[0], list(range(PARTIES)))).all()


def test_parties_that_have_forgotten_are_asked_anew(cluster) -> None:
    """A simulation that is resumed makes its parties anew; sessions of the old ones mean nothing to them."""
    made = cluster(faults={(index, "query.sa_share"): drop for index in (1, 4, 6)})
    members = made.ready()
    with pytest.raises(ThresholdNotMet):
        made.collector(members)(*queries())
    made.transport.faults.clear()
    for home in made.homes:
        (home / "state" / "sessions.db").unlink()
    assert made.collector(members)(*queries()).teachers == PARTIES


def test_a_whole_federation_with_secure_votes_gives_the_labels_of_the_clear_one(tmp_path: Path, log) -> None:
    x, _ = queries(40, 5)
    labels = []
    for votes in ("clear", "secure"):
        (tmp_path / votes).mkdir()
        made = Cluster(tmp_path / votes, log)
        config = make_config(votes=votes, roster=made.keys.roster.digest if votes == "secure" else "")
        run_dir = tmp_path / votes / "run"
        run_dir.mkdir()

        def student(source) -> None:
            labels.append(source.ask(x))
            source.finish()

        run_federation(made.transport, config, run_dir, log, student, made.keys)
    assert (labels[0].labels == labels[1].labels).all()
    assert (labels[0].outcomes == labels[1].outcomes).all()
    assert labels[0].answered.any()


@pytest.mark.parametrize("make", [make_config, make_relative])
def test_distributed_sums_hold_noise_and_the_same_seed_gives_the_same(tmp_path: Path, log, make) -> None:
    sums = []
    for run in ("a", "b"):
        (tmp_path / run).mkdir()
        made = Cluster(
            tmp_path / run,
            log,
            votes="distributed",
            make=make,
            mechanism=ONE_PHASE,
            caps=Caps(queries=600, answers=600),
        )
        for home in made.homes:
            text = (home / "party.toml").read_text()
            (home / "party.toml").write_text(f"simulated_noise_seed = 5\n{text}")
        made.transport = FakeTransport(made.homes)
        x, name = queries(500, 6)
        noisy = made.collector(made.ready())(x, name)
        sums.append(noisy.votes)
        exact = seven_in_clear(made, x, list(range(PARTIES)))
    assert (sums[0] == sums[1]).all()
    noise = (sums[0] - exact).astype(float)  # pyright: ignore[reportPossiblyUnboundVariable]
    # all 7 are there, and 5 shares make sigma 4: variance 16 * 7 / 5, over 1000 numbers; false alarm once in 1e6
    assert abs(noise.var() / (16 * 7 / 5) - 1) < 5 * np.sqrt(2 / 1000)
    assert abs(noise.mean()) < 5 * np.sqrt(16 * 7 / 5 / 1000)


def service(made: Cluster, members, collector=None) -> tuple[LabelService, Ledger]:
    ledger = Ledger(made.root / "ledger.db", made.config.digest(), made.config.model_dump_json())
    collector = collector or made.collector(members)
    return LabelService(made.config, ledger, SeededNoise, collector, PARTIES, made.log), ledger


@pytest.mark.parametrize("mechanism", [ONE_PHASE, TWO_PHASES], ids=lambda m: m.name)
def test_labels_from_the_parties_noise_are_charged_towards_the_coordinator(cluster, mechanism) -> None:
    answers = 60 if mechanism is TWO_PHASES else 100
    made = cluster(votes="distributed", mechanism=mechanism, caps=Caps(queries=100, answers=answers))
    labels, ledger = service(made, made.ready())
    x, _ = queries(80, 7)
    given = labels.ask(x)
    asked, answered = ledger.spent()
    assert asked == 80
    assert answered == int(given.answered.sum())
    assert 0 < answered <= answers
    (batch,) = ledger.batches()
    assert batch.event["towards"] == "coordinator"
    assert (batch.event["asked"], batch.event["answered"]) == (80, answered)
    assert (labels.ask(x).labels == given.labels).all()  # from the ledger: the parties would refuse
    ledger.close()
    with sqlite3.connect(made.homes[0] / "state" / "spend.db") as spend:
        counted = dict(spend.execute("SELECT phase, COUNT(*) FROM given GROUP BY phase").fetchall())
    assert counted[1] == 80
    assert counted.get(2, 0) == (answered if mechanism is TWO_PHASES else 0)


def test_the_cap_on_answers_bounds_what_goes_to_phase_two(cluster) -> None:
    made = cluster(votes="distributed", mechanism=TWO_PHASES, caps=Caps(queries=100, answers=6))
    labels, ledger = service(made, made.ready())
    given = labels.ask(queries(80, 7)[0])
    assert int(given.answered.sum()) == 6
    assert (given.outcomes != Outcome.NOT_ASKED).all()  # all were seen in phase one
    assert ledger.spent() == (80, 6)
    ledger.close()


def test_a_phase_that_was_shown_is_charged_though_the_next_one_fails(cluster) -> None:
    made = cluster(votes="distributed", mechanism=TWO_PHASES, caps=Caps(queries=100, answers=60))
    collector = made.collector(made.ready())

    class Breaks:
        def __call__(self, x, name, progress=no_progress, phase=1):
            if phase == 2:
                made.transport.faults |= {(index, "query.sa_share"): drop for index in range(5)}
            return collector(x, name, progress, phase)

        def settle(self):
            collector.settle()

    labels, ledger = service(made, None, Breaks())
    x, _ = queries(80, 7)
    with pytest.raises(ThresholdNotMet):
        labels.ask(x)
    assert ledger.spent() == (80, 0)
    again = labels.ask(x)
    assert (again.outcomes == Outcome.ABSTAINED).all()
    ledger.close()


# What a party does not take, whatever the coordinator says.


def hello(made: Cluster, index: int = 0):
    return made.transport.parties[index].hello(hello_of(made.config))


def test_a_policy_that_asks_for_more_secrecy_is_kept(cluster) -> None:
    made = cluster(policy={"votes": "distributed"})
    with pytest.raises(Refused) as refused:
        hello(made)
    assert refused.value.refusal.rule is Rule.VOTES


def test_clear_votes_are_refused_in_a_federation_of_secret_ones(cluster) -> None:
    made = cluster()
    members = made.ready()
    with pytest.raises(NotEnoughParties, match="7 x refused: votes"):
        ClearCollector(made.transport, made.config, members, standing(), made.log)(*queries(), no_progress)


def test_clear_votes_are_refused_by_a_policy_that_asks_for_secret_ones(cluster) -> None:
    made = cluster(policy={"votes": "secure"})
    made.ready()
    other = make_config(seed=8)
    party = made.transport.parties[0]
    with pytest.raises(Refused) as refused:
        party.hello(hello_of(other))
    assert refused.value.refusal.rule is Rule.VOTES
    with pytest.raises(Refused) as refused:
        party.vote(vote_request(other, queries()[0]))
    assert refused.value.refusal.rule is Rule.PROMISE  # it never enrolled


def test_too_few_parties_in_a_sum_and_another_roster_are_refused(cluster) -> None:
    made = cluster(policy={"least_parties": 6})
    with pytest.raises(Refused) as refused:
        hello(made)
    assert (refused.value.refusal.rule, refused.value.refusal.limit) == (Rule.LEAST_PARTIES, 6)
    (made.homes[1] / "roster.json").unlink()
    make_secure_elsewhere(made).roster.save(made.homes[1] / "roster.json")
    with pytest.raises(Refused) as refused:
        hello(made, 1)
    assert refused.value.refusal.rule is Rule.ROSTER_MISMATCH


def test_sums_that_may_differ_by_fewer_than_the_policy_asks_are_refused(cluster) -> None:
    made = cluster(policy={"least_difference": 3})
    with pytest.raises(Refused) as refused:
        hello(made)
    found = refused.value.refusal
    assert (found.rule, found.limit, found.requested) == (Rule.LEAST_DIFFERENCE, 3, 2)


def make_secure_elsewhere(made: Cluster) -> SecureKeys:
    other = made.root / "other"
    other.mkdir()
    return make_secure(make_homes(other / "parties", PARTIES), other)


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"sigma": 3.0}, Rule.PROMISE),  # less noise than was promised
        ({"noise_shares": 4}, Rule.PROMISE),
        ({"sigma": 0.0, "noise_shares": 0}, Rule.PROMISE),  # an exact sum
        ({"phase": 2}, Rule.PROMISE),
        ({"teachers": 2}, Rule.PROMISE),
        ({"federation": "0" * 64}, Rule.PROMISE),
    ],
)
def test_the_terms_of_a_session_must_be_those_of_the_promise(cluster, changes, rule) -> None:
    made = cluster(votes="distributed", mechanism=ONE_PHASE, caps=Caps(queries=100, answers=100))
    made.ready()
    x, _ = queries()
    values = {"sigma": 4.0, "noise_shares": 5, "phase": 1, "teachers": 1, **changes}
    terms = SessionDescriptor.create(
        made.keys.roster, values.pop("federation", made.config.digest()), x, 2, values.pop("teachers"), **values
    )
    request = AdvertiseRequest(descriptor=terms.canonical(), signature=terms.sign(made.keys.signer))
    with pytest.raises(Refused) as refused:
        made.transport.parties[0].secure.advertise(request)
    assert refused.value.refusal.rule is rule


def test_secure_votes_are_counted_once_against_the_parties_own_limit(cluster) -> None:
    """Which they lowered since they enrolled: there, a federation that may ask more than it allows is refused."""
    made = cluster(policy={"most_queries": 1000})
    members = made.ready()
    for home in made.homes:
        edit(home / "party.toml", "most_queries = 1000", "most_queries = 50")
    made.transport = FakeTransport(made.homes)
    collector = made.collector(members)
    collector(*queries(40))
    with pytest.raises(ThresholdNotMet, match="masked"):
        collector(*queries(11, 9))
    collector(*queries(10, 10))


def test_another_promise_than_at_the_first_hello_is_refused(cluster) -> None:
    made = cluster()
    hello(made)
    made.config = made.config.model_copy(update={"mechanism": Confident(threshold=4, sigma1=3.0, sigma2=1.0)})
    object.__setattr__(
        made.config, "digest", lambda: make_config(votes="secure", roster=made.keys.roster.digest).digest()
    )
    with pytest.raises(Refused) as refused:
        hello(made)
    assert refused.value.refusal.rule is Rule.PROMISE


def test_keys_must_be_those_of_the_federation(cluster) -> None:
    made = cluster()
    with pytest.raises(ConfigError, match="the federation asks for"):
        make_secure_elsewhere(made).check(made.config)
    wide = made.config.model_copy(
        update={"votes": "distributed", "mechanism": Distributed(threshold=3, sigma=4.0, noise_shares=6)}
    )
    with pytest.raises(ConfigError, match="noise_shares 6 is above the 5 honest parties"):
        made.keys.check(wide)


def test_nothing_secret_is_left_at_a_party_when_a_session_is_done(cluster) -> None:
    made = cluster()
    made.collector(made.ready())(*queries())
    path = made.homes[0] / "state" / "sessions.db"
    with sqlite3.connect(path) as connection:
        (sid,) = connection.execute("SELECT sid FROM sessions").fetchone()
    with SessionStore(path).transaction() as transaction:
        session = transaction.session(sid)
    assert session is not None
    assert session.state is SessionStatus.DONE
    assert session.memory == {}
