"""A small federation with two aggregators, the way of its messages, and uploads as liars would make them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from consilium.protocol.identity import Identity
from consilium.protocol.noise import NoiseSource
from consilium.sums.agreement import new_private, public_of
from consilium.sums.field import FIELD
from consilium.sums.roster import AggregatorEntry, VerifiedRoster
from consilium.sums.verified.half import VerifiedSum
from consilium.sums.verified.helper import Helper
from consilium.sums.verified.leader import Leader
from consilium.sums.verified.proof import (
    Challenge,
    Prover,
    VoteGrid,
    challenge_of,
    commit_helper,
    commit_leader,
    commit_proof,
    expand_seed,
    proof_elements,
)
from consilium.sums.verified.sealing import Link, session_key, sign_key
from consilium.sums.verified.terms import VerifiedTerms
from consilium.sums.verified.uploads import HelperPart, Upload, VoteClient

FEDERATION = "f" * 64


def make_queries(count: int, seed: int = 0) -> np.ndarray:
    """float32 (count, 4), no two alike."""
    rows = np.random.default_rng(seed).normal(size=(count, 4)).astype(np.float32)
    rows[:, 0] = np.arange(count)
    return rows


def make_votes(seed: int, queries: int, classes: int, teachers: int) -> np.ndarray:
    """int64 (queries, classes), rows sum to `teachers`."""
    return np.random.default_rng(seed).multinomial(teachers, np.full(classes, 1 / classes), size=queries)


class NoNoise:
    """Of aggregators whose sum is held against the plain one."""

    def gaussian(self, sigma: float, shape: tuple[int, ...]) -> np.ndarray:
        return np.zeros(shape, dtype=np.int64)


class NoRules:
    """A helper that refuses nothing of its own."""

    def admit(self, terms: VerifiedTerms) -> None:
        pass

    def remember(self, terms: VerifiedTerms) -> None:
        pass


@dataclass
class VerifiedFederation:
    """Identities, roster, one session and everybody's votes."""

    n: int
    queries: int = 12
    classes: int = 3
    teachers: int = 1
    least: int = 2
    terms: dict = field(default_factory=dict)
    no_votes: bool = False

    def __post_init__(self) -> None:
        self.names = [f"h{place}" for place in range(self.n)]
        self.identities = {name: Identity.generate() for name in self.names}
        self.leader_identity, self.helper_identity = Identity.generate(), Identity.generate()
        self.leader_key, self.helper_key = new_private(), new_private()
        self.leader_fresh, self.helper_seed = new_private(), new_private()
        self.roster = VerifiedRoster.build(
            {name: identity.public.hex() for name, identity in self.identities.items()},
            self.leader_identity.public.hex(),
            sealing=public_of(self.leader_key).hex(),
            second=AggregatorEntry(
                ed25519_pk=self.helper_identity.public.hex(), x25519_pk=public_of(self.helper_key).hex()
            ),
            least=self.least,
        )
        self.session = self.new_session()
        self.votes = {
            name: make_votes(place, self.queries, self.classes, self.teachers)
            for place, name in enumerate([] if self.no_votes else self.names)
        }

    def new_session(self, seed: int = 0, **terms) -> VerifiedTerms:
        """Terms of a session of this roster, on queries of this seed."""
        rows = make_queries(self.queries, seed)
        return VerifiedTerms.of_queries(
            self.roster,
            FEDERATION,
            rows,
            self.classes,
            self.teachers,
            leader_key=public_of(self.leader_fresh).hex(),
            **{"sigma": 3.0, **self.terms, **terms},
        )

    def key(self, session: VerifiedTerms | None = None) -> bytes:
        """The helper's public key of a session, as any helper of this federation has it."""
        return public_of(session_key(self.helper_seed, (session or self.session).ctx))

    def client(self, name: str, **more) -> VoteClient:
        session = more.pop("session", self.session)
        key = more.pop("helper_key", self.key(session))
        signature = more.pop("signature", sign_key(self.helper_identity, session.ctx, key))
        return VoteClient(session, self.roster, name, self.identities[name], key, signature, **more)

    def uploads(self, names: Sequence[str] | None = None) -> dict[str, bytes]:
        """Honest uploads."""
        prover = Prover(self.session.grid)
        return {name: self.client(name, prover=prover).upload(self.votes[name]) for name in names or self.names}

    def leader(self, noise: NoiseSource | None = None, **more) -> Leader:
        session = more.pop("session", self.session)
        fresh, key = self.leader_fresh, self.key(session)
        return Leader(session, self.roster, self.leader_key, fresh, key, noise or NoNoise(), **more)

    def helper(self, noise: NoiseSource | None = None, **more) -> Helper:
        session, rules = more.pop("session", self.session), more.pop("rules", NoRules())
        noise = noise or NoNoise()
        return Helper(session, self.roster, self.helper_key, rules, noise, lambda _: self.helper_seed, **more)

    def total(self, names: Sequence[str]) -> np.ndarray:
        """The clear sum of these parties' votes."""
        return np.sum([self.votes[name] for name in names], axis=0)


