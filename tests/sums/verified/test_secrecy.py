"""What one aggregator sees does not depend on votes, also where it lies; nobody holds an exact sum; nothing is opened
later, and nothing printed. Fixed seeds; each chi-square would fail by chance under one in a million others."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import stats

from consilium.protocol.errors import ConfigError, MalformedMessage
from consilium.protocol.identity import SealingKey
from consilium.sums.errors import BadLink, OverflowRisk, RosterMismatch, UnsafeSession
from consilium.sums.roster import VerifiedRoster
from consilium.sums.verified.aggregators import Link
from consilium.sums.verified.field import DEGREE, PRIME, elements, lagrange_at, multiply, reduced, square_sums, to_wire
from consilium.sums.verified.messages import BATCH, CHECKED
from consilium.sums.verified.proof import Challenge, Opener, VoteGrid, challenges, hold, reading_point, seed_key
from consilium.sums.verified.uploads import Upload, VerifiedTerms, make_upload
from tests.sums.secure.network import FEDERATION, make_queries
from tests.sums.verified.network import VerifiedFederation, collect

BINS = np.ceil(np.linspace(0, PRIME, 65))


def p_uniform(values: np.ndarray) -> float:
    counts = np.histogram(values, bins=BINS)[0]
    return float(stats.chisquare(counts, np.diff(BINS) / PRIME * values.size).pvalue)


def seen(federation: VerifiedFederation, seed: int) -> tuple[Upload, np.ndarray, np.ndarray]:
    """The leader's part of the first party's upload, and what both aggregators open of it."""
    content = federation.upload(0, entropy=np.random.default_rng(seed).bytes)
    upload = Upload.read(content, federation.terms.grid)
    batch, link = federation.leader().batch({0: content}), federation.link()
    assert upload is not None and batch is not None
    opened = [link.open(BATCH, batch), link.open(CHECKED, federation.helper().check(batch))]
    size = (federation.terms.grid.lines + 3) * DEGREE
    mine, other = (np.frombuffer(body[-4 * size :], dtype="<u4") for body in opened)
    return upload, mine, other


def with_first_vote(choice: int, queries: int = 9) -> VerifiedFederation:
    federation = VerifiedFederation(2, queries=queries)
    federation.votes[0][0] = np.eye(3, dtype=int)[choice]
    return federation


@pytest.mark.parametrize("choice", [0, 1])
def test_what_the_leader_holds_is_uniform_whatever_the_votes(choice) -> None:
    federation = VerifiedFederation(2, queries=20_000, classes=2)
    federation.votes[0][:] = np.eye(2, dtype=int)[choice]
    upload, _, _ = seen(federation, choice)
    assert p_uniform(upload.share) > 1e-6
    assert p_uniform(upload.share[choice::2]) > 1e-6
    assert p_uniform(upload.proof) > 1e-6
    assert p_uniform(np.repeat([0, 1], 20_000)) < 1e-6, "control: votes without a mask"


def test_the_starts_of_the_lines_are_uniform_and_new_each_time() -> None:
    """Without them what is opened would be an equation for the votes, though it looks as random."""
    federation, found = VerifiedFederation(2, queries=20_000, classes=2), []
    grid, ctx = federation.terms.grid, federation.terms.ctx
    for seed in (30, 31):
        upload, _, _ = seen(federation, seed)
        secret = upload.part.opened(federation.helper_fresh)
        assert isinstance(secret, bytes)
        (other,) = elements([seed_key(ctx, 0, secret, "proof")], grid.proof)
        found.append(to_wire(upload.proof.astype(float) + other)[: grid.lines * DEGREE])
    assert all(p_uniform(starts) > 1e-6 for starts in found)
    assert (found[0] == found[1]).mean() < 0.01


def moved(opened: np.ndarray, challenge: Challenge, at_t: np.ndarray, guess: int, target: int) -> np.ndarray:
    """Openings of one upload, fitted to how the square of the first row's value moves if the guess is right.

    at_t: by how much F(t) moves with that square.
    """
    r, y = challenge.r[0], challenge.y[0, 0]
    values = [multiply(y, r[choice]) for choice in (target, guess)]
    shift = reduced(square_sums(np.array(values[:1])) - square_sums(np.array(values[1:])))
    rows = opened.reshape(-1, DEGREE).astype(np.float64)
    rows[-3] += multiply(at_t, shift)
    rows[-2] += multiply(challenge.u[0, 0], shift)
    return to_wire(rows).reshape(1, -1)


@pytest.mark.parametrize("with_proof", [False, True])
@pytest.mark.parametrize("vote", [0, 1, 2])
@pytest.mark.parametrize("guess", [0, 1, 2])
def test_a_leader_that_shifts_its_share_fails_whether_its_guess_is_right_or_wrong(guess, vote, with_proof) -> None:
    """It moves the first vote from its guess to another class. with_proof: it fits what it opens of F to that as well
    as its guess allows, as if f_l had no random start."""
    federation, target = with_first_vote(vote), (guess + 1) % 3
    upload, _, other = seen(federation, vote)
    grid, part, share = federation.terms.grid, upload.part, upload.share.astype(np.int64)
    share[[guess, target]] += [-1, 1]
    t = reading_point(federation.link().secret(), part.ctx)
    opened = Opener(grid, t, True)(to_wire(share)[None], upload.proof[None], [part.challenge_key])
    if with_proof:
        challenge = challenges(grid, [part.challenge_key])
        opened = moved(opened, challenge, lagrange_at(t, grid.values)[1], guess, target)
    assert not hold(grid, opened, other[None])[0]


def test_control_without_random_starts_the_refusal_tells_the_vote() -> None:
    """One row on one line, f(0) = 0: the fitted shift passes if the guess is right, and only then."""
    grid, t, key = VoteGrid(1, 3, 1), reading_point(bytes(32), bytes(32)), bytes(32)
    challenge, told = challenges(grid, [key]), {}
    along = lagrange_at(t, 2)[1]
    for vote in range(3):
        value = multiply(challenge.y[0, 0], challenge.r[0, vote])
        square = multiply(value, value)
        values = np.stack([np.zeros((2, DEGREE)), np.stack((square, reduced(4 * square)))]).reshape(-1)
        honest = Opener(grid, t, False)(np.eye(3)[None, vote], to_wire(values)[None], [key])
        for guess in range(3):
            target = (guess + 1) % 3
            share = to_wire(np.eye(3)[target] - np.eye(3)[guess])
            opened = Opener(grid, t, True)(share[None], np.zeros((1, 4 * DEGREE)), [key])
            opened = moved(opened, challenge, multiply(along, along), guess, target)
            told[vote, guess] = bool(hold(grid, opened, honest)[0])
    assert told == {(vote, guess): vote == guess for vote in range(3) for guess in range(3)}


def test_nothing_is_opened_by_long_term_keys() -> None:
    """All that went over the wire, and every long-term key of every node, signing keys as if they were of the other
    kind, too; the control is the helper's key of the session."""
    federation = VerifiedFederation(5, queries=3)
    signing = [SealingKey(each.secret) for each in (*federation.identities, federation.signer, federation.second)]
    content, grid, other = federation.upload(0), federation.terms.grid, federation.own.public
    batch, upload = federation.leader().batch({0: content}), Upload.read(content, grid)
    assert batch is not None and upload is not None

    def opened(key: SealingKey) -> bytes:
        return Link(federation.other, other, key, federation.fresh.public, federation.terms.ctx).open(BATCH, batch)

    for key in (federation.own, federation.other, federation.fresh, *signing):
        assert not isinstance(upload.part.opened(key), bytes)
    for key in (federation.other, *signing):
        with pytest.raises(BadLink):
            opened(key)
    assert isinstance(upload.part.opened(federation.helper_fresh), bytes) and opened(federation.helper_fresh)


