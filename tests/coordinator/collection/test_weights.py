"""Parties whose answers count several times, in plaintext and as secure sums: the sums, the checks, and the liars."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from consilium.coordinator.collection import clear, secure
from consilium.coordinator.collection.admission import Admission, enrol, train
from consilium.coordinator.collection.clear import collect
from consilium.coordinator.collection.secure import SecureCollector
from consilium.coordinator.config import check_threshold
from consilium.coordinator.mechanisms import Confident, Distributed, NoisyHistogram
from consilium.coordinator.privacy import promised_at
from consilium.party import masked_session
from consilium.protocol.errors import ConfigError, NotEnoughParties
from consilium.protocol.queries import canonical_queries, query_set_hash
from consilium.sums.errors import ThresholdNotMet
from consilium.sums.masks.machine import everybody
from consilium.sums.terms import NO_LEDGER
from tests.federation import (
    FakeTransport,
    Fault,
    Singles,
    drop,
    make_config,
    make_home,
    make_rows,
    make_secure,
    standing,
    vote_request,
    with_array,
    with_field,
)

X = canonical_queries(make_rows(20, 5)[0], 3)
WEIGHTS = {"p00": 1, "p01": 3, "p02": 1, "p03": 3, "p04": 2, "p05": 2, "p06": 3}
"""Two or three parties of each: enough for a sum that differs from others by all parties of a weight or by none."""
TOTAL = sum(WEIGHTS.values())
NOISE = NoisyHistogram(sigma=60.0)
"""Its cost has a closed form."""
CONFIG = make_config(mechanism=NOISE, most_weight=3)


def homes_of(root: Path, config=CONFIG, weights=WEIGHTS) -> list[Path]:
    """Parties whose policies allow just these weights."""
    limits = {weight: promised_at(config, weight).epsilon * 1.01 for weight in set(weights.values())}
    return [
        make_home(root / name, name, seed=at, most_epsilon=limits[weight])
        for at, (name, weight) in enumerate(weights.items())
    ]


def in_clear(homes: list[Path], log, faults: dict[tuple[int, str], Fault] | None = None, config=CONFIG):
    """The histogram, and each party's own votes by name."""
    transport, singles = FakeTransport(homes, faults), Singles()
    joined = train(transport, config, enrol(transport, config, NO_LEDGER.ledger, log), log).members
    return collect(transport, config, joined, vote_request(config, X), log, singles), singles


def securely(homes: list[Path], root: Path, log, weights=WEIGHTS, faults=None, **changes: Any):
    keys = make_secure(homes, root, weights=weights)
    votes = {"collection": "secure", "roster": keys.roster.digest, "mechanism": NOISE, "most_weight": 3}
    config, transport = make_config(**{**votes, **changes}), FakeTransport(homes, faults)
    agreed = {entry.id: entry.weight for entry in keys.roster.parties}
    joined = train(transport, config, enrol(transport, config, NO_LEDGER.ledger, log, agreed), log).members
    collector = SecureCollector(transport, config, joined, keys, root / "sessions", standing(), log)
    return collector(X, query_set_hash(X))


def left_out(log) -> dict[str, str]:
    events = [json.loads(line) for line in Path(log._file.name).read_text().splitlines()]
    return {event["party"]: event["reason"] for event in events if event["event"] == "left-out"}


