"""A small federation with two aggregators, without nodes or disks, and uploads as liars would make them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from consilium.protocol.identity import Identity, SealingKey
from consilium.protocol.noise import NoiseSource
from consilium.sums.roster import AggregatorEntry, VerifiedRoster
from consilium.sums.verified import field, proof
from consilium.sums.verified.aggregators import Helper, Leader, Link, Question, VerifiedSum
from consilium.sums.verified.field import DEGREE, PRIME, elements, inner, multiply, reduced, square_sums, to_wire
from consilium.sums.verified.messages import GivenRecord
from consilium.sums.verified.proof import Challenge, VoteGrid, challenge_key, seed_key
from consilium.sums.verified.uploads import HelperPart, Upload, VerifiedTerms, make_upload
from tests.coordinator.mechanisms.drawing import NoNoise
from tests.sums.secure.network import FEDERATION, make_queries

IDS = ["00" * 32]


@dataclass
class VerifiedFederation:
    """Identities, roster, one session and everybody's votes, int64 (queries, classes)."""

    n: int
    queries: int = 12
    classes: int = 3
    teachers: int = 1
    sigma: float = 3.0
    drawn: Callable[[int], bytes] = os.urandom

    def __post_init__(self) -> None:
        *self.identities, self.signer, self.second = (Identity(self.drawn(32)) for _ in range(self.n + 2))
        self.own, self.other, self.fresh, self.helper_fresh = (SealingKey(self.drawn(32)) for _ in range(4))
        self.roster = VerifiedRoster.build(
            {f"h{place}": identity.public.hex() for place, identity in enumerate(self.identities)},
            self.signer.public.hex(),
            least=2,
            sealing=self.own.public.hex(),
            second=AggregatorEntry(ed25519_pk=self.second.public.hex(), x25519_pk=self.other.public.hex()),
        )
        self.terms = self.new_terms()
        shares = np.full(self.classes, 1 / self.classes)
        draw = [np.random.default_rng(place) for place in range(self.n)]
        self.votes = [each.multinomial(self.teachers, shares, size=self.queries) for each in draw]

    def new_terms(self, seed: int = 0, **changes) -> VerifiedTerms:
        values = {"leader_key": self.fresh.public.hex(), "sigma": self.sigma, **changes}
        rows = make_queries(self.queries, seed=seed)
        return VerifiedTerms.of_queries(self.roster, FEDERATION, rows, self.classes, self.teachers, **values)

    def upload(self, place: int, terms: VerifiedTerms | None = None, **more) -> bytes:
        key = self.helper_fresh.public
        return make_upload(terms or self.terms, place, self.identities[place], key, self.votes[place], **more)

    def uploads(self, places: Sequence[int] | None = None) -> dict[int, bytes]:
        return {place: self.upload(place) for place in (range(self.n) if places is None else places)}

    def leader(self) -> Leader:
        return Leader(self.terms, self.roster, self.own, self.fresh, self.helper_fresh.public)

    def helper(self) -> Helper:
        return Helper(self.terms, self.roster, self.other, self.helper_fresh)

    def total(self, places: Sequence[int]) -> np.ndarray:
        return np.sum([self.votes[place] for place in places], axis=0)

    def link(self) -> Link:
        """The line between both, for whoever has an aggregator's keys and speaks for itself."""
        return Link(self.own, self.other.public, self.fresh, self.helper_fresh.public, self.terms.ctx)


def check_all(leader: Leader, helper: Helper, uploads: Mapping[int, bytes]) -> None:
    batch = leader.batch(uploads)
    if batch is not None:
        leader.settle(helper.check(batch))


def collect(
    leader: Leader, helper: Helper, uploads: Mapping[int, bytes], noise: Sequence[NoiseSource] = (NoNoise(), NoNoise())
) -> VerifiedSum:
    """A whole session of these uploads, four in a batch."""
    items = list(uploads.items())
    for start in range(0, len(items), 4):
        check_all(leader, helper, dict(items[start : start + 4]))
    return ended(leader, helper, noise)[0]


def ended(
    leader: Leader, helper: Helper, noise: Sequence[NoiseSource] = (NoNoise(), NoNoise())
) -> tuple[VerifiedSum, GivenRecord, Question, bytes]:
    """The sum, what the helper signs of it, and both messages."""
    question = leader.ask(noise[0])
    answer, record = helper.give(question.sealed, IDS, noise[1])
    return leader.finish(question, answer), record, question, answer


def random_elements(count: int) -> np.ndarray:
    """(count, DEGREE), reduced."""
    return reduced(elements([os.urandom(32)], count * DEGREE)[0]).reshape(-1, DEGREE)


Prove = Callable[[VoteGrid, np.ndarray, Challenge, np.ndarray], np.ndarray]