def leader_link(federation: VerifiedFederation) -> Link:
    """The leader's end of its line to the helper, for whoever has its keys and speaks for itself."""
    other, key = bytes.fromhex(federation.roster.helper.x25519_pk), federation.key()
    return Link(federation.leader_key, other, federation.leader_fresh, key, federation.session.ctx)


def helper_link(federation: VerifiedFederation) -> Link:
    """The helper's end of it."""
    other, ctx = bytes.fromhex(federation.roster.leader.x25519_pk), federation.session.ctx
    fresh = session_key(federation.helper_seed, ctx), bytes.fromhex(federation.session.leader_key)
    return Link(federation.helper_key, other, *fresh, ctx)


def check_all(leader: Leader, helper: Helper, uploads: Mapping[str, bytes]) -> None:
    """All of them in one batch."""
    batch = leader.batch(uploads)
    if batch is not None:
        leader.settle(helper.check(batch))


def collect(leader: Leader, helper: Helper, uploads: Mapping[str, bytes], size: int = 4) -> VerifiedSum:
    """A whole session of these uploads, so many in a batch."""
    items = list(uploads.items())
    for start in range(0, len(items), size):
        check_all(leader, helper, dict(items[start : start + size]))
    return leader.finish(helper.give(leader.ask()))


def random_elements(count: int) -> np.ndarray:
    """(count, degree), reduced."""
    drawn = np.frombuffer(os.urandom(4 * count * FIELD.degree), dtype="<u4").astype(np.float64)
    return FIELD.reduce(drawn).reshape(-1, FIELD.degree)


def true_squares(grid: VoteGrid, matrix: np.ndarray, challenge: Challenge, starts: np.ndarray) -> np.ndarray:
    """F of any matrix (rows, classes): the opening at t fits, the linear checks do not."""
    field = FIELD
    rows = np.zeros((grid.lines * grid.points, grid.classes))
    rows[: grid.rows] = field.reduce(matrix.astype(np.float64))
    spread = np.zeros((*rows.T.shape, field.degree))
    spread[..., 0] = rows.T
    z = field.inner(challenge.r, spread).reshape(grid.lines, grid.points, field.degree)
    known = np.concatenate((starts[:, None], field.multiply(challenge.y[:, None], z)), axis=1).transpose(1, 0, 2)
    more = field.reduce(field.continuation(grid.points) @ known.reshape(grid.points + 1, -1))
    return field.square_sums(np.concatenate((known, more.reshape(-1, grid.lines, field.degree))))


