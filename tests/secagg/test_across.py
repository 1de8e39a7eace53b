"""Across sessions: what a lying coordinator gets from several exact sums, with and without blocks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from consilium.party import sum_store
from consilium.party.sum_store import SessionStore
from consilium.sums.errors import AlreadyAnswered, BrokenBlock, ThresholdNotMet
from consilium.sums.masks.machine import drive
from consilium.sums.masks.messages import Stage
from tests.secagg.across import combined, differencing, pairs_only, sums_given, unmasked
from tests.secagg.adversary import ByRoster, Kept, MayGrow, Pairs, alone, four_sums, play, without_lines
from tests.secagg.network import (
    OTHER_FEDERATION,
    Federation,
    Network,
    altered,
    blocks_unchecked,
    make_queries,
    run_until,
)

pytestmark = pytest.mark.slow

N = 10
OF_PARTIES = "consilium.party.masked_session"
NOISY = {"sigma": 3.0, "noise_shares": 2}


def federation_of(folder: Path, n: int = N, **changes) -> Federation:
    return Federation(folder, n, teachers=1, queries=make_queries(50), **changes)


def no_noise(sigma: float, shape: tuple[int, int]) -> np.ndarray:
    return np.zeros(shape, dtype=np.int64)


def test_near_duplicates_and_all_but_one(tmp_path: Path) -> None:
    federation = federation_of(tmp_path)
    assert differencing(federation, federation.names) == dict.fromkeys(federation.names, 0.0)


def test_control_of_near_duplicates_and_all_but_one(tmp_path: Path) -> None:
    """n + 1 sums over any sets give every vote of every party."""
    federation = federation_of(tmp_path)
    with blocks_unchecked():
        assert differencing(federation, federation.names) == dict.fromkeys(federation.names, 1.0)


def test_four_sums_that_keep_a_distance_in_pairs(tmp_path: Path) -> None:
    """A + B - C - D is the first party's vote alone."""
    federation = federation_of(tmp_path, 20)
    given, total = combined(federation, four_sums(range(20), 2), (1, 1, -1, -1))
    assert (given, np.abs(total).max()) == (0, 0)


def test_control_of_four_sums_the_rule_of_pairs_lets_them_pass(tmp_path: Path) -> None:
    federation, sets = federation_of(tmp_path, 20), four_sums(range(20), 2)
    with pairs_only(2, OF_PARTIES) as rule:
        read = np.zeros_like(federation.total([]))
        for places, sign in zip(sets, (1, 1, -1, -1), strict=True):
            found = unmasked(federation, places)
            assert found is not None
            rule.sets.append(places)
            read += sign * found
        assert unmasked(federation, range(19)) is None, "it does refuse pairs"
    assert np.array_equal(read, federation.votes[federation.names[0]])


def lines_of(n: int) -> np.ndarray:
    """Weights of the seven sums that give the difference of the first two of the seven parties' votes; they add up to
    nothing, so that the others cancel."""
    lines = np.array([[place not in group for place in range(7)] for group in without_lines(range(n))], dtype=float)
    return -np.linalg.solve(lines.T, np.eye(7)[0] - np.eye(7)[1])


@pytest.mark.parametrize("pairs", [False, True])
def test_seven_sums_without_the_lines_of_the_fano_plane(tmp_path: Path, pairs: bool) -> None:
    """Under the rule of pairs, the control, they give the difference of two parties' votes; now none comes about."""
    federation, sets = federation_of(tmp_path), without_lines(range(N))
    if not pairs:
        assert combined(federation, sets, (1,) * 7)[0] == 0
        return
    with pairs_only(2, OF_PARTIES):
        sums = [unmasked(federation, places) for places in sets]
    read = np.einsum("s,sqc->qc", lines_of(N), np.array(sums, dtype=float))
    true = federation.votes["party-000"].astype(float) - federation.votes["party-001"]
    assert np.allclose(read, true)


@pytest.mark.parametrize("terms", [{}, {"federation": OTHER_FEDERATION}])
def test_the_refusal_is_typed_and_comes_before_a_signature(tmp_path: Path, terms: dict) -> None:
    """Of another federation too, whose digest is for the coordinator to choose."""
    federation = federation_of(tmp_path)
    drive(federation.machine(), Network(federation).send)
    network = Network(federation)
    with pytest.raises(ThresholdNotMet):
        machine = federation.machine(federation.terms(**terms), invited=federation.names[1:], choose=lambda each: each)
        drive(machine, network.send)
    errors = [error for (stage, _), error in network.errors.items() if stage is Stage.CONSISTENCY]
    assert len(errors) == 9 and all(isinstance(error, BrokenBlock) for error in errors)
    assert not any(stage is Stage.CONSISTENCY for stage, _, _ in network.seen)


