"""Across sessions: what a lying coordinator gets from several sums, before and now, and what the rule costs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from consilium.coordinator.secagg.drive import drive
from consilium.party.secagg import once
from consilium.party.secagg.store import SessionStore
from consilium.protocol.secagg.errors import AlreadyAnswered, SetTooClose, ThresholdNotMet
from consilium.protocol.secagg.stages import Stage
from tests.secagg.across import availability, differencing, moved, sets_unchecked
from tests.secagg.network import OTHER_FEDERATION, Federation, Network, altered, make_queries, run_until

pytestmark = pytest.mark.slow

N = 10


def federation_of(folder: Path, **changes) -> Federation:
    return Federation(folder, N, teachers=1, queries=make_queries(50), **changes)


def test_near_duplicates_and_all_but_one(tmp_path: Path) -> None:
    """Nothing of what was all: the second sum is refused before it is unmasked."""
    federation = federation_of(tmp_path)
    assert differencing(federation, federation.names) == dict.fromkeys(federation.names, 0.0)


def test_near_duplicates_and_all_but_one_before(tmp_path: Path) -> None:
    """The control: n + 1 sums gave every vote of every party."""
    federation = federation_of(tmp_path)
    with sets_unchecked():
        assert differencing(federation, federation.names) == dict.fromkeys(federation.names, 1.0)


def summed(federation: Federation, out: list[int], step: int, **changes):
    """A sum over all but these, on the same questions moved by `step`."""
    federation.queries = moved(make_queries(50), step)
    invited = [name for place, name in enumerate(federation.names) if place not in out]
    network = Network(federation)
    result = drive(federation.machine(invited=invited, **changes), network.send)
    return result, network


@pytest.mark.parametrize(
    ("first", "second", "allowed"),
    [
        ([], [], True),
        ([0], [0], True),
        ([], [0], False),
        ([0], [], False),
        ([], [0, 1, 2], False),  # nobody on the other side
        ([0], [1], False),
        ([0, 1], [1, 2], False),
        ([0, 1], [2], False),
        ([0, 1], [2, 3], True),
        ([0, 1, 2], [2, 3, 4], True),
    ],
)
def test_two_sums_differ_by_nobody_or_by_two_on_each_side(
    tmp_path: Path, first: list[int], second: list[int], allowed: bool
) -> None:
    federation = federation_of(tmp_path)
    summed(federation, first, 0)
    if allowed:
        result, _ = summed(federation, second, 1)
        assert np.array_equal(result.sums, federation.total(result.survivors))
        return
    with pytest.raises(ThresholdNotMet) as caught:
        summed(federation, second, 1)
    assert caught.value.stage is Stage.CONSISTENCY
    assert caught.value.have == len(set(first) - set(second)), "none of the first sum signs"
    result, _ = summed(federation, first, 1)  # nothing was used up: the same queries, of the first set
    assert np.array_equal(result.sums, federation.total(result.survivors))


def test_the_refusal_is_typed_and_comes_before_a_signature(tmp_path: Path) -> None:
    federation = federation_of(tmp_path)
    summed(federation, [], 0)
    federation.queries = moved(make_queries(50), 1)
    network = Network(federation)
    with pytest.raises(ThresholdNotMet):
        drive(federation.machine(invited=federation.names[1:]), network.send)
    errors = [error for (stage, _), error in network.errors.items() if stage is Stage.CONSISTENCY]
    assert len(errors) == 9 and all(isinstance(error, SetTooClose) for error in errors)
    assert {(error.requested, error.limit) for error in errors if isinstance(error, SetTooClose)} == {(0, 2)}
    assert not any(stage is Stage.CONSISTENCY for stage, _, _ in network.seen)


def test_the_roster_may_ask_for_more_than_two(tmp_path: Path) -> None:
    federation = federation_of(tmp_path, least_difference=3)
    summed(federation, [0, 1, 2], 0)
    with pytest.raises(ThresholdNotMet):
        summed(federation, [3, 4], 1)
    summed(federation, [3, 4, 5], 2)


def test_another_federation_of_the_same_roster_is_no_way_around(tmp_path: Path) -> None:
    """Its digest is for the coordinator to choose; the roster is not."""
    federation = federation_of(tmp_path)
    summed(federation, [], 0)
    federation.queries = moved(make_queries(50), 1)
    terms = federation.terms(federation=OTHER_FEDERATION)
    with pytest.raises(ThresholdNotMet, match="consistency"):
        drive(federation.machine(terms, invited=federation.names[1:]), Network(federation).send)


def test_two_sessions_side_by_side_are_not_both_unmasked(tmp_path: Path) -> None:
    """Of two federations, signed before either is unmasked: the shares are given once."""
    federation = federation_of(tmp_path)
    federation.queries = moved(make_queries(50), 1)
    terms = federation.terms(federation=OTHER_FEDERATION)
    late = run_until(federation, Stage.UNMASK, terms=terms, invited=federation.names[1:])
    federation.queries = make_queries(50)
    run_until(federation, None)
    for name, request in late.requests().items():
        with pytest.raises(SetTooClose):
            federation.serve(name, Stage.UNMASK, request)


def test_parties_that_were_not_in_the_first_sum_cannot_unmask_the_second_alone(tmp_path: Path) -> None:
    """Two groups of t have a party in common, and that one remembers: here three were away, and seven are needed."""
    federation = federation_of(tmp_path)
    summed(federation, [0, 1, 2], 0)
    with pytest.raises(ThresholdNotMet) as caught:
        summed(federation, [3], 1)  # nine, of whom six were in the first sum
    assert caught.value.have == 3 < federation.roster.t


def test_who_signed_but_gave_no_share_forgets_the_set(tmp_path: Path) -> None:
    federation = federation_of(tmp_path)
    run_until(federation, Stage.UNMASK)
    result, _ = summed(federation, [0], 1)
    assert len(result.survivors) == 9


def test_a_query_that_was_masked_and_never_unmasked_is_asked_again(tmp_path: Path) -> None:
    """Row 5: one party sends false shares, the session is lost, and the queries are not."""
    federation = federation_of(tmp_path)
    run_until(federation, Stage.UNMASK)
    result = drive(federation.machine(invited=federation.names[1:]), Network(federation).send)
    assert np.array_equal(result.sums, federation.total(federation.names[1:]))


def test_a_query_was_used_up_with_its_masked_votes_before(tmp_path: Path) -> None:
    """The control: what the parties of before had written down at that point ends the federation for these queries."""
    federation = federation_of(tmp_path)
    run_until(federation, Stage.UNMASK)
    for name in federation.names:
        with SessionStore(tmp_path / f"{name}.db").transaction() as tx:
            tx.release(once.ids_of(federation.queries), 0b11)
            tx.commit()
    network = Network(federation)
    with pytest.raises(ThresholdNotMet, match="masked"):
        drive(federation.machine(invited=federation.names[1:]), network.send)
    assert all(isinstance(error, AlreadyAnswered) for error in network.errors.values())


def test_a_lost_sum_of_before_is_refused_as_answered(tmp_path: Path) -> None:
    """Shares leave with the record: whatever became of them, the party has helped."""
    federation = federation_of(tmp_path)
    machine = run_until(federation, Stage.UNMASK)
    requests = machine.requests()
    for name in federation.names[:4]:
        federation.serve(name, Stage.UNMASK, requests[name])
    network = Network(federation)
    with pytest.raises(ThresholdNotMet, match="advertise: 6 parties"):
        drive(federation.machine(), network.send)
    # the sum can still be had from the session that was begun, if the others have not forgotten it
    for name in federation.names:
        state = federation.party(name).state(machine.terms.sid_bytes())
        assert (str(state) == "done") == (name in federation.names[:4])


def test_a_set_that_names_no_place_of_the_roster_is_nothing_to_remember(tmp_path: Path) -> None:
    federation = federation_of(tmp_path)
    machine = run_until(federation, Stage.CONSISTENCY)
    request = machine.requests()["party-000"]
    wide = altered(request, survivors=np.arange(11, dtype=np.uint16))
    with pytest.raises(Exception, match="not in U2"):
        federation.serve("party-000", Stage.CONSISTENCY, wide)


@pytest.mark.statistics
def test_availability_with_a_tenth_lost(tmp_path: Path) -> None:
    """Ten parties, one lost at random in each of eight sessions. Without spare parties the first sum's nine must all be
    there again; with two spare ones every session has its sum."""
    (tmp_path / "0").mkdir()
    (tmp_path / "2").mkdir()
    none = availability(tmp_path / "0", N, 8, 0.1, 0, seed=3)
    spare = availability(tmp_path / "2", N, 8, 0.1, 2, seed=3)
    assert none.refused >= 4 and len(none.sets) == 1
    assert spare.refused == 0 and set(spare.given) == {8}


def fano_sets() -> list[list[int]]:
    """Seven triples of seven parties; any two have one party in common."""
    return [[0, 1, 2], [0, 3, 4], [0, 5, 6], [1, 3, 5], [1, 4, 6], [2, 3, 6], [2, 4, 5]]


def test_seven_sums_that_keep_the_rule_still_tell_differences_of_votes(tmp_path: Path) -> None:
    """What the rule does not promise (docs/decisions/secagg-sets.md): it is about two sums. Seven on the same
    questions, each over ten parties less a line of the Fano plane, give the difference of two parties' votes."""
    federation = federation_of(tmp_path)
    sums = [summed(federation, out, step)[0].sums for step, out in enumerate(fano_sets())]
    lines = np.array([[place in line for place in range(7)] for line in fano_sets()], dtype=float)
    weights = np.linalg.solve(lines.T, np.eye(7)[0] - np.eye(7)[1])  # e_0 - e_1 from lines; the rest cancels
    assert abs(weights.sum()) < 1e-9
    found = -np.einsum("s,sqc->qc", weights, np.array(sums, dtype=float))
    true = federation.votes["party-000"].astype(float) - federation.votes["party-001"]
    assert np.allclose(found, true)
