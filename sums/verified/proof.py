"""The proof that every row of a party's votes is one vote, and how two holders of shares of it check it.

A row x of the votes has under the challenge r the value z = <r, x>. z^2 = <r o r, x> holds for all r if and only if x
is zero or a unit vector (Boneh, Boyle, Corrigan-Gibbs, Gilboa and Ishai 2021, section 4), and x sums to 1 besides. All
rows are checked together, row (point m, line l) with weight u_m y_l^2. The squares are what shares cannot be put to by
themselves: along line l runs f_l, of degree `points`, with f_l(m) = y_l z and a random f_l(0). The party gives shares
of the values of F = sum over l of f_l^2, which is of degree 2 points, and the aggregators check it at a place t that
the party does not know (fully linear proofs: Boneh, Boneh, Corrigan-Gibbs, Gilboa and Ishai 2019):

    F(t) = sum of f_l(t)^2,    sum of u_m F(m) = sum of u_m y_l^2 <r o r, x>,    sum of u_m y_l^2 (sum of x - 1) = 0.

Sound: under a challenge (r, u, y), drawn by a hash, false votes leave a polynomial in it of degree 5 at most that is
not zero; it has its root there for at most 5 / q of all challenges, q elements of the extension. An F that is not the
sum of squares passes for at most 2 points / (q - p) of all t. Each hash that a party tries out is one challenge: after
2^60 of them it passes with probability 2^-84 (`soundness_error`).

Zero knowledge: f_l(t) is uniform, since f_l(0) is and t is no point of a line; all else that is opened follows from
it. That holds whatever the other aggregator sends: what is shifted has to fit f_l(t), which nobody knows before, not
the votes.

The rows are a grid: row i is at point i % points + 1 of line i // points. Fewer points make the party's work less,
fewer lines the messages of the aggregators: a proof has 2 points + 1 + lines elements.

Nobody can choose the challenges, and a proof fits one upload of one party in one session only. The first (r, u, y) is a
hash of the session, the party's place and both shares, by commitments that hide them: a party knows it before it
proves, after it is bound to its votes (as in Prio3, draft-irtf-cfrg-vdaf). The second, where the polynomials are read,
comes from a key that only the two aggregators have, for the whole session.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from consilium.protocol.identity import derive, digest
from consilium.sums.field import FIELD, from_wire, is_base

MOST_ROWS = 2**24
"""Queries times teachers: a grid of 2,048 points and 8,192 lines, as many as the field adds up without a reduction."""


@dataclass(frozen=True)
class VoteGrid:
    """Sizes of all that is sent and computed in a session of `queries` x `classes` votes by `teachers` of a party."""

    queries: int
    classes: int
    teachers: int

    @property
    def rows(self) -> int:
        """Queries times teachers; the rows of a query stand together."""
        return self.queries * self.teachers

    @property
    def cells(self) -> int:
        """Elements of one share of the votes."""
        return self.rows * self.classes

    @cached_property
    def points(self) -> int:
        """Rows on a line.

        >>> VoteGrid(10_000, 10, 1).points, VoteGrid(10_000, 10, 1).lines
        (50, 200)
        """
        return math.ceil(math.sqrt(self.rows) / 2)

    @cached_property
    def lines(self) -> int:
        """Lines; the last may be filled up with rows of zeros."""
        return math.ceil(self.rows / self.points)

    @property
    def values(self) -> int:
        """Elements of the extension that the polynomial of the proof is given by: its values at 0 to 2 points."""
        return 2 * self.points + 1

    @property
    def last_points(self) -> int:
        """Rows on the last line."""
        return self.rows - (self.lines - 1) * self.points

    def picks(self, votes: np.ndarray) -> np.ndarray:
        """The class of each row, int64 (rows,).

        votes: integers (queries, classes), as many in each row as there are teachers; not checked here.

        >>> VoteGrid(2, 3, 2).picks(np.array([[1, 0, 1], [0, 2, 0]])).tolist()
        [0, 2, 1, 1]
        """
        if self.teachers == 1:
            return np.argmax(votes, axis=1)
        classes = np.broadcast_to(np.arange(self.classes), votes.shape)
        return np.repeat(classes.ravel(), votes.ravel())

    def summed(self, share: np.ndarray) -> np.ndarray:
        """A share of the votes (cells,) -> (queries, classes), not reduced, the sum over the teachers."""
        if self.teachers == 1:
            return share.reshape(self.queries, self.classes)
        by_teacher = share.reshape(self.queries, self.teachers, self.classes)
        return by_teacher.sum(axis=1, dtype=FIELD.total_dtype)


SPACE = "verified/3/"
"""Of all that is hashed, derived and signed: 3 is the version of sessions, uploads and messages between aggregators."""
SEED_BYTES = 16
BLIND_BYTES = 16
DIGEST_BYTES = 32
NONCE_BYTES = 16


def place_bytes(place: int) -> bytes:
    """A party's place in the roster, 4 bytes, big-endian."""
    return place.to_bytes(4, "big")


