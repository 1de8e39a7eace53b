"""Uploads as liars would make them: any matrix for votes, with the best proof there is for it, or with any other."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from consilium.protocol.identity import Identity
from consilium.sums.aggregators import uploads
from consilium.sums.aggregators.proof import (
    SPACE,
    Challenge,
    VoteGrid,
    challenge_of,
    commit_helper,
    commit_leader,
    commit_proof,
    expand_seed,
    proof_elements,
)
from consilium.sums.aggregators.sealing import seal_once
from consilium.sums.aggregators.terms import VerifiedTerms
from consilium.sums.aggregators.uploads import HelperPart, Upload
from consilium.sums.agreement import public_of
from consilium.sums.field import Field
from tests.protocol.verified.federation import VerifiedFederation


def random_elements(field: Field, count: int) -> np.ndarray:
    """(count, degree), reduced."""
    drawn = np.frombuffer(os.urandom(4 * count * field.degree), dtype="<u4").astype(np.float64)
    return field.reduce(drawn).reshape(-1, field.degree)


def true_squares(grid: VoteGrid, matrix: np.ndarray, challenge: Challenge, starts: np.ndarray) -> np.ndarray:
    """F of any matrix (rows, classes): the opening at t fits, the linear checks do not."""
    field = grid.field
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
    field, r, u, y = grid.field, challenge.r, challenge.u, challenge.y
    values = true_squares(grid, matrix, challenge, starts)
    rows = np.zeros((grid.lines * grid.points, grid.classes))
    rows[: grid.rows] = field.reduce(matrix.astype(np.float64))
    weights = field.multiply(field.multiply(y, y)[:, None], u[None]).reshape(-1, field.degree)
    by_class = field.reduce(weights.T @ rows).T
    wanted = field.inner(field.multiply(r, r), by_class)
    if grid.points > 1:
        wanted = wanted - field.inner(u[1:], values[2 : grid.points + 1])
    values[1] = field.multiply(field.reduce(wanted), inverse(field, u[0]))
    return values


def inverse(field: Field, element: np.ndarray) -> np.ndarray:
    """By Fermat: the (q - 2)th power."""
    found, power, base = None, field.order - 2, element
    while power:
        if power & 1:
            found = base if found is None else field.multiply(found, base)
        base, power = field.multiply(base, base), power >> 1
    assert found is not None
    return found


def zero_proof(grid: VoteGrid, matrix: np.ndarray, challenge: Challenge, starts: np.ndarray) -> np.ndarray:
    """F that is zero everywhere."""
    return np.zeros((grid.values, grid.field.degree))


def random_proof(grid: VoteGrid, matrix: np.ndarray, challenge: Challenge, starts: np.ndarray) -> np.ndarray:
    """F at random."""
    return random_elements(grid.field, grid.values)


PROOFS = (true_squares, fitted, zero_proof, random_proof)


def sealed_for(part: HelperPart, key: bytes, seed: bytes, identity: Identity) -> HelperPart:
    """The part, whose seal is for another key than the one that it names, signed anew."""
    bound, own = part.content[: uploads._BOUND.size], os.urandom(32)
    signed = bound + uploads._SEAL.pack(public_of(own), seal_once(own, key, seed, bound))
    return HelperPart.read(signed + identity.sign(SPACE + "upload", signed))


@dataclass
class Forger:
    """Makes uploads of a party step by step; what is set is done otherwise than the program does it.

    change_seed : what is sealed instead of the seed. change_commitments : the three of them. helper_key : to seal for;
    named_key : the helper's key that is signed, where it is another one.
    change_proof : leader's share of the proof, numbers below the prime.
    """

    federation: VerifiedFederation
    name: str
    session: VerifiedTerms | None = None
    identity: Identity | None = None
    place: int | None = None
    helper_key: bytes | None = None
    named_key: bytes | None = None
    change_seed: Callable[[bytes], bytes] = bytes
    change_commitments: Callable[[tuple[bytes, bytes, bytes]], tuple[bytes, bytes, bytes]] = lambda them: them
    change_proof: Callable[[np.ndarray], np.ndarray] = np.asarray
    tries: int = 1
    """Challenges that are tried out; the upload is that of the last."""

    def __call__(self, matrix: np.ndarray, prove=true_squares) -> bytes:
        """matrix: integers (rows, classes)."""
        federation = self.federation
        session = self.session or federation.session
        grid, field, ctx = session.grid, session.field, session.ctx
        place = federation.roster.place(self.name) if self.place is None else self.place
        for _ in range(self.tries):
            seed, blind = os.urandom(16), os.urandom(16)
            given = expand_seed(field, ctx, place, seed, "votes", grid.cells).astype(np.int64)
            share = ((matrix.ravel() - given) % field.prime).astype(field.dtype)
            to_leader = commit_leader(ctx, place, blind, share.tobytes())
            to_helper = commit_helper(ctx, place, seed)
            challenge = challenge_of(grid, ctx, place, to_leader, to_helper)
        starts = random_elements(field, grid.lines)
        values = prove(grid, matrix, challenge, starts)
        of_helper = expand_seed(field, ctx, place, seed, "proof", proof_elements(grid))
        proof = self.change_proof(field.to_wire(np.concatenate((starts, values)).ravel() - of_helper))
        commitments = to_leader, to_helper, commit_proof(ctx, place, blind, proof.tobytes())
        part = HelperPart.make(
            ctx,
            place,
            self.change_commitments(commitments),
            self.change_seed(seed),
            self.named_key or federation.keys(session).place(min(place, federation.roster.n - 1)).public,
            self.identity or federation.identities[self.name],
            os.urandom,
        )
        if self.helper_key is not None:
            part = sealed_for(part, self.helper_key, seed, self.identity or federation.identities[self.name])
        return Upload(part, blind, proof, share).write(grid)


def one_hot(federation: VerifiedFederation, name: str) -> np.ndarray:
    """The honest matrix of a party, int64 (rows, classes)."""
    grid = federation.session.grid
    matrix = np.zeros((grid.rows, grid.classes), dtype=np.int64)
    matrix[np.arange(grid.rows), grid.picks(federation.votes[name])] = 1
    return matrix
