"""Across sessions: what a lying coordinator gets from several exact sums, with and without blocks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from consilium.party import sum_store
from consilium.party.sum_store import SessionStore
from consilium.sums.errors import BrokenBlock, ThresholdNotMet
from consilium.sums.masks.machine import drive
from consilium.sums.masks.messages import Stage
from tests.secagg.across import differencing, unmasked
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
NOISY = {"sigma": 3.0, "noise_shares": 2}


def federation_of(folder: Path, n: int = N, **changes) -> Federation:
    return Federation(folder, n, teachers=1, queries=make_queries(50), **changes)


def no_noise(sigma: float, shape: tuple[int, int]) -> np.ndarray:
    return np.zeros(shape, dtype=np.int64)


def test_near_duplicates_and_all_but_one(tmp_path: Path) -> None:
    federation = federation_of(tmp_path)
    assert set(differencing(federation, federation.names[:3]).values()) == {0.0}


def test_control_of_near_duplicates_and_all_but_one(tmp_path: Path) -> None:
    """One sum more than parties, over any sets, gives every vote of each."""
    federation = federation_of(tmp_path)
    with blocks_unchecked():
        assert set(differencing(federation, federation.names[:3]).values()) == {1.0}


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
    """A sum without the party, and one with it. The control takes any other block."""
    if grows:
        monkeypatch.setattr(sum_store, "check_kept", lambda block, first: None)
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