def commit_leader(ctx: bytes, place: int, blind: bytes, share: bytes) -> bytes:
    """Commitment to the leader's share. blind: 16 random bytes, without which the helper could try out votes."""
    return digest(SPACE + "leader", ctx, place_bytes(place), blind, share)


def commit_helper(ctx: bytes, place: int, seed: bytes) -> bytes:
    """Commitment to the helper's share, by its seed."""
    return digest(SPACE + "helper", ctx, place_bytes(place), seed)


def commit_proof(ctx: bytes, place: int, blind: bytes, proof: bytes) -> bytes:
    """Commitment to the leader's share of the proof."""
    return digest(SPACE + "proof", ctx, place_bytes(place), blind, proof)


def commit_total(ctx: bytes, leads: bool, nonce: bytes, total: bytes) -> bytes:
    """Commitment to the total of one aggregator. nonce: 16 random bytes, without which a small total could be tried
    out."""
    return digest(SPACE + ("total-of-leader" if leads else "total-of-helper"), ctx, nonce, total)


def expand_seed(ctx: bytes, place: int, seed: bytes, purpose: str, count: int) -> np.ndarray:
    """Numbers below the prime (count,): the helper's share of the votes, or of the proof, by purpose."""
    return FIELD.elements(derive(seed, SPACE + purpose, ctx, place_bytes(place)), count)


@dataclass(frozen=True)
class Challenge:
    """Elements of the extension, reduced: r (classes, degree), u (points, degree) and y (lines, degree)."""

    r: np.ndarray = field(repr=False)
    u: np.ndarray = field(repr=False)
    y: np.ndarray = field(repr=False)


def challenge_of(grid: VoteGrid, ctx: bytes, place: int, to_leader: bytes, to_helper: bytes) -> Challenge:
    """The first challenge of an upload with these commitments."""
    sizes, degree = (grid.classes, grid.points, grid.lines), FIELD.degree
    key = derive(to_leader + to_helper, SPACE + "challenge", ctx, place_bytes(place))
    drawn = FIELD.reduce(from_wire(FIELD.elements(key, sum(sizes) * degree))).reshape(-1, degree)
    r, u, y = np.split(drawn, np.cumsum(sizes[:-1]))
    return Challenge(r, u, y)


def reading_point(secret: bytes, ctx: bytes) -> np.ndarray:
    """The second challenge, (degree,), reduced. secret: what only the two aggregators share.

    Never in the prime field: at one of the points of a line the polynomials are the votes themselves.
    """
    tried = 0
    while True:
        key = derive(secret, SPACE + "reading-point", ctx, tried.to_bytes(4, "big"))
        point = FIELD.reduce(from_wire(FIELD.elements(key, FIELD.degree)))
        if not is_base(point):
            return point
        tried += 1


CHECKS = 3
"""Elements that are opened beside the f_l(t): F(t), and two that are zero for votes."""


def proof_elements(grid: VoteGrid) -> int:
    """Numbers in a share of the proof: f_l(0) of each line, then the values of F."""
    return (grid.lines + grid.values) * FIELD.degree


def opening_elements(grid: VoteGrid) -> int:
    """Numbers in what an aggregator opens of one upload."""
    return (grid.lines + CHECKS) * FIELD.degree


def soundness_error(grid: VoteGrid, hashes: float) -> float:
    """Upper bound of the probability that an upload of false votes passes, after so many hashes by its maker.

    >>> soundness_error(VoteGrid(10_000, 10, 1), 2**60) < 2**-84
    True
    """
    return hashes * 5 / FIELD.order + 2 * grid.points / (FIELD.order - FIELD.prime)


