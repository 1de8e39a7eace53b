"""Secure votes through real parties: the sums of plaintext ones with noise, and the labels that come of them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from consilium.coordinator.collection.plaintext import PLAINTEXT
from consilium.coordinator.collection.secure import FALSE_VOTES
from consilium.coordinator.config import QueryBudget
from consilium.coordinator.label_service import LabelService
from consilium.coordinator.ledger import Ledger
from consilium.party.voting import Lot
from consilium.protocol.errors import ConfigError
from consilium.protocol.label_source import Outcome
from consilium.protocol.noise import SeededNoise, SystemNoise
from consilium.protocol.queries import query_ids
from consilium.sums.errors import ThresholdNotMet
from tests.coordinator.collection.cluster import ONE_ROUND, PARTIES, TWO_ROUNDS, Cluster, ask, queries, told
from tests.coordinator.mechanisms.drawing import NoNoise
from tests.federation import FakeTransport, cast, drop, make_config, make_relative

pytestmark = pytest.mark.slow


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parties that add no noise, so that sums can be held against those of their votes."""
    monkeypatch.setattr("consilium.party.old_hidden_votes.SystemNoise", NoNoise)


def seven_in_clear(made: Cluster, x: np.ndarray, keep: list[int]) -> np.ndarray:
    """The sum of the votes of some of the parties, from their teachers."""
    total = np.zeros((len(x), 2), dtype=np.int64)
    for index in keep:
        party, digest = made.transport.parties[index], made.config.digest()
        lot = Lot(party.settings.name, digest, query_ids(x))
        total += cast(party.teachers(digest), made.config.rows.standardise(x), lot)
    return total


@pytest.mark.parametrize("make", [make_config, make_relative])
def test_a_secure_sum_is_the_clear_sum(silent, cluster, make) -> None:
    made = cluster(make=make)
    members = made.ready()
    x = queries()
    histogram = ask(made.collector(members), x)
    assert (histogram.votes == seven_in_clear(made, x, list(range(PARTIES)))).all()
    assert histogram.parties == tuple(f"p{i:02d}" for i in range(PARTIES))
    assert histogram.teachers == PARTIES
    assert histogram.sigma == pytest.approx(4 * np.sqrt(2 / 3 * PARTIES / 2), rel=1e-3)


MANY = QueryBudget(queries=100, answers=100)


@pytest.mark.parametrize("stage", ["sa_share", "sa_unmask"])
def test_two_may_drop_at_any_stage(silent, cluster, stage: str) -> None:
    made = cluster(faults={(3, f"query.{stage}"): drop, (4, f"query.{stage}"): drop})
    histogram = ask(made.collector(made.ready()), queries())
    # whoever has sent its masked votes is counted, also if it is gone afterwards
    keep = list(range(PARTIES)) if stage == "sa_unmask" else [0, 1, 2, 5, 6]
    assert (histogram.votes == seven_in_clear(made, queries(), keep)).all()
    assert len(histogram.parties) == len(keep)


@pytest.mark.parametrize("stage", ["sa_share", "sa_unmask"])
def test_three_are_too_many_and_the_error_says_where(cluster, stage: str) -> None:
    made = cluster(faults={(index, f"query.{stage}"): drop for index in (1, 4, 6)})
    with pytest.raises(ThresholdNotMet, match=f"stage {stage[3:]}: 4 parties are left, 5 are needed; missing: p01"):
        ask(made.collector(made.ready()), queries())
    told = [json.loads(line) for line in (made.root / "events.jsonl").read_text().splitlines()]
    assert {event["party"] for event in told if event["event"] == "left-out"} == {"p01", "p04", "p06"}


def test_both_rounds_on_the_same_queries_are_on_disk_until_they_are_in_the_ledger(cluster) -> None:
    """A round that overwrote the other's session could not be gone on with, and a query is unmasked once."""
    made = cluster(mechanism=TWO_ROUNDS)
    collector, folder = made.collector(made.ready()), made.root / "sessions"
    for round_ in (1, 2):
        ask(collector, queries(), round_)
        assert len(list(folder.glob("*.session"))) == round_
    collector.settle()
    assert not list(folder.glob("*.session"))


