"""Verified votes in the larger field, from requests to sums: whether a roster needs it or is made to."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from flwr.app import RecordDict

from consilium.coordinator.collection.exchange import Failure
from consilium.coordinator.collection.kept_session import RECORDS, read_halves, read_records
from consilium.coordinator.mechanisms.distributed import Distributed
from consilium.protocol.errors import ConfigError
from consilium.sums.aggregators.field import FIELD_16, FIELD_21, Field
from consilium.sums.aggregators.half import add_up
from consilium.sums.aggregators.terms import VerifiedTerms
from consilium.sums.aggregators.uploads import VoteClient, upload_bytes
from consilium.sums.errors import AggregatorAway
from tests.federation import drop
from tests.verified.small import SECOND, VerifiedSmall, lying, made, queries_of

QUERIES = queries_of(12)


@pytest.fixture
def larger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> VerifiedSmall:
    """Five parties at which the smaller field ends at four votes."""
    monkeypatch.setattr(Field, "most_reach", property(lambda self: 4 if self is FIELD_16 else self.prime // 2))
    return made(tmp_path, second={"roster_terms": {"least_accepted": 2}})


def sessions_of(monkeypatch: pytest.MonkeyPatch) -> list[VerifiedTerms]:
    """Terms under which parties give uploads from now on."""
    sessions: list[VerifiedTerms] = []
    honest = VoteClient.upload

    def upload(client: VoteClient, votes: np.ndarray) -> bytes:
        sessions.append(client._session)
        content = honest(client, votes)
        assert len(content) == upload_bytes(client._session.grid)
        return content

    monkeypatch.setattr(VoteClient, "upload", upload)
    return sessions


def test_the_sum_is_that_of_clear_votes_and_both_halves_are_kept_for_the_audit(larger, monkeypatch) -> None:
    sessions = sessions_of(monkeypatch)
    histogram = larger.ask(QUERIES)
    assert {session.field for session in sessions} == {FIELD_21}
    assert histogram.votes.tolist() == larger.true_sum(QUERIES).tolist()
    assert histogram.clipped is not None and not histogram.clipped.any()
    (kept,) = read_records(larger.root / "run" / RECORDS, larger.keys.roster)
    one, other = read_halves(larger.root / "run", kept.record, FIELD_21)
    assert add_up(FIELD_21, one, other, 5, 0)[0].tolist() == histogram.votes.tolist()
    assert max(one.max(), other.max()) >= FIELD_16.prime, "shares are of the larger field"


def test_a_liar_is_left_out_by_name(larger, monkeypatch) -> None:
    honest, liar = VoteClient.upload, lying(np.ones_like)
    monkeypatch.setattr(
        VoteClient, "upload", lambda client, votes: (liar if client._place == 2 else honest)(client, votes)
    )
    histogram = larger.ask(QUERIES)
    assert histogram.parties == ("p03", "p04"), "p00 and p01 are of its block"
    assert histogram.votes.tolist() == larger.true_sum(QUERIES, [3, 4]).tolist()
    assert set(larger.left_out()) == {"p02"}


@pytest.mark.parametrize("answers", [0, 1])
def test_a_session_whose_answer_is_lost_goes_on_from_both_states(larger, answers: int) -> None:
    """Of the proofs, or of the second aggregator's half: it answers each message from its disk alone."""
    came = []

    def lose(reply: RecordDict) -> RecordDict | Failure:
        came.append(reply)
        return drop(reply) if len(came) > answers else reply

    larger.transport.faults[(SECOND, "query.va_link")] = lose
    with pytest.raises(AggregatorAway):
        larger.ask(QUERIES)
    larger.transport.faults.clear()
    assert larger.ask(QUERIES).votes.tolist() == larger.true_sum(QUERIES).tolist()
    assert "session-lost" not in {event["event"] for event in larger.events()}


def test_noise_that_needs_the_larger_field_has_it(tmp_path: Path, monkeypatch) -> None:
    """Nothing is forced here: both aggregators' noise of standard deviation 3,000 needs 76,373 values."""
    small = made(tmp_path, mechanism=Distributed(threshold=0, sigma=3_000.0, noise_shares=1))
    sessions = sessions_of(monkeypatch)
    histogram = small.ask(QUERIES)
    assert {session.field for session in sessions} == {FIELD_21}
    noise = histogram.votes - small.true_sum(QUERIES)
    sigma = np.hypot(sessions[0].leader_sigma, sessions[0].helper_sigma)
    assert 0.4 * sigma < noise.std() < 1.9 * sigma  # 24 numbers from a fixed seed
    assert np.abs(noise).max() <= sessions[0].tail


def test_noise_for_which_no_field_has_room_is_refused_before_anything_is_asked(tmp_path: Path) -> None:
    small = made(tmp_path, mechanism=Distributed(threshold=0, sigma=100_000.0, noise_shares=1))
    with pytest.raises(ConfigError, match="verified sums of 5 parties may reach 2545591, the most is 1048565"):
        small.collector()
    assert not [kind for _, kind in small.transport.requests if kind.startswith("query.va_")]