def true_squares(grid: VoteGrid, matrix: np.ndarray, challenge: Challenge, starts: np.ndarray) -> np.ndarray:
    """F of any matrix (rows, classes): the opening at t fits, the linear checks do not."""
    rows = np.zeros((grid.lines * grid.points, grid.classes, DEGREE))
    rows[: grid.rows, :, 0] = reduced(matrix.astype(np.float64))
    z = inner(challenge.r[0], rows.transpose(1, 0, 2)).reshape(grid.lines, grid.points, DEGREE)
    known = np.concatenate((starts[:, None], multiply(challenge.y[0][:, None], z)), axis=1).transpose(1, 0, 2)
    more = reduced(field.continuation(grid.points) @ known.reshape(grid.points + 1, -1))
    return square_sums(np.concatenate((known, more.reshape(-1, grid.lines, DEGREE))))


def fitted(grid: VoteGrid, matrix: np.ndarray, challenge: Challenge, starts: np.ndarray) -> np.ndarray:
    """F that fits the linear check, moved at its first point; it does not fit the opening at t."""
    r, u, y = challenge.r[0], challenge.u[0], challenge.y[0]
    values = true_squares(grid, matrix, challenge, starts)
    rows = np.zeros((grid.lines * grid.points, grid.classes))
    rows[: grid.rows] = reduced(matrix.astype(np.float64))
    weights = multiply(multiply(y, y)[:, None], u[None]).reshape(-1, DEGREE)
    by_class = reduced(weights.T @ rows).T
    wanted = inner(multiply(r, r), by_class[:, None])[0]
    if grid.points > 1:
        wanted = wanted - inner(u[1:], values[2 : grid.points + 1, None])[0]
    values[1] = multiply(reduced(wanted), inverse(u[0]))
    return values


def inverse(element: np.ndarray) -> np.ndarray:
    """By Fermat: the (q - 2)th power."""
    found, power, base = np.eye(DEGREE)[0], field.ORDER - 2, element
    while power:
        found = multiply(found, base) if power & 1 else found
        base, power = multiply(base, base), power >> 1
    return found


def zero_proof(grid: VoteGrid, matrix: np.ndarray, challenge: Challenge, starts: np.ndarray) -> np.ndarray:
    return np.zeros((grid.values, DEGREE))


def random_proof(grid: VoteGrid, matrix: np.ndarray, challenge: Challenge, starts: np.ndarray) -> np.ndarray:
    return random_elements(grid.values)


PROOFS: tuple[Prove, ...] = (true_squares, fitted, zero_proof, random_proof)


@dataclass
class Forger:
    """Makes uploads of the party at a place step by step; what is set is done otherwise than the program does it.

    claimed: the place that is written. seed: what is sealed instead of it. commitments: the three of them. helper: to
    seal for. proof: the leader's share of it. tries: challenges that are tried out; the upload is that of the last.
    """

    federation: VerifiedFederation
    place: int
    claimed: int | None = None
    terms: VerifiedTerms | None = None
    identity: Identity | None = None
    helper: bytes | None = None
    seed: Callable[[bytes], bytes] = bytes
    commitments: Callable[[tuple[bytes, bytes, bytes]], tuple[bytes, bytes, bytes]] = tuple  # type: ignore[assignment]
    proof: Callable[[np.ndarray], np.ndarray] = np.asarray
    tries: int = 1

    def __call__(self, matrix: np.ndarray, prove: Prove = true_squares) -> bytes:
        """matrix: integers (rows, classes)."""
        federation, terms = self.federation, self.terms or self.federation.terms
        grid, ctx, place = terms.grid, terms.ctx, self.place if self.claimed is None else self.claimed
        for _ in range(self.tries):
            seed, blind = os.urandom(16), os.urandom(16)
            (given,) = elements([seed_key(ctx, place, seed, "votes")], grid.cells).astype(np.int64)
            share = ((matrix.ravel() - given) % PRIME).astype(field.DTYPE)
            to_leader = proof.commitment("leader", ctx, place, blind, share.tobytes())
            to_helper = proof.commitment("helper", ctx, place, seed)
            challenge = proof.challenges(grid, [challenge_key(ctx, place, to_leader, to_helper)])
        starts = random_elements(grid.lines)
        values = prove(grid, matrix, challenge, starts)
        (of_helper,) = elements([seed_key(ctx, place, seed, "proof")], grid.proof)
        given = self.proof(to_wire(np.concatenate((starts, values)).ravel() - of_helper))
        bound = self.commitments((to_leader, to_helper, proof.commitment("proof", ctx, place, blind, given.tobytes())))
        helper = self.helper or federation.helper_fresh.public
        signer = self.identity or federation.identities[self.place]
        part = HelperPart.make((ctx, place, *bound), self.seed(seed), SealingKey.generate(), helper, signer)
        return Upload(part, blind, given, share).write()


def one_hot(federation: VerifiedFederation, place: int) -> np.ndarray:
    grid = federation.terms.grid
    return np.eye(grid.classes, dtype=np.int64)[grid.picks(federation.votes[place])]