def test_hidden_votes_without_keys_are_not_collected_in_plaintext(cluster) -> None:
    made = cluster()
    with pytest.raises(ConfigError, match="secure votes need a roster and the coordinator's key"):
        PLAINTEXT.check(made.config)


def test_a_coordinator_that_stopped_before_the_ledger_goes_on_with_the_same_session(cluster) -> None:
    made = cluster()
    members = made.ready()
    first = ask(made.collector(members), queries())
    asked = len(made.transport.requests)
    again = ask(made.collector(members), queries())  # a new process: only the file is left
    assert (again.votes == first.votes).all()
    assert len(made.transport.requests) == asked  # the sum was on disk


def test_settled_sums_are_forgotten_and_the_parties_refuse_a_second_noisy_one(cluster) -> None:
    made = cluster(mechanism=ONE_ROUND, query_budget=MANY)
    members = made.ready()
    collector = made.collector(members)
    ask(collector, queries())
    assert len(list((made.root / "sessions").glob("*.session"))) == 1
    collector.settle()
    assert not list((made.root / "sessions").glob("*.session"))
    with pytest.raises(ThresholdNotMet, match="advertise"):
        ask(collector, queries())  # fresh noise on the same queries is another release
    x = queries(25, 4)
    x[3] = queries()[0]  # one old query among new ones
    with pytest.raises(ThresholdNotMet, match="masked"):
        ask(collector, x)


def test_a_member_that_comes_back_is_told_what_it_has_answered(cluster) -> None:
    """Two were away when the others gave their noisy sum. Asked again, they can answer and the others cannot: each says
    so with the number of queries, and the sum of two is none."""
    faults = {(index, "query.sa_advertise"): drop for index in (1, 4)}
    made = cluster(faults=faults, mechanism=ONE_ROUND, query_budget=MANY)
    members = made.ready()
    collector = made.collector(members)
    ask(collector, queries())
    collector.settle()
    made.transport.faults.clear()
    with pytest.raises(ThresholdNotMet, match="2 parties are left"):
        ask(collector, queries())
    reasons = {event["party"]: event["reason"] for event in told(made, "left-out")}
    assert reasons["p00"] == "refused: already-answered, requested 20, limit 0"
    x = np.concatenate([queries(25, 4), queries()[:3]])
    with pytest.raises(ThresholdNotMet, match="masked"):
        ask(collector, x)
    reasons = {event["party"]: event["reason"] for event in told(made, "left-out")}
    assert reasons["p00"] == "refused: already-answered, requested 28, limit 25"


def test_a_session_whose_unmasking_was_begun_is_kept_until_enough_are_back(silent, cluster) -> None:
    """The four that gave their shares refuse these queries in any other session."""
    made = cluster(faults={(index, "query.sa_unmask"): drop for index in (1, 4, 6)})
    members = made.ready()
    for _ in range(3):
        with pytest.raises(ThresholdNotMet, match="unmask"):
            ask(made.collector(members), queries())
    made.transport.faults.clear()
    histogram = ask(made.collector(members), queries())
    assert (histogram.votes == seven_in_clear(made, queries(), list(range(PARTIES)))).all()


def forget(made: Cluster, index: int) -> None:
    """A party that has lost its sessions, and not what it gave."""
    store = made.transport.parties[index].store
    with store.transaction():
        for table in ("sessions", "replies"):
            store.execute(f"DELETE FROM {table}")


NOISY = {"mechanism": ONE_ROUND, "query_budget": QueryBudget(queries=100, answers=100)}


@pytest.mark.parametrize(("forgetful", "kept"), [((1, 4), True), ((1, 4, 6), False)], ids=["t left", "t - 1 left"])
def test_a_session_that_can_be_unmasked_is_thrown_away_only_if_fewer_than_t_can_still_help(
    cluster, forgetful: tuple[int, ...], kept: bool
) -> None:
    """Four of seven (t = 5) gave their shares, and answer these queries in no other session. Of the others some have
    lost their state since, and refuse."""
    silent = {(index, "query.sa_unmask"): drop for index in (1, 4, 6)}
    made = cluster(faults=silent, **NOISY)
    members = made.ready()
    with pytest.raises(ThresholdNotMet, match="unmask"):
        ask(made.collector(members), queries())
    for index in forgetful:
        forget(made, index)
        del made.transport.faults[(index, "query.sa_unmask")]
    with pytest.raises(ThresholdNotMet):
        ask(made.collector(members), queries())
    assert bool(told(made, "session-lost")) is not kept
    made.transport.faults.clear()
    if kept:
        assert ask(made.collector(members), queries()).teachers == PARTIES
    else:
        with pytest.raises(ThresholdNotMet):
            ask(made.collector(members), queries())


