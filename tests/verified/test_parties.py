"""What a party gives in verified sessions, and to whom its policy lets it give at all."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from consilium.party import old_hidden_votes as hidden_votes
from consilium.protocol.refusals import Refused, Rule
from consilium.sums.errors import SecAggError, StageOrder
from consilium.sums.field import FIELD
from consilium.sums.verified import leader
from consilium.sums.verified.half import Half, add_up
from consilium.sums.verified.helper import Helper
from tests import federation
from tests.verified.small import SECOND, made, make_aggregators, queries_of, without_noise

QUERIES = queries_of(7)


@pytest.mark.parametrize(("policy", "serves"), [("plaintext", True), ("verified", True), ("secure", False)])
def test_a_policy_names_this_trust_or_has_none(tmp_path: Path, policy: str, serves: bool) -> None:
    """Who insists on `secure` trusts no two nodes: it relies on the other parties, and is asked again."""
    homes = federation.make_homes(tmp_path / "parties", 3, collection=policy)
    keys = make_aggregators(homes, tmp_path)
    config = federation.make_config(collection="verified", roster=keys.roster.digest)
    node = federation.node_at(homes[0])
    if serves:
        assert node.hello(federation.hello_of(config)).party == "p00"
        return
    with pytest.raises(Refused) as caught:
        node.hello(federation.hello_of(config))
    assert caught.value.refusal.rule is Rule.VOTES


@pytest.mark.parametrize("votes", ["plaintext", "secure"])
def test_a_party_that_wants_verified_votes_gives_no_others(tmp_path: Path, votes: str) -> None:
    (home,) = federation.make_homes(tmp_path / "parties", 1, collection="verified")
    changes = {} if votes == "plaintext" else {"roster": "0" * 64}
    config = federation.make_config(collection=votes, **changes)
    with pytest.raises(Refused) as caught:
        federation.node_at(home).hello(federation.hello_of(config))
    assert caught.value.refusal.rule is Rule.VOTES


def test_a_roster_that_the_policy_does_not_allow(tmp_path: Path) -> None:
    homes = federation.make_homes(tmp_path / "parties", 3, collection="verified", least_parties=9)
    keys = make_aggregators(homes, tmp_path)
    config = federation.make_config(collection="verified", roster=keys.roster.digest)
    with pytest.raises(Refused) as caught:
        federation.node_at(homes[0]).hello(federation.hello_of(config))
    assert caught.value.refusal.rule is Rule.LEAST_PARTIES


def test_sessions_on_the_same_queries_are_few(tmp_path: Path, monkeypatch) -> None:
    """A session that gives no sum may be tried again, and not without end."""
    small = made(tmp_path, parties=3, second={"roster_terms": {"least": 3}})
    small.transport.faults[(1, "query.va_upload")] = federation.drop
    monkeypatch.setattr(hidden_votes, "MOST_SESSIONS", 3)
    for _ in range(3):
        with pytest.raises(Exception, match="missing: p01"):
            small.ask(QUERIES)
    with pytest.raises(Exception, match="0 parties are left"):
        small.ask(QUERIES)
    assert small.left_out()["p00"].startswith("refused: replay, requested 4, limit 3")


def test_bytes_are_erased_when_a_session_is_over(tmp_path: Path, monkeypatch) -> None:
    small = made(tmp_path, parties=3)
    requests: list = []
    honest = hidden_votes.VerifiedVotes.upload
    monkeypatch.setattr(
        hidden_votes.VerifiedVotes, "upload", lambda self, request: requests.append(request) or honest(self, request)
    )
    small.ask(QUERIES)
    later = hidden_votes.VerifiedVotes(small.transport.parties[0], clock=lambda: 1e12)
    with pytest.raises(StageOrder, match="lifetime has passed"):
        honest(later, requests[0])


def raising(one: np.ndarray, other: np.ndarray, votes: int, tail: int) -> np.ndarray:
    """`add_up` that raises for what votes do not give."""
    if ((one.astype(np.int64) + other) % FIELD.prime > votes).any():
        raise SecAggError("the totals do not add up to votes", "Examine both aggregators")
    return add_up(one, other, votes, tail)


@pytest.mark.parametrize("control", [False, True])
def test_a_second_aggregator_that_shifts_a_count_does_not_learn_what_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, control: bool
) -> None:
    """Five votes: by its shift the sum is one that votes give, or none. It gets the same messages, and the log has the
    same events. The control raises an error for a sum that votes do not give."""
    if control:
        monkeypatch.setattr(leader, "add_up", raising)
    without_noise(monkeypatch)
    honest, seen = Helper._close, set()
    for shift in (0, 2, 5):
        small = made(tmp_path / str(shift))

        def shifted(self: Helper, shift: int = shift) -> Half:
            half = honest(self)
            total = half.total.astype(np.int64)
            total[0] += [-shift, shift]
            return Half(half.nonce, (total % FIELD.prime).astype(half.total.dtype))

        monkeypatch.setattr(Helper, "_close", shifted)
        for queries in (QUERIES, queries_of(3, seed=51)):
            for _ in range(2):  # what failed is asked again
                with suppress(SecAggError):
                    small.ask(queries)
                    break
        heard = [kind for node, kind in small.transport.requests if node == SECOND]
        seen.add((*heard, *(event["event"] for event in small.events())))
    assert (len(seen) == 1) is not control