def test_an_exact_sum_is_asked_again_and_again_over_other_blocks(tmp_path: Path) -> None:
    """Nothing is used up, whether the one before was unmasked or not: what a liar spoiled can be had without it."""
    federation = federation_of(tmp_path)
    run_until(federation, Stage.UNMASK)
    for out in ((0, 1), (2, 3), ()):
        places = {*range(N)} - {*out}
        assert np.array_equal(unmasked(federation, places), federation.total([federation.names[at] for at in places]))


def test_a_block_is_recorded_with_the_masked_votes(tmp_path: Path) -> None:
    """Not with a share: t others unmask a sum of which this party is asked for nothing any more."""
    federation = federation_of(tmp_path)
    machine = run_until(federation, Stage.MASKED)
    remembered = dict.fromkeys(federation.names, frozenset[str]())
    assert {name: _block(tmp_path, name) for name in federation.names} == remembered
    silent = Network(federation, lost={Stage.CONSISTENCY: ["party-000"], Stage.UNMASK: ["party-000"]})
    drive(machine, silent.send)
    assert _block(tmp_path, "party-000") == federation.roster.block_keys(0)


def _block(folder: Path, name: str) -> frozenset[str]:
    with SessionStore(folder / f"{name}.db").transaction() as tx:
        return tx.block()


# Other rosters of the same parties: what is remembered is of keys.


def other_roster(federation: Federation, names: list[str], numbers: list[int], **changes: str) -> None:
    """Another roster, with blocks that its maker chooses. changes: new keys by name."""
    table = federation.roster.model_dump(mode="json")
    entries = {entry["id"]: entry for entry in table["parties"]}
    table["parties"] = [
        {**entries[name], "block": number, "ed25519_pk": changes.get(name, entries[name]["ed25519_pk"])}
        for name, number in zip(names, numbers, strict=True)
    ]
    table |= {"t": 7, "u_min": 7}
    federation.roster = type(federation.roster).model_validate(table)


ROSTERS = {
    "one party leaves": (range(1, 10), [1, 1, 2, 2, 3, 3, 4, 4, 4]),
    "another order": ([0, *range(9, 0, -1)], [0, 1, 1, 2, 2, 3, 3, 4, 4, 4]),
    "two blocks grow by one each": (range(1, 10), [2, 2, 2, 3, 3, 4, 4, 5, 5]),
}
"""Of ten parties in blocks of two, by pairs: all but party-000, in blocks that are others."""


@pytest.mark.parametrize("name", ROSTERS)
@pytest.mark.parametrize("forgetful", [False, True])
def test_two_sums_of_two_rosters(tmp_path: Path, name: str, forgetful: bool, monkeypatch) -> None:
    """All, and then all but one. The control remembers by the roster's hash."""
    if forgetful:
        monkeypatch.setattr(sum_store, "check_block", lambda *_: None)  # nothing is known of this hash
    federation = federation_of(tmp_path)
    everybody = unmasked(federation, range(10))
    places, numbers = ROSTERS[name]
    other_roster(federation, [federation.names[at] for at in places], list(numbers))
    there = [at for at, number in enumerate(numbers) if number]
    without = unmasked(federation, there)
    assert everybody is not None
    if forgetful:
        assert without is not None and np.array_equal(everybody - without, federation.votes["party-000"])
    else:
        assert without is None


@pytest.mark.parametrize("grows", [False, True])
def test_a_block_that_takes_one_more_in_is_another_block(tmp_path: Path, grows: bool, monkeypatch) -> None:
    """A sum without the party, and one with it. The control lets a block have all of the first one, and more."""
    if grows:
        monkeypatch.setattr(sum_store, "check_kept", MayGrow().look)
    federation = federation_of(tmp_path)
    numbers = [1, 2, 2, 3, 3, 4, 4, 5, 5]
    other_roster(federation, federation.names[1:], [2, *numbers[1:]])
    without = unmasked(federation, range(9))
    federation.roster = _with(federation, "party-000", block=2)
    everybody = unmasked(federation, range(10))
    assert without is not None
    if grows:
        assert everybody is not None and np.array_equal(everybody - without, federation.votes["party-000"])
    else:
        assert everybody is None


def _with(federation: Federation, name: str, block: int):
    """The roster, and one more party in one of its blocks."""
    table = federation.roster.model_dump(mode="json")
    key = federation.identities[name].public.hex()
    table["parties"] = [{"id": name, "ed25519_pk": key, "block": block}, *table["parties"]]
    return type(federation.roster).model_validate(table)


