"""The proof that every row of a party's votes is one vote, and how two holders of shares of it check it.

A row x of the votes has under the challenge r the value z = <r, x>. z^2 = <r o r, x> holds for all r if and only if x
is zero or a unit vector (Boneh, Boyle, Corrigan-Gibbs, Gilboa and Ishai 2021, section 4), and x sums to 1 besides. All
rows are checked together, row (point m, line l) with weight u_m y_l^2. The squares are what shares cannot be put to by
themselves: along line l runs f_l, of degree `points`, with f_l(m) = y_l z and a random f_l(0). The party gives shares
of the values of F = sum over l of f_l^2, which is of degree 2 points, and the aggregators check it at a place t that
the party does not know (fully linear proofs: Boneh, Boyle, Corrigan-Gibbs, Gilboa and Ishai 2019):

    F(t) = sum of f_l(t)^2,    sum of u_m F(m) = sum of u_m y_l^2 <r o r, x>,    sum of u_m y_l^2 (sum of x - 1) = 0.

Sound: under a challenge (r, u, y), drawn by a hash, false votes leave a polynomial in it of degree 5 at most that is
not zero; it has its root there for at most 5 / q of all challenges, q elements of the extension. An F that is not the
sum of squares passes for at most 2 points / (q - p) of all t. Each hash that a party tries out is one challenge: after
2^60 of them it passes with probability 2^-84.

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
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from consilium.protocol.identity import derive, digest
from consilium.sums.verified.field import (
    DEGREE,
    DTYPE,
    TOTAL_DTYPE,
    continuation,
    elements,
    inner,
    lagrange_at,
    multiply,
    product,
    reduced,
    square_sums,
    to_wire,
)

MOST_ROWS = 2**24
"""Queries times teachers: a grid of 2,048 points and 8,192 lines, as many as the field adds up without a reduction."""


@dataclass(frozen=True)
class VoteGrid:
    """Sizes of all that is sent and computed in a session of `queries` x `classes` votes by `teachers` of a party.

    rows: queries times teachers; those of a query stand together. cells: elements of one share of the votes. points:
    rows on a line; the last of the `lines` may be filled up with zeros. values: elements of the extension that F is
    given by, at 0 to 2 points. proof: numbers in a share of the proof: f_l(0) of each line, then F. opening: numbers
    in what an aggregator opens of one upload: f_l(t), F(t), and two elements that are zero for votes.

    >>> VoteGrid(10_000, 10, 1).points, VoteGrid(10_000, 10, 1).lines
    (50, 200)
    """

    queries: int
    classes: int
    teachers: int

    @property
    def rows(self) -> int:
        return self.queries * self.teachers

    @property
    def cells(self) -> int:
        return self.rows * self.classes

    @cached_property
    def points(self) -> int:
        return math.ceil(math.sqrt(self.rows) / 2)

    @cached_property
    def lines(self) -> int:
        return math.ceil(self.rows / self.points)

    @property
    def values(self) -> int:
        return 2 * self.points + 1

    @property
    def proof(self) -> int:
        return (self.lines + self.values) * DEGREE

    @property
    def opening(self) -> int:
        return (self.lines + 3) * DEGREE

    def picks(self, votes: np.ndarray) -> np.ndarray:
        """Integers (queries, classes), as many in each row as there are teachers, unchecked -> the class of each row.

        >>> VoteGrid(2, 3, 2).picks(np.array([[1, 0, 1], [0, 2, 0]])).tolist()
        [0, 2, 1, 1]
        """
        return np.repeat(np.tile(np.arange(self.classes), len(votes)), votes.ravel())

    def summed(self, shares: np.ndarray) -> np.ndarray:
        """Shares of n parties' votes (n, cells) -> their sum, `TOTAL_DTYPE` (queries, classes)."""
        total = shares.sum(axis=0, dtype=TOTAL_DTYPE)
        return total.reshape(self.queries, self.teachers, self.classes).sum(axis=1)


SPACE = "verified/4/"
"""Of all that is hashed, derived and signed: 4 is the version of sessions, uploads and messages between aggregators."""
SEED_BYTES = BLIND_BYTES = NONCE_BYTES = 16
DIGEST_BYTES = 32


def commitment(to: str, ctx: bytes, place: int, *content: bytes) -> bytes:
    """Of a party, to the share of its votes that the "leader" has, to that of the "helper", and to the leader's of the
    "proof". content: of the helper's its seed; else the share after 16 random bytes, without which votes could be tried
    out."""
    return digest(SPACE + to, ctx, place.to_bytes(4, "big"), *content)


def commit_total(ctx: bytes, leads: bool, nonce: bytes, total: bytes) -> bytes:
    """Of one aggregator, to its total. nonce: 16 random bytes, without which a small total could be tried out."""
    return digest(SPACE + ("total-of-leader" if leads else "total-of-helper"), ctx, nonce, total)


def seed_key(ctx: bytes, place: int, seed: bytes, purpose: str) -> bytes:
    """From which the helper's share of the "votes", or of the "proof", is drawn (`field.elements`)."""
    return derive(seed, SPACE + purpose, ctx, place.to_bytes(4, "big"))


class Challenge(NamedTuple):
    """Of n uploads, elements of the extension, reduced: r (n, classes, DEGREE), u (n, points, DEGREE) and y (n, lines,
    DEGREE)."""

    r: np.ndarray
    u: np.ndarray
    y: np.ndarray


def challenge_key(ctx: bytes, place: int, to_leader: bytes, to_helper: bytes) -> bytes:
    """From which the first challenge of an upload with these commitments is drawn."""
    return derive(to_leader + to_helper, SPACE + "challenge", ctx, place.to_bytes(4, "big"))