@pytest.mark.parametrize(("lie", "warned"), [(1000, True), (0, False)])
def test_a_gross_lie_in_a_noisy_sum_is_said_to_the_operator_and_to_nobody_else(
    cluster, monkeypatch, lie: int, warned: bool
) -> None:
    """The student gets its labels, the queries are charged once, nobody is named."""
    votes_of = iter([lie] + [0] * (PARTIES - 1))

    def unchecked(votes, terms):
        return votes.astype(np.int64) + next(votes_of)

    monkeypatch.setattr("consilium.party.masked_session.checked_votes", unchecked)
    made = cluster(**NOISY)
    labels, ledger = service(made, made.ready())
    assert labels.ask(queries(30)).labels.shape == (30,)
    assert [event["what"] for event in told(made, "false-votes")] == [FALSE_VOTES["what"]] * warned
    assert not told(made, "left-out") and not told(made, "excluded") and ledger.spent()[0] == 30
    ledger.close()


@pytest.mark.parametrize("stage", ["sa_share", "sa_unmask"])
def test_a_session_that_failed_is_taken_up_where_it_stopped(silent, cluster, stage: str) -> None:
    made = cluster(faults={(index, f"query.{stage}"): drop for index in (1, 4, 6)})
    members = made.ready()
    with pytest.raises(ThresholdNotMet):
        ask(made.collector(members), queries())
    made.transport.faults.clear()  # the network is back
    histogram = ask(made.collector(members), queries())
    assert (histogram.votes == seven_in_clear(made, queries(), list(range(PARTIES)))).all()


def test_parties_that_have_forgotten_are_asked_anew(cluster) -> None:
    """Sessions that they do not know mean nothing to them."""
    made = cluster(faults={(index, "query.sa_share"): drop for index in (1, 4, 6)})
    members = made.ready()
    with pytest.raises(ThresholdNotMet):
        ask(made.collector(members), queries())
    made.transport.faults.clear()
    for index in range(PARTIES):
        forget(made, index)
    assert ask(made.collector(members), queries()).teachers == PARTIES


def test_sums_hold_noise_and_the_same_seed_gives_the_same(tmp_path: Path, log) -> None:
    sums = []
    for run in ("a", "b"):
        (tmp_path / run).mkdir()
        made = Cluster(tmp_path / run, log, query_budget=QueryBudget(queries=600, answers=600))
        for home in made.homes:
            text = (home / "party.toml").read_text()
            (home / "party.toml").write_text(f"simulated_noise_seed = 5\n{text}")
        made.transport = FakeTransport(made.homes)
        x = queries(500, 6)
        sums.append(ask(made.collector(made.ready()), x))
        exact = seven_in_clear(made, x, list(range(PARTIES)))
    assert (sums[0].votes == sums[1].votes).all()
    noise = (sums[0].votes - exact).astype(float)  # pyright: ignore[reportPossiblyUnboundVariable]
    # over 1000 numbers; false alarm once in 1e6
    assert abs(noise.var() / sums[0].sigma ** 2 - 1) < 5 * np.sqrt(2 / 1000)
    assert abs(noise.mean()) < 5 * sums[0].sigma / np.sqrt(1000)


def service(made: Cluster, members, collector=None) -> tuple[LabelService, Ledger]:
    ledger = Ledger.of(made.root / "ledger.db", made.config)
    collector = collector or made.collector(members)
    return LabelService(made.config, ledger, collector, SeededNoise, PARTIES, made.log), ledger


def test_who_comes_back_between_both_rounds_is_enrolled_again(tmp_path, log) -> None:
    """Its queries of the second round are this federation's, and no others': the promise leaves no room for more."""
    budget, policy = QueryBudget(queries=40, answers=40), {"most_queries": 40}
    faults = {(1, "query.sa_advertise"): drop}
    made = Cluster(tmp_path, log, faults, policy, mechanism=TWO_ROUNDS, query_budget=budget)
    collector = made.collector(made.ready())
    x = queries(20, 3)
    ask(collector, x)
    made.transport.faults.clear()
    ask(collector, x[:9], 2)
    collector.settle()
    answered = [party.store.answered() for party in made.transport.parties.values()]
    assert answered == [20, 9, 20, 20, 20, 20, 20]
    assert len(made.ready()) == PARTIES