def test_a_leader_whose_own_key_stands_for_the_helpers_reads_every_vote() -> None:
    """The control of `uploads.check_key`: parties seal for a key that the helper has signed, and for no other."""
    federation, mine = VerifiedFederation(3), SealingKey.generate()
    terms, votes = federation.terms, federation.votes[0]
    upload = Upload.read(make_upload(terms, 0, federation.identities[0], mine.public, votes), terms.grid)
    seed = upload.part.opened(mine) if upload else b""
    assert upload and isinstance(seed, bytes)
    (other,) = elements([seed_key(terms.ctx, 0, seed, "votes")], terms.grid.cells)
    assert np.array_equal((upload.share.astype(np.int64) + other).reshape(votes.shape) % PRIME, votes)


def test_no_object_shows_a_share_or_a_key() -> None:
    federation = VerifiedFederation(3)
    leader, helper = federation.leader(), federation.helper()
    result = collect(leader, helper, federation.uploads())
    upload = Upload.read(federation.upload(0), federation.terms.grid)
    assert upload is not None
    texts = [repr(each) for each in (leader, helper, result.leader, result, upload, upload.part, federation.link())]
    assert all("array" not in text and "\\x" not in text for text in texts)
    keys = [key.secret.hex() for key in (federation.own, federation.other, federation.fresh)]
    assert not any(key in text for key in keys for text in texts)