def challenges(grid: VoteGrid, keys: Sequence[bytes]) -> Challenge:
    """The first challenges of uploads, by their `challenge_key`."""
    sizes = grid.classes, grid.points, grid.lines
    drawn = reduced(elements(keys, sum(sizes) * DEGREE)).reshape(len(keys), -1, DEGREE)
    return Challenge(*np.split(drawn, np.cumsum(sizes[:-1]), axis=1))


def reading_point(secret: bytes, ctx: bytes) -> np.ndarray:
    """The second challenge, (DEGREE,), reduced. secret: what only the two aggregators share. Never in the prime field:
    at one of the points of a line the polynomials are the votes themselves."""
    tried = 0
    while True:
        key = derive(secret, SPACE + "reading-point", ctx, tried.to_bytes(4, "big"))
        point = reduced(elements([key], DEGREE)[0])
        if point[1:].any():
            return point
        tried += 1


def prove(grid: VoteGrid, picks: np.ndarray, challenge: Challenge, starts: np.ndarray) -> np.ndarray:
    """The values of F at 0 to 2 points, (values, DEGREE), reduced. picks: the class of each row. challenge: of this one
    upload. starts: f_l(0), random, reduced, (lines, DEGREE)."""
    points, lines, nothing = grid.points, grid.lines, grid.lines * grid.classes
    table = np.zeros((nothing + 1, DEGREE))  # y_l r_c, and zero where is no row
    table[:-1] = multiply(challenge.y[0][:, None], challenge.r[0]).reshape(-1, DEGREE)
    where = np.full(lines * points, nothing)
    where[: grid.rows] = picks + np.arange(grid.rows) // points * grid.classes
    known = np.concatenate((starts[None], table[where.reshape(lines, points).T]))
    more = reduced(continuation(points) @ known.reshape(points + 1, -1)).reshape(points, lines, DEGREE)
    return square_sums(np.concatenate((known, more)))


AT_ONCE = 2**18
"""Cells of uploads that are opened together: what they take fits into a processor's cache."""


class Opener:
    """What one aggregator opens of uploads. where: the reading point, (DEGREE,), reduced. leads: whether this one
    subtracts constants."""

    def __init__(self, grid: VoteGrid, where: np.ndarray, leads: bool) -> None:
        self._grid, self._leads = grid, leads
        along = lagrange_at(where, grid.points + 1)
        self._start, self._along = along[0], along[1:]
        self._values = lagrange_at(where, grid.values)

    def __call__(self, shares: np.ndarray, proofs: np.ndarray, keys: Sequence[bytes]) -> np.ndarray:
        """Numbers below the prime (n, opening). shares, proofs: of n uploads, (n, cells) and (n, proof). keys: of their
        challenges."""
        opened, size = np.empty((len(keys), self._grid.opening), dtype=DTYPE), AT_ONCE // self._grid.cells + 1
        for start in range(0, len(keys), size):
            part = slice(start, start + size)
            opened[part] = self._open(shares[part], proofs[part], challenges(self._grid, keys[part]))
        return opened

    def _open(self, shares: np.ndarray, proofs: np.ndarray, challenge: Challenge) -> np.ndarray:
        grid, n, r, u, y = self._grid, len(shares), challenge.r, challenge.u, challenge.y
        parts = reduced(proofs).reshape(n, -1, DEGREE)
        starts, values = parts[:, : grid.lines], parts[:, grid.lines :]
        rows = np.zeros((n, grid.lines * grid.points, grid.classes))
        rows[:, : grid.rows] = shares.reshape(n, grid.rows, grid.classes)
        by_line = np.ascontiguousarray(rows.reshape(n, grid.lines, grid.points, grid.classes).swapaxes(2, 3))
        squares = multiply(y, y)
        across = product(squares.swapaxes(1, 2), by_line.reshape(n, grid.lines, -1))
        across = across.reshape(n, DEGREE, grid.classes, grid.points).transpose(0, 3, 2, 1)
        by_class = inner(u, across)  # sums of u_m y_l^2 x, (n, classes, DEGREE)
        along = reduced(by_line.reshape(-1, grid.points) @ self._along)
        along = along.reshape(n, grid.lines, grid.classes, DEGREE).swapaxes(1, 2)
        opened = np.empty((n, grid.lines + 3, DEGREE))
        opened[:, : grid.lines] = multiply(y, inner(r, along)) + multiply(self._start, starts)
        opened[:, -3] = inner(self._values, values[:, :, None])[:, 0]
        of_squares = inner(multiply(r, r), by_class[:, :, None])
        opened[:, -2] = (inner(u, values[:, 1 : grid.points + 1, None]) - of_squares)[:, 0]
        opened[:, -1] = by_class.sum(axis=1) - (self._of_ones(squares, u) if self._leads else 0)
        return to_wire(opened).reshape(n, -1)

    def _of_ones(self, squares: np.ndarray, u: np.ndarray) -> np.ndarray:
        """The sum of u_m y_l^2 over the rows that there are, (n, DEGREE)."""
        grid = self._grid
        on_last = u[:, : grid.rows - (grid.lines - 1) * grid.points]
        whole = multiply(reduced(squares[:, :-1].sum(axis=1)), reduced(u.sum(axis=1)))
        return whole + multiply(squares[:, -1], reduced(on_last.sum(axis=1)))


def hold(grid: VoteGrid, one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Whether openings of n uploads, numbers below the prime (n, opening) each, are of votes: bool (n,)."""
    opened = reduced(one.astype(np.float64) + other).reshape(len(one), -1, DEGREE)
    squares = square_sums(opened[:, : grid.lines])
    return np.asarray(~reduced(squares - opened[:, -3]).any(axis=1) & ~opened[:, -2:].any(axis=(1, 2)))
