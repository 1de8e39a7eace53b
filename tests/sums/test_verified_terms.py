"""Rosters and sessions that are safe, those that are not, and the bytes of one upload that never change."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from consilium.protocol.errors import ConfigError, MalformedMessage
from consilium.protocol.identity import Identity
from consilium.sums.agreement import new_private, public_of
from consilium.sums.errors import BadSignature, NotVotes, OverflowRisk, RosterMismatch, UnsafeSession
from consilium.sums.field import FIELD
from consilium.sums.roster import MOST_VOTERS, AggregatorEntry, VerifiedRoster
from consilium.sums.verified.proof import SPACE
from consilium.sums.verified.sealing import Link, seal_once, session_key, sign_key, unseal_once
from consilium.sums.verified.terms import VerifiedTerms, reach_of
from consilium.sums.verified.uploads import VoteClient
from tests.sums.verified import FEDERATION, VerifiedFederation, collect, make_queries


def entry() -> AggregatorEntry:
    return AggregatorEntry(ed25519_pk=Identity.generate().public.hex(), x25519_pk=public_of(new_private()).hex())


def publics(n: int) -> dict[str, str]:
    return {f"p{at}": Identity.generate().public.hex() for at in range(n)}


def built(parties, leader: AggregatorEntry, helper: AggregatorEntry, **named) -> VerifiedRoster:
    return VerifiedRoster.build(parties, leader.ed25519_pk, sealing=leader.x25519_pk, second=helper, **named)


class TestRosters:
    @pytest.mark.parametrize(
        ("change", "match"),
        [
            ({"least": 1}, "least"),
            ({"least": 7}, "least 7 must be from"),
            ({"colluders": 2, "least": 3}, "from c \\+ 2 = 4"),
            ({"colluders": 5}, "least 7"),
        ],
    )
    def test_unsafe_numbers(self, change, match) -> None:
        with pytest.raises(ConfigError, match=match):
            built(publics(6), entry(), entry(), **change)

    def test_nodes_share_no_key(self) -> None:
        one, other, parties = entry(), entry(), publics(4)
        same_box = other.model_copy(update={"x25519_pk": one.x25519_pk})
        same_sign = other.model_copy(update={"ed25519_pk": parties["p0"]})
        for helper in (one, same_box, same_sign):
            with pytest.raises(ConfigError, match="two nodes have one key"):
                built(parties, one, helper)

    def test_keys_under_which_anybody_could_sign_or_open(self) -> None:
        for low in (0, 1):
            helper = entry().model_copy(update={"x25519_pk": low.to_bytes(32, "little").hex()})
            with pytest.raises(ConfigError, match="anyone could be the other end of its link"):
                built(publics(3), entry(), helper)

    def test_files(self, tmp_path) -> None:
        roster, path = VerifiedFederation(3).roster, tmp_path / "roster.json"
        roster.save(path)
        again = VerifiedRoster.load(path)
        assert again == roster
        assert again.digest == roster.digest
        for content in (b"", b"{}", path.read_bytes()[:-5], path.read_bytes().replace(b"least", b"leas")):
            path.write_bytes(content)
            with pytest.raises(ConfigError):
                VerifiedRoster.load(path)
        with pytest.raises(ConfigError):
            VerifiedRoster.load(tmp_path / "none.json")

    def test_the_most_parties_still_fit_into_half_of_the_field_and_noise_with_them(self) -> None:
        assert reach_of(MOST_VOTERS, 1, 1_800.0) <= FIELD.most_reach == 1_048_565


class TestSessions:
    def test_terms_are_read_as_they_were_signed(self) -> None:
        federation = VerifiedFederation(3)
        session, identity = federation.session, federation.leader_identity
        content, signature = session.canonical(), session.sign(federation.leader_identity)
        again = VerifiedTerms.open(content, signature, federation.roster)
        assert again == session
        assert again.ctx == session.ctx == hashlib.sha256(content).digest()
        for other in (federation.helper_identity, federation.identities["h0"], Identity.generate()):
            with pytest.raises(BadSignature):
                VerifiedTerms.open(content, session.sign(other), federation.roster)
        spaced = json.dumps(json.loads(content)).encode()
        for wrong in (spaced, b"{}", b"", content[:-1]):
            with pytest.raises(MalformedMessage):
                VerifiedTerms.open(wrong, identity.sign(SPACE + "session", wrong), federation.roster)
        with pytest.raises(RosterMismatch):
            other_roster = federation.roster.model_copy(update={"least": 3})
            VerifiedTerms.open(content, signature, VerifiedRoster.model_validate_json(other_roster.model_dump_json()))

    @pytest.mark.parametrize(
        "change",
        [
            {"queries": 0},
            {"queries": 2**24 + 1},
            {"classes": 1},
            {"classes": 1001},
            {"teachers": 0},
            {"teachers": 1001},
            {"queries": 10_000_000, "teachers": 2},
            {"queries": 1_000_000, "classes": 1000},
            {"sigma": 0.0},
            {"sigma": -1.0},
            {"sigma": float("inf")},
            {"sigma": float("nan")},
            {"queries": 5.0},
            {"sid": "x"},
            {"version": 1},
            {"leader_key": "0"},
        ],
    )
    def test_numbers_have_bounds(self, change) -> None:
        federation = VerifiedFederation(3)
        content = json.dumps(
            {**json.loads(federation.session.canonical()), **change}, sort_keys=True, separators=(",", ":")
        ).encode()
        signature = federation.leader_identity.sign(SPACE + "session", content)
        with pytest.raises(MalformedMessage):
            VerifiedTerms.open(content, signature, federation.roster)

    def test_sums_that_do_not_fit_are_refused_before_anything_is_asked(self) -> None:
        federation = VerifiedFederation(33, teachers=900, no_votes=True)
        federation.new_session(sigma=39_000.0)
        with pytest.raises(OverflowRisk, match="the most is 1048565"):
            federation.new_session(sigma=41_000.0)

    def test_a_query_twice(self) -> None:
        federation = VerifiedFederation(3)
        with pytest.raises(UnsafeSession, match="stands twice"):
            VerifiedTerms.of_queries(
                federation.roster, FEDERATION, make_queries(4)[[0, 1, 1]], 3, 1, leader_key="09" * 32, sigma=3.0
            )


class TestClient:
    @pytest.mark.parametrize(
        "change",
        [
            lambda votes: votes[:-1],
            lambda votes: votes[:, :-1],
            lambda votes: votes.astype(float),
            lambda votes: votes.astype(bool),
            lambda votes: votes * 2,
            lambda votes: votes * 0,
            lambda votes: votes - 1,
            lambda votes: np.where(votes == 1, 3, -1),
        ],
    )
    def test_a_party_sends_no_votes_that_are_none(self, change) -> None:
        federation = VerifiedFederation(3)
        with pytest.raises(NotVotes) as error:
            federation.client("h0").upload(change(federation.votes["h0"]))
        assert "[" not in str(error.value)

    def test_a_party_needs_its_own_key_and_its_own_roster(self) -> None:
        federation = VerifiedFederation(3)
        key = federation.key(), sign_key(federation.helper_identity, federation.session.ctx, federation.key())
        with pytest.raises(RosterMismatch):
            VoteClient(federation.session, federation.roster, "h0", federation.identities["h1"], *key)
        with pytest.raises(RosterMismatch):
            VoteClient(federation.session, federation.roster, "nobody", federation.identities["h1"], *key)
        with pytest.raises(RosterMismatch):
            VoteClient(VerifiedFederation(3).session, federation.roster, "h0", federation.identities["h0"], *key)

    def test_a_party_seals_for_the_second_aggregators_key_of_this_session_only(self) -> None:
        federation = VerifiedFederation(3)
        session, other, own = federation.session, federation.new_session(), public_of(new_private())
        good = sign_key(federation.helper_identity, session.ctx, federation.key())
        by_leader = sign_key(federation.leader_identity, session.ctx, own)
        of_other = federation.key(other), sign_key(federation.helper_identity, other.ctx, federation.key(other))
        for key, signature in (of_other, (own, good), (own, by_leader), (federation.key(), bytes(64))):
            with pytest.raises(BadSignature, match="second aggregator"):
                federation.client("h0", helper_key=key, signature=signature)
        federation.client("h0", helper_key=federation.key(), signature=good)

    @pytest.mark.parametrize("dtype", ["uint8", "int64"])
    def test_any_integers_will_do(self, dtype) -> None:
        federation = VerifiedFederation(3, teachers=2)
        federation.votes = {name: votes.astype(dtype) for name, votes in federation.votes.items()}
        result = collect(federation.leader(), federation.helper(), federation.uploads())
        assert np.array_equal(result.sums, federation.total(federation.names))


class TestSeals:
    def test_a_seal_is_for_one_helper_and_one_purpose(self) -> None:
        helper, own, other = new_private(), new_private(), new_private()
        key = public_of(helper)
        sealed = seal_once(own, key, b"seed", b"bound")
        assert unseal_once(helper, public_of(own), sealed, b"bound") == b"seed"
        assert unseal_once(helper, public_of(own), sealed, b"other") is None
        assert unseal_once(helper, public_of(other), sealed, b"bound") is None
        assert unseal_once(helper, bytes(32), sealed, b"bound") is None
        assert unseal_once(other, public_of(own), sealed, b"bound") is None
        assert unseal_once(helper, public_of(own), sealed[:-1] + bytes([sealed[-1] ^ 1]), b"bound") is None

    def test_both_ends_of_a_link_agree_and_nobody_else(self) -> None:
        one, other, third = new_private(), new_private(), new_private()
        fresh, theirs = new_private(), new_private()
        ctx, publics = b"c" * 32, (public_of(other), public_of(theirs))
        ends = [
            Link(one, publics[0], fresh, publics[1], ctx),
            Link(other, public_of(one), theirs, public_of(fresh), ctx),
        ]
        assert ends[0].secret() == ends[1].secret()
        strangers = [
            Link(third, publics[0], fresh, publics[1], ctx),
            Link(one, publics[0], third, publics[1], ctx),
            Link(one, publics[0], fresh, publics[1], b"d" * 32),
        ]
        assert all(each.secret() != ends[0].secret() for each in strangers)
        assert ends[1].open(1, ends[0].seal(1, b"body")) == b"body"
        assert ends[0].seal(1, b"body") != ends[0].seal(1, b"body")


def counted(label: str) -> Callable[[int], bytes]:
    """SHAKE-256 of the label and a counter: bytes that any implementation can make."""
    calls = iter(range(100))
    return lambda count: hashlib.shake_256(f"{label}/{next(calls)}".encode()).digest(count)


def test_the_bytes_of_an_upload_never_change() -> None:
    """Of fixed keys and fixed random bytes. A changed digest is a changed wire: raise the version in `proof.SPACE`."""
    drawn = counted("keys")
    identities = [Identity(Ed25519PrivateKey.from_private_bytes(drawn(32))) for _ in range(4)]
    boxes, fresh = [drawn(32), drawn(32)], drawn(32)
    leader, helper = (
        AggregatorEntry(ed25519_pk=identity.public.hex(), x25519_pk=public_of(box).hex())
        for identity, box in zip(identities[2:], boxes, strict=True)
    )
    names = {"a": identities[0].public.hex(), "b": identities[1].public.hex()}
    roster, leader_key = built(names, leader, helper), public_of(fresh).hex()
    session = VerifiedTerms.of_queries(roster, FEDERATION, make_queries(5), 3, 2, leader_key=leader_key, sigma=3.0)
    session = VerifiedTerms.model_validate_json(session.model_copy(update={"sid": "5" * 32}).canonical())
    votes = np.array([[2, 0, 0], [0, 1, 1], [1, 1, 0], [0, 0, 2], [0, 2, 0]])
    key = public_of(session_key(drawn(32), session.ctx))
    signature = sign_key(identities[3], session.ctx, key)
    content = VoteClient(session, roster, "b", identities[1], key, signature, counted("upload")).upload(votes)
    assert hashlib.sha256(content).hexdigest() == "d3ba1b2550b1163fc411895497fbb5ffad5e1990e51e43a015d8e3910b7b1bc1"