def test_commitments_hide_a_share_that_could_be_guessed() -> None:
    """The helper knows its share, so that a guess of all votes gives the leader's: without the blind the commitment
    would confirm it."""
    federation = VerifiedFederation(2, queries=1, classes=2)
    found = set()
    for blind in (b"\0", b"\1"):
        drawn = iter([bytes(16), blind * 16, bytes(32), bytes(31) + b"\1"])
        upload = Upload.read(federation.upload(0, entropy=lambda _, drawn=drawn: next(drawn)), federation.terms.grid)
        found.add(upload.part.to_leader if upload else b"")
    assert len(found) == 2


NUMBERS = [
    {"queries": 0}, {"queries": 2**24 + 1}, {"classes": 1}, {"classes": 1001}, {"teachers": 0}, {"teachers": 1001},
    {"queries": 10_000_000, "teachers": 2}, {"queries": 1_000_000, "classes": 1000}, {"sigma": 0.0}, {"sigma": -1.0},
    {"sigma": float("inf")}, {"sigma": 1e10}, {"queries": 5.0}, {"sid": "x"}, {"version": 99}, {"leader_key": "0"},
]  # fmt: skip


@pytest.mark.parametrize("change", NUMBERS)
def test_every_number_of_the_terms_has_a_bound(change) -> None:
    federation = VerifiedFederation(3)
    values = {**json.loads(federation.terms.canonical()), **change}
    content = json.dumps(values, sort_keys=True, separators=(",", ":")).encode()
    with pytest.raises(MalformedMessage):
        VerifiedTerms.open(content, federation.signer.sign(VerifiedTerms.SIGNED_AS, content), federation.roster)


def test_terms_are_of_the_leaders_own_keys_and_fit_into_the_field() -> None:
    """Whose signature and whose roster they need: as under masks."""
    federation, other = VerifiedFederation(3), VerifiedFederation(3)
    for name in ("fresh", "own"):
        with pytest.raises(RosterMismatch, match="another"):
            setattr(federation, name, getattr(other, name))
            federation.leader()
    large = VerifiedFederation(33, queries=1, teachers=900)
    large.new_terms(sigma=39_000.0)
    with pytest.raises(OverflowRisk, match="the most is 1048565"):
        large.new_terms(sigma=41_000.0)
    with pytest.raises(UnsafeSession, match="no such session can be"):
        large.new_terms(sigma=1e10)
    with pytest.raises(UnsafeSession, match="stands twice"):
        rows = make_queries(4)[[0, 1, 1]]
        VerifiedTerms.of_queries(federation.roster, FEDERATION, rows, 3, 1, leader_key="09" * 32, sigma=3.0)


@pytest.mark.parametrize("key", ["00" * 32, "01" + "00" * 31, None], ids=["zero", "one", "the leader's"])
def test_an_aggregator_has_no_weak_key_and_none_of_the_other_one(key: str | None) -> None:
    federation = VerifiedFederation(4)
    own = federation.own.public.hex()
    second = federation.roster.helper.model_copy(update={"x25519_pk": key or own})
    with pytest.raises(ConfigError, match="low order" if key else "two nodes have one key"):
        VerifiedRoster.build(federation.roster.keys, federation.signer.public.hex(), sealing=own, second=second)