def fitted(grid: VoteGrid, matrix: np.ndarray, challenge: Challenge, starts: np.ndarray) -> np.ndarray:
    """F that fits the linear check, moved at its first point; it does not fit the opening at t."""
    field, r, u, y = FIELD, challenge.r, challenge.u, challenge.y
    values = true_squares(grid, matrix, challenge, starts)
    rows = np.zeros((grid.lines * grid.points, grid.classes))
    rows[: grid.rows] = field.reduce(matrix.astype(np.float64))
    weights = field.multiply(field.multiply(y, y)[:, None], u[None]).reshape(-1, field.degree)
    by_class = field.reduce(weights.T @ rows).T
    wanted = field.inner(field.multiply(r, r), by_class)
    if grid.points > 1:
        wanted = wanted - field.inner(u[1:], values[2 : grid.points + 1])
    values[1] = field.multiply(field.reduce(wanted), inverse(u[0]))
    return values


def inverse(element: np.ndarray) -> np.ndarray:
    """By Fermat: the (q - 2)th power."""
    found, power, base = None, FIELD.order - 2, element
    while power:
        if power & 1:
            found = base if found is None else FIELD.multiply(found, base)
        base, power = FIELD.multiply(base, base), power >> 1
    assert found is not None
    return found


def zero_proof(grid: VoteGrid, matrix: np.ndarray, challenge: Challenge, starts: np.ndarray) -> np.ndarray:
    """F that is zero everywhere."""
    return np.zeros((grid.values, FIELD.degree))


def random_proof(grid: VoteGrid, matrix: np.ndarray, challenge: Challenge, starts: np.ndarray) -> np.ndarray:
    """F at random."""
    return random_elements(grid.values)


PROOFS = (true_squares, fitted, zero_proof, random_proof)


@dataclass
class Forger:
    """Makes uploads of a party step by step; what is set is done otherwise than the program does it.

    change_seed : what is sealed instead of the seed. change_commitments : the three of them. helper_key : to seal for.
    change_proof : leader's share of the proof, numbers below the prime.
    """

    federation: VerifiedFederation
    name: str
    session: VerifiedTerms | None = None
    identity: Identity | None = None
    place: int | None = None
    helper_key: bytes | None = None
    change_seed: Callable[[bytes], bytes] = bytes
    change_commitments: Callable[[tuple[bytes, bytes, bytes]], tuple[bytes, bytes, bytes]] = lambda them: them
    change_proof: Callable[[np.ndarray], np.ndarray] = np.asarray
    tries: int = 1
    """Challenges that are tried out; the upload is that of the last."""

    def __call__(self, matrix: np.ndarray, prove=true_squares) -> bytes:
        """matrix: integers (rows, classes)."""
        federation = self.federation
        session = self.session or federation.session
        grid, field, ctx = session.grid, FIELD, session.ctx
        place = federation.roster.place(self.name) if self.place is None else self.place
        for _ in range(self.tries):
            seed, blind = os.urandom(16), os.urandom(16)
            given = expand_seed(ctx, place, seed, "votes", grid.cells).astype(np.int64)
            share = ((matrix.ravel() - given) % field.prime).astype(field.dtype)
            to_leader = commit_leader(ctx, place, blind, share.tobytes())
            to_helper = commit_helper(ctx, place, seed)
            challenge = challenge_of(grid, ctx, place, to_leader, to_helper)
        starts = random_elements(grid.lines)
        values = prove(grid, matrix, challenge, starts)
        of_helper = expand_seed(ctx, place, seed, "proof", proof_elements(grid))
        proof = self.change_proof(field.to_wire(np.concatenate((starts, values)).ravel() - of_helper))
        commitments = to_leader, to_helper, commit_proof(ctx, place, blind, proof.tobytes())
        part = HelperPart.make(
            ctx,
            place,
            self.change_commitments(commitments),
            self.change_seed(seed),
            self.helper_key or federation.key(session),
            self.identity or federation.identities[self.name],
            os.urandom,
        )
        return Upload(part, blind, proof, share).write()


def one_hot(federation: VerifiedFederation, name: str) -> np.ndarray:
    """The honest matrix of a party, int64 (rows, classes)."""
    grid = federation.session.grid
    matrix = np.zeros((grid.rows, grid.classes), dtype=np.int64)
    matrix[np.arange(grid.rows), grid.picks(federation.votes[name])] = 1
    return matrix