def test_the_sum_with_weights_is_the_sum_of_copies_of_the_parties(tmp_path: Path, log) -> None:
    """Each party is there as often as its weight says, in a federation in which all count once."""
    histogram, singles = in_clear(homes_of(tmp_path), log)
    copies = np.concatenate([np.repeat(singles[name][None] // weight, weight, 0) for name, weight in WEIGHTS.items()])
    assert len(copies) == TOTAL
    assert (copies.sum(axis=2) == 1).all()  # each copy is one party with one vote
    assert histogram.votes.tolist() == copies.sum(axis=0).tolist()
    assert histogram.teachers == TOTAL
    assert histogram.votes.sum(axis=1).tolist() == [TOTAL] * len(X)


@pytest.mark.slow
def test_secure_sums_are_clear_sums(tmp_path: Path, log) -> None:
    homes = homes_of(tmp_path)
    clear_sum, _ = in_clear(homes, log)
    secure_sum = securely(homes_of(tmp_path / "secure"), tmp_path, log)
    assert secure_sum.votes.tolist() == clear_sum.votes.tolist()
    assert (secure_sum.parties, secure_sum.teachers) == (clear_sum.parties, clear_sum.teachers)


@pytest.mark.slow
def test_sums_with_the_parties_own_noise_have_all_their_votes(tmp_path: Path, log) -> None:
    changes = {"collection": "distributed", "mechanism": Distributed(threshold=0, sigma=4.0, noise_shares=5)}
    config = make_config(most_weight=3, query_budget={"queries": 100, "answers": 100}, roster="0" * 64, **changes)
    homes = homes_of(tmp_path, config)
    for home in homes:  # noise that a test can rely on
        text = (home / "party.toml").read_text()
        (home / "party.toml").write_text(f"simulated_noise_seed = 5\n{text}")
    histogram = securely(homes, tmp_path, log, query_budget={"queries": 100, "answers": 100}, **changes)
    assert histogram.teachers == TOTAL
    assert abs(float(histogram.votes.sum(axis=1).mean()) - TOTAL) < 8  # of noise with deviation 6.7 / sqrt(20) and more


def test_a_party_that_claims_a_weight_above_the_most_is_left_out_by_name(tmp_path: Path, log, monkeypatch) -> None:
    def nine_times(folder: Path):
        lies = {(4, "query.hello"): with_field("weight", 9)}
        return in_clear(homes_of(folder), log, lies)[0]

    histogram = nine_times(tmp_path / "attack")
    assert left_out(log) == {"p04": "claims weight 9, the federation allows 3"}
    assert histogram.teachers == TOTAL - WEIGHTS["p04"]
    monkeypatch.setattr(Admission, "_fault", lambda *_: None)
    assert nine_times(tmp_path / "control").teachers == TOTAL - WEIGHTS["p04"] + 9  # it would have counted


STUFFED = {
    "twice": (lambda v: np.column_stack([v, v]), "votes have shape (20, 2), must be (20, 1)"),
    "for the next query": (lambda v: v + np.eye(20, 1, dtype=v.dtype) * 2, "a vote is for no class: there are 2"),
}


@pytest.mark.parametrize("case", STUFFED)
def test_rows_with_another_total_leave_their_party_out_by_name(tmp_path: Path, log, monkeypatch, case: str) -> None:
    change, told = STUFFED[case]

    def stuffed(folder: Path):
        return in_clear(homes_of(folder), log, {(1, "query.vote"): with_array("choices", change)})[0]

    histogram, weight = stuffed(tmp_path / "attack"), WEIGHTS["p01"]
    assert left_out(log) == {"p01": told}
    assert histogram.votes.sum(axis=1).tolist() == [TOTAL - weight] * len(X)
    monkeypatch.setattr(clear, "fault", lambda *_: None)
    control = stuffed(tmp_path / "control").votes.sum(axis=1).tolist()
    moved = [TOTAL - weight, TOTAL + weight, *[TOTAL] * (len(X) - 2)]
    assert control == {"twice": [TOTAL + weight] * len(X), "for the next query": moved}[case]


def test_a_party_that_claims_another_weight_than_was_agreed_is_left_out(tmp_path: Path, log) -> None:
    transport = FakeTransport(homes_of(tmp_path))
    joined = enrol(transport, CONFIG, NO_LEDGER.ledger, log, {**WEIGHTS, "p03": 2})
    assert {member.party: member.weight for member in joined} == {
        name: weight for name, weight in WEIGHTS.items() if name != "p03"
    }
    assert left_out(log) == {"p03": "claims weight 3, 2 was agreed"}


def test_where_weights_are_not_allowed_none_is_taken(tmp_path: Path, log) -> None:
    transport = FakeTransport(homes_of(tmp_path), {(1, "query.hello"): with_field("weight", 2)})
    plain = make_config(mechanism=NOISE)
    assert [member.weight for member in enrol(transport, plain, NO_LEDGER.ledger, log)] == [1] * 6
    assert left_out(log) == {"p01": "claims weight 2, the federation allows 1"}


def test_a_policy_too_tight_for_weight_one_takes_no_part(tmp_path: Path, log) -> None:
    homes = [*homes_of(tmp_path)[:2], make_home(tmp_path / "tight", "tight", most_epsilon=0.01)]
    with pytest.raises(NotEnoughParties, match="most-epsilon"):
        enrol(FakeTransport(homes), CONFIG, NO_LEDGER.ledger, log)


@pytest.mark.slow
def test_under_masks_a_wrong_total_leaves_its_block_out(tmp_path: Path, log, monkeypatch) -> None:
    """Both parties of weight 2 vote twice as often."""

    def twice(votes, terms, weight):
        return votes.astype(np.int64) * (2 if weight == 2 else 1)

    monkeypatch.setattr(masked_session, "checked_votes", twice)
    assert securely(homes_of(tmp_path), tmp_path, log).parties == ("p00", "p01", "p02", "p03", "p06")


ODD_ONES = {**dict.fromkeys(WEIGHTS, 2), "p03": 1, "p05": 1}
GONE: dict[tuple[int, str], Fault] = {(5, "query.sa_masked"): drop}
"""Of the others every exact sum would show the vote of p03: it is where the count is odd."""


@pytest.mark.slow
def test_of_those_of_a_rare_weight_none_is_there_without_the_others(tmp_path: Path, log) -> None:
    histogram = securely(homes_of(tmp_path, CONFIG, ODD_ONES), tmp_path, log, ODD_ONES, GONE)
    assert not {"p03", "p05"} & set(histogram.parties)
    assert (histogram.votes % 2 == 0).all()


@pytest.mark.slow
def test_a_coordinator_that_sums_it_all_the_same_gets_no_share(tmp_path: Path, log, monkeypatch) -> None:
    monkeypatch.setattr(secure, "whole_blocks", lambda *_: everybody)
    homes = homes_of(tmp_path / "attack", CONFIG, ODD_ONES)
    with pytest.raises(ThresholdNotMet, match="stage consistency: 0 parties"):
        securely(homes, tmp_path / "attack", log, ODD_ONES, GONE)
    assert "refused: broken-block" in left_out(log).values()

    monkeypatch.setattr(masked_session, "check_whole", lambda *_: None)
    homes = homes_of(tmp_path / "control", CONFIG, ODD_ONES)
    odd = securely(homes, tmp_path / "control", log, ODD_ONES, GONE).votes % 2
    alone = in_clear(homes_of(tmp_path / "same", CONFIG, ODD_ONES), log)[1]["p03"]
    assert odd.tolist() == alone.tolist()


def test_a_roster_in_which_weights_are_too_rare_is_refused_before_anything_is_asked(tmp_path: Path, log) -> None:
    weights = {name: number for number, name in enumerate(WEIGHTS, 1)}
    keys = make_secure(homes_of(tmp_path, CONFIG, weights), tmp_path, weights=weights)
    with pytest.raises(ConfigError, match=r"have 0 parties, .* in none are p00"):
        keys.check(make_config(collection="secure", roster=keys.roster.digest))


def test_a_threshold_may_be_as_high_as_all_votes_and_not_higher() -> None:
    config = make_config(mechanism=Confident(threshold=TOTAL, sigma1=2.0, sigma2=1.0))
    check_threshold(config, TOTAL)
    with pytest.raises(ConfigError, match=f"above the {TOTAL - 1} votes"):
        check_threshold(config, TOTAL - 1)