@pytest.mark.parametrize(("most", "given"), [(40, False), (80, True)], ids=["counted", "control"])
def test_queries_of_a_second_round_that_no_first_one_had_count_too(tmp_path, log, most: int, given: bool) -> None:
    """A lying coordinator has other rows in round 2 than it screened: the limit is on all that were answered."""
    budget, policy = QueryBudget(queries=40, answers=40), {"most_queries": most}
    made = Cluster(tmp_path, log, mechanism=TWO_ROUNDS, query_budget=budget, policy=policy)
    collector = made.collector(made.ready())
    ask(collector, queries(40, 3))
    collector.settle()
    assert {party.store.answered() for party in made.transport.parties.values()} == {40}
    if given:
        ask(collector, queries(40, 4), 2)
        assert {party.store.answered() for party in made.transport.parties.values()} == {80}
        return
    with pytest.raises(ThresholdNotMet):
        ask(collector, queries(40, 4), 2)
    ask(collector, queries(40, 3)[:9], 2)  # rows that it had screened


@pytest.mark.parametrize("mechanism", [ONE_ROUND, TWO_ROUNDS], ids=lambda m: m.name)
def test_labels_are_charged_once_and_each_round_at_the_parties(cluster, mechanism) -> None:
    answers = 100 if mechanism.answers_all else 60
    made = cluster(mechanism=mechanism, query_budget=QueryBudget(queries=100, answers=answers))
    labels, ledger = service(made, made.ready())
    x = queries(80, 7)
    given = labels.ask(x)
    answered = int(given.answered.sum())
    assert ledger.spent() == (80, answered) and 0 < answered <= answers
    (batch,) = ledger.batches()
    assert batch.event == made.config.event(80, answered).to_json() and batch.histogram is None
    assert (labels.ask(x).labels == given.labels).all()  # from the ledger: the parties would refuse
    ledger.close()
    store, digest = made.transport.parties[0].store, made.config.digest()
    counted = [store.answered_in(digest, round_) for round_ in (1, 2)]
    assert counted == [80, 0 if mechanism.answers_all else answered]


def test_a_round_that_was_shown_is_charged_though_the_next_one_fails(cluster) -> None:
    made = cluster(mechanism=TWO_ROUNDS, query_budget=QueryBudget(queries=100, answers=60))
    collector = made.collector(made.ready())

    class Breaks:
        def collect(self, queries, sigma, progress=None):
            if queries.round == 2:
                made.transport.faults |= {(index, "query.sa_share"): drop for index in range(5)}
            return collector.collect(queries, sigma, progress)

        def settle(self):
            collector.settle()

    labels, ledger = service(made, None, Breaks())
    x = queries(80, 7)
    with pytest.raises(ThresholdNotMet):
        labels.ask(x)
    assert ledger.spent() == (80, 0)
    again = labels.ask(x)
    assert (again.outcomes == Outcome.ABSTAINED).all()
    ledger.close()


def test_a_check_that_parties_were_shown_is_not_drawn_again_by_a_coordinator_that_died(cluster) -> None:
    """It is charged once. Whoever starts again goes on with the same sums, and would draw other noise."""
    made = cluster(mechanism=replace(TWO_ROUNDS, threshold=6), query_budget=MANY)
    members, shown, x = made.ready(), [], queries(80, 7)

    class Dies:
        def collect(self, queries, sigma, progress=None):
            if queries.round == 2:
                shown.append(queries.ids)
                raise KeyboardInterrupt
            return made.collector(members).collect(queries, sigma)

        def settle(self): ...

    ledger = Ledger.of(made.root / "ledger.db", made.config)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            LabelService(made.config, ledger, Dies(), lambda _: SystemNoise(), PARTIES).ask(x)
    assert shown[0] == shown[1] and 0 < len(shown[0]) < 80
    labels, _ = service(made, members)
    assert [id for id, is_there in zip(query_ids(x), labels.ask(x).answered, strict=True) if is_there] == shown[0]
    ledger.close()