class Prover:
    """Makes the proofs of votes of one size. Its memory is reused: to get it takes longer than the arithmetic."""

    def __init__(self, grid: VoteGrid) -> None:
        points, lines, degree = grid.points, grid.lines, FIELD.degree
        self._grid, self._continue = grid, FIELD.continuation(points)
        self._polynomials = np.empty((grid.values, lines, degree))
        self._products = np.empty((points, lines * degree))
        self._table = np.zeros((lines * grid.classes + 1, degree))
        self._where = np.empty((lines, points), dtype=np.int64)

    def __call__(self, picks: np.ndarray, challenge: Challenge, starts: np.ndarray) -> np.ndarray:
        """The values of F at 0 to 2 points, (values, degree), reduced.

        picks: the class of each row, (rows,). starts: f_l(0), random, reduced, (lines, degree).
        """
        grid, field, table, where = self._grid, FIELD, self._table, self._where
        points, lines, nothing = grid.points, grid.lines, grid.lines * grid.classes
        # y_l r_c, and zero where is no row
        table[:-1] = field.multiply_all(challenge.y, challenge.r).reshape(-1, field.degree)
        where.ravel()[: grid.rows] = picks
        where += np.arange(lines)[:, None] * grid.classes
        where[-1, grid.last_points :] = nothing
        values = self._polynomials
        values[0] = starts
        np.take(table, where.T, axis=0, out=values[1 : points + 1], mode="clip")
        np.matmul(self._continue, values[: points + 1].reshape(points + 1, -1), out=self._products)
        field.reduce(self._products, out=values[points + 1 :].reshape(points, -1))
        return field.square_sums(values)


class Opener:
    """What one aggregator opens of an upload. Made once for a session.

    grid: its sizes. where: the reading point, (degree,), reduced. leads: whether this aggregator is the one that
    subtracts constants.
    """

    def __init__(self, grid: VoteGrid, where: np.ndarray, leads: bool) -> None:
        self._grid, self._leads = grid, leads
        along = FIELD.lagrange_at(where, grid.points + 1)
        self._start, self._along = along[:1], np.ascontiguousarray(along[1:].T)  # (1, degree), (degree, points)
        self._values = FIELD.lagrange_at(where, grid.values)
        self._rows = np.zeros((grid.lines * grid.points, grid.classes))

    def __call__(self, share: np.ndarray, proof: np.ndarray, challenge: Challenge) -> np.ndarray:
        """Numbers below the prime (opening_elements,). share, proof: the same of the votes, (cells,), and of the proof,
        (proof_elements,)."""
        grid, field, r, u, y = self._grid, FIELD, challenge.r, challenge.u, challenge.y
        parts = field.reduce(from_wire(proof)).reshape(-1, field.degree)
        self._rows[: grid.rows] = share.reshape(grid.rows, grid.classes)
        by_line = self._rows.reshape(grid.lines, grid.points, grid.classes)
        squares = field.multiply(y, y)
        across = field.product(squares.T, by_line.reshape(grid.lines, -1))
        across = across.reshape(field.degree, grid.points, grid.classes)
        by_class = field.inner(u, across.transpose(1, 2, 0))  # sums of u_m y_l^2 x, (classes, degree)
        along = field.reduce(np.matmul(self._along, by_line))  # (lines, degree, classes)
        at_point = field.multiply(y, field.inner(r, along.transpose(2, 0, 1)))
        at_point += field.multiply(self._start, parts[: grid.lines])
        values = parts[grid.lines :]
        opened = np.empty((grid.lines + CHECKS, field.degree))
        opened[: grid.lines] = at_point
        opened[-3] = field.inner(self._values, values)
        opened[-2] = field.inner(u, values[1 : grid.points + 1]) - field.inner(field.multiply(r, r), by_class)
        opened[-1] = by_class.sum(axis=0) - (self._of_ones(squares, u) if self._leads else 0)
        return field.to_wire(opened).ravel()

    def _of_ones(self, squares: np.ndarray, u: np.ndarray) -> np.ndarray:
        """The sum of u_m y_l^2 over the rows that there are."""
        field = FIELD
        whole = field.multiply(field.reduce(squares[:-1].sum(axis=0)), field.reduce(u.sum(axis=0)))
        return whole + field.multiply(squares[-1], field.reduce(u[: self._grid.last_points].sum(axis=0)))


def holds(grid: VoteGrid, one: np.ndarray, other: np.ndarray) -> bool:
    """Whether the two openings, numbers below the prime (opening_elements,) each, are of votes."""
    opened = FIELD.reduce(from_wire(one) + other).reshape(-1, FIELD.degree)
    squares = FIELD.square_sums(opened[None, : grid.lines])[0]
    return not FIELD.reduce(squares - opened[-3]).any() and not opened[-2:].any()