def test_of_a_party_with_a_new_key_the_others_of_its_block_give_to_no_exact_sum(tmp_path: Path) -> None:
    federation = federation_of(tmp_path)
    assert unmasked(federation, range(10)) is not None
    other_roster(federation, federation.names, [1, 1, 2, 2, 3, 3, 4, 4, 5, 5], **{"party-000": "ab" * 31 + "cd"})
    network = Network(federation)
    with pytest.raises(ThresholdNotMet):
        drive(federation.machine(invited=federation.names[1:4]), network.send)
    assert isinstance(network.errors[Stage.ADVERTISE, "party-001"], BrokenBlock)
    assert (Stage.ADVERTISE, "party-002") not in network.errors


# Queries of noisy sums.


def test_a_query_that_was_masked_and_never_unmasked_is_asked_again(tmp_path: Path) -> None:
    """One party sends false shares, the session is lost, and the queries are not."""
    federation = federation_of(tmp_path, noise=no_noise)
    run_until(federation, Stage.UNMASK, terms=federation.terms(**NOISY))
    assert np.array_equal(unmasked(federation, range(1, 10), **NOISY), federation.total(federation.names[1:]))


def test_two_noisy_sessions_side_by_side_are_not_both_unmasked(tmp_path: Path) -> None:
    """Of two federations, signed before either is unmasked: the shares are given once."""
    federation = federation_of(tmp_path, noise=no_noise)
    late = run_until(federation, Stage.UNMASK, terms=federation.terms(federation=OTHER_FEDERATION, **NOISY))
    run_until(federation, None, terms=federation.terms(**NOISY))
    for name, request in late.requests().items():
        with pytest.raises(AlreadyAnswered):
            federation.serve(name, Stage.UNMASK, request)


def test_a_lost_noisy_sum_is_refused_as_answered(tmp_path: Path) -> None:
    """Shares leave with the record: whatever became of them, the party has helped."""
    federation = federation_of(tmp_path, noise=no_noise)
    machine = run_until(federation, Stage.UNMASK, terms=federation.terms(**NOISY))
    requests = machine.requests()
    for name in federation.names[:4]:
        federation.serve(name, Stage.UNMASK, requests[name])
    with pytest.raises(ThresholdNotMet, match="advertise: 6 parties"):
        drive(federation.machine(federation.terms(**NOISY)), Network(federation).send)
    # the sum can still be had from the session that was begun, if the others have not forgotten it
    for name in federation.names:
        state = federation.party(name).state(machine.terms.sid_bytes)
        assert (str(state) == "done") == (name in federation.names[:4])


def test_a_set_that_names_no_place_of_the_roster_is_nothing_to_sign(tmp_path: Path) -> None:
    federation = federation_of(tmp_path)
    machine = run_until(federation, Stage.CONSISTENCY)
    request = machine.requests()["party-000"]
    wide = altered(request, survivors=np.arange(11, dtype=np.uint16))
    with pytest.raises(Exception, match="not in U2"):
        federation.serve("party-000", Stage.CONSISTENCY, wide)


# The rule alone, against random histories.


def test_modulo_a_prime_a_combination_that_is_one_column_is_found() -> None:
    assert alone(np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1]])) == [0, 1, 2]  # an odd circle tells each
    assert alone(np.array([[1, 1, 0], [0, 1, 1]])) == []
    assert alone(np.array([[2, 2, 1], [1, 1, 0]])) == [2]


def test_no_history_of_rosters_and_sums_tells_one_vote() -> None:
    played = [play(seed, Kept) for seed in range(600)]
    assert sum(each.read for each in played) == 0 and all(each.twins for each in played)
    assert sum(each.passed for each in played) > 1000 and sum(each.asked for each in played) > 5000


@pytest.mark.proofs
def test_no_history_of_a_hundred_thousand_tells_one_vote() -> None:
    """Beside those of the other rules."""
    for seed in range(100_000):
        outcome = play(seed, Kept)
        assert outcome.read == 0 and outcome.twins, seed


@pytest.mark.parametrize("rule", [Pairs, ByRoster, MayGrow])
def test_control_of_histories_other_rules_are_beaten(rule) -> None:
    """Pairs of sets; memory by the roster's hash; and blocks that may grow, where a sum before and one after tell the
    vote of who came."""
    assert sum(play(seed, rule).read > 0 for seed in range(600)) >= 2


def test_blocks_of_two_of_ten_parties_go_on_with_one_away() -> None:
    rng = np.random.default_rng(3)
    assert sums_given(10, 7, 2, 50, 0.1, rng) == [8] * 50
    assert len(sums_given(10, 7, 5, 50, 0.1, rng)) == 0
