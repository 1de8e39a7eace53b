"""Rosters and sessions that are safe, those that are not, and the bytes of one upload that never change."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from consilium.protocol.errors import ConfigError, MalformedMessage
from consilium.protocol.identity import Identity
from consilium.sums.aggregators.proof import SPACE, challenge_of, reading_point
from consilium.sums.aggregators.sealing import HelperKeys, Link, SignedKey, seal_once, unseal_once
from consilium.sums.aggregators.terms import MOST_REACH, VerifiedTerms, reach_of
from consilium.sums.aggregators.uploads import Upload, VoteClient
from consilium.sums.agreement import Agreement, new_private, public_of
from consilium.sums.curve import SMALL_ORDER
from consilium.sums.errors import BadSignature, NotVotes, OtherVersion, RosterMismatch, SumTooLarge, UnsafeSession
from consilium.sums.field import FIELD_16, FIELD_21
from consilium.sums.roster import MOST_VOTERS, AggregatorEntry, VerifiedRoster
from tests.protocol.verified.federation import FEDERATION, VerifiedFederation, collect, make_queries

VECTORS = Path(__file__).parent / "vectors"


def entry() -> AggregatorEntry:
    return AggregatorEntry(ed25519_pk=Identity.generate().public.hex(), x25519_pk=public_of(new_private()).hex())


def publics(n: int) -> dict[str, str]:
    return {f"p{at}": Identity.generate().public.hex() for at in range(n)}


class TestRosters:
    @pytest.mark.parametrize(
        ("change", "match"),
        [
            ({"least_accepted": 1}, "least_accepted"),
            ({"least_accepted": 7}, "least_accepted 7 must be from"),
            ({"colluders": 2, "least_accepted": 3}, "from c \\+ 2 = 4"),
            ({"colluders": 5}, "least_accepted 7"),
        ],
    )
    def test_unsafe_numbers(self, change, match) -> None:
        with pytest.raises(ConfigError, match=match):
            VerifiedRoster.build(publics(6), entry(), entry(), **change)

    def test_nodes_share_no_key(self) -> None:
        one, other, parties = entry(), entry(), publics(4)
        same_box = other.model_copy(update={"x25519_pk": one.x25519_pk})
        same_sign = other.model_copy(update={"ed25519_pk": parties["p0"]})
        for helper in (one, same_box, same_sign):
            with pytest.raises(ConfigError, match="two nodes have one key"):
                VerifiedRoster.build(parties, one, helper)

    def test_keys_under_which_anybody_could_sign_or_open(self) -> None:
        for point in SMALL_ORDER:
            with pytest.raises(ConfigError, match="under it anyone could sign"):
                VerifiedRoster.build({**publics(3), "x": point.to_bytes(32, "little").hex()}, entry(), entry())
        for low in (0, 1):
            helper = entry().model_copy(update={"x25519_pk": low.to_bytes(32, "little").hex()})
            with pytest.raises(ConfigError, match="anyone could be the other end of its link"):
                VerifiedRoster.build(publics(3), entry(), helper)

    def test_files(self, tmp_path) -> None:
        roster, path = VerifiedFederation(3).roster, tmp_path / "roster.json"
        roster.save(path)
        again = VerifiedRoster.load(path)
        assert again == roster
        assert again.digest == roster.digest
        for content in (b"", b"{}", path.read_bytes()[:-5], path.read_bytes().replace(b"least_accepted", b"least")):
            path.write_bytes(content)
            with pytest.raises(ConfigError):
                VerifiedRoster.load(path)
        with pytest.raises(ConfigError):
            VerifiedRoster.load(tmp_path / "none.json")

    def test_the_keys_of_a_block_are_those_of_its_parties(self) -> None:
        roster = VerifiedFederation(7).roster
        for block in roster.blocks:
            keys = {roster.key(place).hex() for place in block}
            assert all(roster.block_keys(place) == keys for place in block)
        alone = roster.model_copy(update={"parties": tuple(p.model_copy(update={"block": 0}) for p in roster.parties)})
        assert alone.block_keys(0) == frozenset()

    def test_the_most_parties_still_fit_into_half_of_the_larger_field_and_noise_with_them(self) -> None:
        assert (FIELD_16.most_reach, FIELD_21.most_reach, MOST_REACH) == (32_760, 1_048_565, 1_048_565)
        assert reach_of(MOST_VOTERS, 1, 1_800.0, 1_800.0) <= MOST_REACH


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
            other_roster = federation.roster.model_copy(update={"least_accepted": 3})
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
            {"leader_sigma": -1.0},
            {"helper_sigma": float("inf")},
            {"helper_sigma": float("nan")},
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
        federation = VerifiedFederation(33)
        rows = make_queries(4)
        make = partial(VerifiedTerms.create, leader_key=public_of(federation.leader_fresh).hex())
        make(federation.roster, FEDERATION, rows, 3, 900, helper_sigma=56_000.0)
        with pytest.raises(SumTooLarge, match="sums may reach 1055700 with their noise, the most is 1048565"):
            make(federation.roster, FEDERATION, rows, 3, 900, helper_sigma=57_000.0)
        with pytest.raises(SumTooLarge):
            make(federation.roster, FEDERATION, rows, 3, 900, helper_sigma=56_000.0, leader_sigma=56_000.0)

    @pytest.mark.parametrize(
        ("teachers", "sigma", "field"),
        [(992, 0.0, FIELD_16), (993, 0.0, FIELD_21), (900, 120.0, FIELD_16), (900, 150.0, FIELD_21)],
    )
    def test_the_field_is_the_smallest_into_half_of_which_sums_fit(self, teachers, sigma, field) -> None:
        federation = VerifiedFederation(33, teachers=teachers, no_votes=True)
        session = federation.new_session(leader_sigma=sigma, helper_sigma=sigma)
        assert session.field is session.grid.field is field
        assert session.version == {FIELD_16: 2, FIELD_21: 3}[field]

    def test_a_sum_that_needs_the_larger_field_is_that_of_clear_votes(self) -> None:
        """34,000 votes on a query, most of them for one class: more than the smaller field tells apart, and shares of
        them more than 32 bits."""
        federation = VerifiedFederation(34, queries=1, teachers=1_000)
        for votes in federation.votes.values():
            votes[:] = 996, 3, 1
        federation.votes["h5"][:] = 0, 0, 1_000
        leader, helper = federation.leader(), federation.helper()
        result = collect(leader, helper, federation.uploads())
        assert result.sums.tolist() == [[32_868, 99, 1_033]]
        assert not result.clipped.any()

    def test_no_node_takes_another_field_than_the_roster_needs(self) -> None:
        """Signed as it should be by a coordinator that lies: sums that would wrap round, or larger messages."""
        few, many = VerifiedFederation(3), VerifiedFederation(34, teachers=1_000, no_votes=True)
        for federation, version, error in ((few, 3, UnsafeSession), (many, 2, SumTooLarge)):
            wrong = federation.session.model_copy(update={"version": version})
            with pytest.raises(error, match="32760"):
                VerifiedTerms.open(wrong.canonical(), wrong.sign(federation.leader_identity), federation.roster)
            with pytest.raises(error):
                federation.new_session(version=version)

    def test_a_version_is_signed_as_that_version(self) -> None:
        federation = VerifiedFederation(34, teachers=1_000, no_votes=True)
        content, identity = federation.session.canonical(), federation.leader_identity
        VerifiedTerms.open(content, identity.sign("verified/3/session", content), federation.roster)
        with pytest.raises(BadSignature):
            VerifiedTerms.open(content, identity.sign("verified/2/session", content), federation.roster)

    @pytest.mark.parametrize("version", ["4", "true", "9" * 5_000])
    def test_versions_that_nobody_knows_are_refused_by_name(self, version) -> None:
        federation = VerifiedFederation(3)
        content = federation.session.canonical().replace(b'"version":2', b'"version":' + version.encode())
        with pytest.raises(OtherVersion, match="the session is of version"):
            VerifiedTerms.open(
                content, federation.leader_identity.sign("verified/4/session", content), federation.roster
            )

    def test_an_exact_second_phase_and_a_query_twice(self) -> None:
        federation = VerifiedFederation(3)
        with pytest.raises(UnsafeSession, match="second phase"):
            federation.new_session(phase=2)
        federation.new_session(phase=2, helper_sigma=4.0)
        with pytest.raises(UnsafeSession, match="stands twice"):
            VerifiedTerms.create(federation.roster, FEDERATION, make_queries(4)[[0, 1, 1]], 3, 1, leader_key="09" * 32)


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
        key = federation.keys().place(0)
        with pytest.raises(RosterMismatch):
            VoteClient(federation.session, federation.roster, "h0", federation.identities["h1"], key)
        with pytest.raises(RosterMismatch):
            VoteClient(federation.session, federation.roster, "nobody", federation.identities["h1"], key)
        with pytest.raises(RosterMismatch):
            VoteClient(VerifiedFederation(3).session, federation.roster, "h0", federation.identities["h0"], key)

    def test_a_party_seals_for_the_second_aggregators_key_of_its_place_in_this_session_only(self) -> None:
        federation = VerifiedFederation(3)
        key, other = federation.keys().place(0), federation.keys(federation.new_session()).place(0)
        own = new_private()
        signed_by_leader = federation.leader_identity.sign(
            SPACE + "place-key", federation.session.ctx, bytes(4), public_of(own)
        )
        wrong = [
            federation.keys().place(1),
            other,
            SignedKey(public_of(own), key.signature),
            SignedKey(public_of(own), signed_by_leader),
            SignedKey(key.public, bytes(64)),
        ]
        for each in wrong:
            with pytest.raises(BadSignature, match="second aggregator"):
                federation.client("h0", helper_key=each)
        federation.client("h0", helper_key=key)

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
        agreement = Agreement(helper)
        assert unseal_once(agreement, key, public_of(own), sealed, b"bound") == b"seed"
        assert unseal_once(agreement, key, public_of(own), sealed, b"other") is None
        assert unseal_once(agreement, key, public_of(other), sealed, b"bound") is None
        assert unseal_once(agreement, key, bytes(32), sealed, b"bound") is None
        assert unseal_once(Agreement(other), public_of(other), public_of(own), sealed, b"bound") is None
        assert unseal_once(agreement, key, public_of(own), sealed[:-1] + bytes([sealed[-1] ^ 1]), b"bound") is None

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


def made_vector(sigma: float) -> dict[str, object]:
    """All of one upload from fixed keys and fixed random bytes, in the field that sums with this noise need."""
    drawn = counted("keys")
    identities = [Identity(Ed25519PrivateKey.from_private_bytes(drawn(32))) for _ in range(4)]
    boxes, fresh = [drawn(32), drawn(32)], drawn(32)
    leader, helper = (
        AggregatorEntry(ed25519_pk=identity.public.hex(), x25519_pk=public_of(box).hex())
        for identity, box in zip(identities[2:], boxes, strict=True)
    )
    names = {"a": identities[0].public.hex(), "b": identities[1].public.hex()}
    roster = VerifiedRoster.build(names, leader, helper)
    noise = {"leader_sigma": sigma, "helper_sigma": sigma}
    session = VerifiedTerms.create(
        roster, FEDERATION, make_queries(5), 3, 2, leader_key=public_of(fresh).hex(), **noise
    )
    session = session.model_copy(update={"sid": "5" * 32})
    session = VerifiedTerms.model_validate_json(session.canonical())
    votes = np.array([[2, 0, 0], [0, 1, 1], [1, 1, 0], [0, 0, 2], [0, 2, 0]])
    keys = HelperKeys.make(drawn(32), session.ctx, 2, identities[3])
    content = VoteClient(session, roster, "b", identities[1], keys.place(1), counted("upload")).upload(votes)
    upload = Upload.read(content, session.grid)
    assert upload is not None
    part, link = upload.part, Link(boxes[0], public_of(boxes[1]), fresh, keys.link, session.ctx)
    challenge, field = challenge_of(session.grid, session.ctx, 1, part.to_leader, part.to_helper), session.field
    return {
        "queries": hashlib.sha256(make_queries(5).tobytes()).hexdigest(),
        "session": session.canonical().decode(),
        "votes": votes.tolist(),
        "helper_keys": keys.content.hex(),
        "upload": content.hex(),
        "r": field.to_wire(challenge.r).tolist(),
        "u": field.to_wire(challenge.u).tolist(),
        "y": field.to_wire(challenge.y).tolist(),
        "reading_point": field.to_wire(reading_point(field, link.secret(), session.ctx)).tolist(),
        "session_signature": session.sign(identities[2]).hex(),
    }


@pytest.mark.parametrize(("name", "sigma"), [("upload.json", 0.0), ("upload-21-bits.json", 1_500.0)])
def test_the_bytes_of_an_upload_never_change(name: str, sigma: float) -> None:
    """A changed vector is a changed wire: raise the versions of uploads, session and link."""
    assert made_vector(sigma) == json.loads((VECTORS / name).read_text(encoding="utf-8"))
