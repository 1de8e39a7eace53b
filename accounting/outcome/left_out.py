"""Bounds on the moves that are not evaluated: those that take a vote from, or give one to, a class with few votes.

With c active classes and the others outside, r_j = P'(j) / P(j) of a move from a to b is E[G_a G_b] over where the
winner j lies: G_a = F(y_a + 1)/F(y_a) >= 1 falls in y and G_b = F(y_b - 1)/F(y_b) <= 1 rises in y, as F is log-concave.
The class with most votes outside is called the edge. Everywhere G_a <= G_edge if a is outside, and G_b >= G_edge if b
is (the edge with the tie rule that changes more). Hence for j other than a and b

    E[G_b] <= r_j <= E[G_a],   with the edge in the place of a class outside,

and P f(log r_j) is at most the larger of its values at both ends, f being convex and least at r = 1. For the winners a
and b themselves r_a <= 1 <= r_b, and the other end is exact or has the edge in the place of the other class. The sum
over j of these bounds holds for every move of a family: from an active class outwards, from outside to an active class,
and from outside to outside.

Groups
------
Fewer outcomes, never a smaller divergence: classes with few votes are taken together. Outcomes j of a group with
probability P(J) and ratios r_j = P'(j)/P(j) are replaced by two, at the least and at the largest ratio, with the same
probability and the same mean ratio. Of all laws on an interval with a given mean the one on its ends has the largest
mean of any convex function, and every Renyi moment is the mean of one. Where all ratios of a group are equal (equal
counts and continuous noise) nothing is lost.

Groups go by rank of the counts and double in size, so that classes which can win stand alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from consilium.accounting.outcome import divergence
from consilium.accounting.outcome.winners import Removed, Winners, log1p_or, staying_below

_MOST = 700.0


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """Classes by count: the first ``alone`` of ``order`` stand alone, groups of the others start at ``starts``.

    order : int64 (queries, classes). log_p : float64 (queries, groups), log of each group's probability.
    share : float64 (queries, classes - alone), each class's part of its group's.
    """

    order: np.ndarray
    alone: int
    starts: np.ndarray
    log_p: np.ndarray
    share: np.ndarray

    def split(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Values (rows, classes) in the order of the counts: those alone, and the grouped."""
        return values[:, : self.alone], values[:, self.alone :]

    def least(self, grouped: np.ndarray) -> np.ndarray:
        return np.minimum.reduceat(grouped, self.starts, axis=-1)

    def largest(self, grouped: np.ndarray) -> np.ndarray:
        return np.maximum.reduceat(grouped, self.starts, axis=-1)


def groups(log_p: np.ndarray, gaps: np.ndarray, alone: int) -> Groups:
    """Groups of the classes beyond the first ``alone`` by count."""
    order = np.argsort(gaps, axis=1, kind="stable")
    rest = np.take_along_axis(log_p, order, axis=1)[:, alone:]
    starts = [0]
    while starts[-1] + 2 ** len(starts) < rest.shape[1]:
        starts.append(starts[-1] + 2 ** len(starts))
    total = np.logaddexp.reduceat(rest, starts, axis=1)
    sizes = np.diff([*starts, rest.shape[1]])
    return Groups(order, alone, np.array(starts), total, np.exp(rest - np.repeat(total, sizes, axis=1)))


def merged(found: Groups, query: np.ndarray, log_p: np.ndarray, change: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """log P and changes with groups in the place of classes: two float64 (rows, alone + 2 groups).

    query : int64 (rows,), the query of each row. log_p, change : float64 (rows, classes).
    """
    order = found.order[query]
    p_alone, _ = found.split(np.take_along_axis(log_p, order, axis=1))
    alone, grouped = found.split(np.take_along_axis(change, order, axis=1))
    low, high = found.least(grouped), found.largest(grouped)
    sizes = np.diff([*found.starts, grouped.shape[1]])
    # a difference that no double can hold makes the share of the upper end larger
    spread = np.expm1(np.minimum(high - low, _MOST))
    above = np.expm1(np.minimum(grouped - np.repeat(low, sizes, axis=1), _MOST)) * found.share[query]
    flat = spread == 0
    part = np.where(flat, 0.5, np.add.reduceat(above, found.starts, axis=1) / np.where(flat, 1.0, spread))
    upper = found.log_p[query] + np.log(np.clip(part, 1e-300, 1.0))
    lower = found.log_p[query] + np.log(np.clip(1 - part, 1e-16, 1.0))
    return np.hstack((p_alone, lower, upper)), np.hstack((alone, low, high))


@dataclass(frozen=True, slots=True, eq=False)
class Families:
    """Ends of log r for the 2 c + 1 families of moves, of classes alone and of groups. Secret.

    log_p, lower, upper : float64 (rows, outcomes), a row for each query and family; lower <= 0 <= upper hold for every
        outcome of every move, but for the class outside that loses or gains the vote.
    own : for losers and gainers, three float64 (rows, groups): log of the largest probability in a group, what happens
        to a class if it is the one, and the end that it is charged for in any case.
    """

    queries: int
    log_p: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    own: tuple[tuple[np.ndarray, np.ndarray, np.ndarray], ...]

    def moments(self, power: np.ndarray) -> np.ndarray:
        """log(1 + S) of the worst move of any family, at most: float64 (queries, powers)."""
        ends = (divergence.excess(self.log_p, end, power) for end in (self.lower, self.upper))
        with np.errstate(over="ignore"):
            total = np.maximum(*ends).sum(axis=1)
        for log_p, own, usual in self.own:
            alone = divergence.excess(log_p, own, power)
            finite = np.where(np.isfinite(alone), alone, 0.0)
            beyond = finite - np.minimum(divergence.excess(log_p, usual, power), finite)
            total += np.where(np.isfinite(alone), beyond, np.inf).max(axis=1)
        out = np.log1p(total * divergence.UP)
        row, column = np.nonzero(np.isinf(out))
        if row.size:
            w = power[column][:, None]
            terms = [self.log_p[row] + np.maximum(w * self.lower[row], w * self.upper[row])]
            terms += [log_p[row] + w * own[row] for log_p, own, _ in self.own]
            out[row, column] = divergence.log_sum(np.hstack(terms))
        return out.reshape(self.queries, -1, power.size).max(axis=1)


def _closed(log_p: np.ndarray, families: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Ends moved outward by their error; those of a likely outcome follow from all the others'.

    log_p : float64 (queries, classes). families : float64 (queries, families, classes) each.
    """
    likely = (log_p > divergence.LIKELY)[:, None]
    doubtful = np.minimum(log_p, divergence.LIKELY)[:, None]
    wide = {
        name: divergence.outward(doubtful, change, away)
        for (name, change), away in zip(families.items(), (-1.0, 1.0, None, None), strict=True)
    }

    def flow(end: str, own: str) -> np.ndarray:
        usual, special = (
            np.where(likely, 0.0, np.abs(divergence.mass_moved(doubtful, wide[name]))) for name in (end, own)
        )
        return (usual.sum(axis=2) + special.max(axis=2))[..., None]

    most = np.exp(log_p.max(axis=1))[:, None, None] / divergence.UP
    down, up = (flow(*pair) / most for pair in (("upper", "gainer"), ("lower", "loser")))
    small = likely & (np.maximum(down, up) < 0.5)
    wide["lower"] = np.where(small, np.log1p(-np.minimum(down, 0.5)), wide["lower"])
    wide["upper"] = np.where(small, np.log1p(np.minimum(up, 0.5)), wide["upper"])
    return wide


def _grouped(found: Groups, log_p: np.ndarray, ends: dict[str, np.ndarray]) -> Families:
    """The same bounds by group: the widest ends, and of the class that loses or gains the worst that can be."""
    queries, families, classes = ends["lower"].shape
    order = found.order[:, None]

    def split(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return found.split(np.take_along_axis(values, order, axis=2).reshape(-1, classes))

    def rows(values: np.ndarray) -> np.ndarray:
        return np.repeat(values, families, axis=0)

    lower, upper = split(ends["lower"]), split(ends["upper"])
    p_alone, p_grouped = found.split(np.take_along_axis(log_p, found.order, axis=1))
    most = rows(found.largest(p_grouped))
    return Families(
        queries,
        rows(np.hstack((p_alone, found.log_p))),
        np.hstack((lower[0], found.least(lower[1]))),
        np.hstack((upper[0], found.largest(upper[1]))),
        (
            (most, found.least(split(ends["loser"])[1]), found.largest(lower[1])),
            (most, found.largest(split(ends["gainer"])[1]), found.least(upper[1])),
        ),
    )


def families(state: Winners, removed: Removed, found: Groups) -> Families:
    """All families of moves that touch a class outside the active ones, which are those alone in ``found``."""
    tables, at, active = state.tables, state.at, state.active
    queries, classes = state.votes.shape
    c = active.shape[1]
    inside = np.zeros((queries, classes), dtype=bool)
    np.put_along_axis(inside, active, True, axis=1)
    edge = np.where(inside, np.iinfo(np.int64).max, state.gaps).min(axis=1) - tables.strict
    losing, gaining, kept = (state.window(t, edge) for t in (tables.losing, tables.gaining, tables.kept))

    def edge_gains(law: str, where: np.ndarray) -> np.ndarray:
        small = np.einsum(law, where, gaining)
        return log1p_or(small, np.einsum(law, where, kept) if small.min(initial=0.0) < -0.5 else small)

    # one vote less for the winner itself, and where it then lies
    own_losing = state.window(tables.own_losing, state.gaps)
    change = np.einsum("qmk,qmk->qm", at, own_losing - 1)
    own_losing *= at
    whole = own_losing.sum(axis=2)
    own_losing /= whole[..., None]
    own_change = log1p_or(change, whole)
    own_gaining = state.window(tables.own_gaining, state.gaps)

    edge_lost = np.log1p(np.einsum("qmk,qk->qm", at, losing))
    edge_gained = edge_gains("qmk,qk->qm", at)
    gained = staying_below(state, np.stack((at, own_losing), axis=1))
    # E[(1 + own_gaining) (1 + losing)] - 1 at each winner
    both = np.einsum("qmk,qmk->qm", at, own_gaining * (1 + losing[:, None]) + losing[:, None])
    both = np.maximum(both, 0.0)
    rows, q = np.arange(c), np.arange(queries)[:, None]
    shape = (queries, 2 * c + 1, classes)
    lower, upper, loser, gainer = (np.zeros(shape) for _ in range(4))
    outside = np.logical_not(inside)
    voted = np.logical_and(outside, state.votes > 0)

    # active -> outside
    lower[:, :c], upper[:, :c] = edge_gained[:, None], removed.change
    lower[q, rows, active] = np.take_along_axis(own_change, active, axis=1) + edge_gains(
        "qck,qk->qc", removed.at[q, rows, active]
    )
    upper[q, rows, active] = 0.0
    gains = np.log1p(np.maximum(np.einsum("qamk,qmk->qam", removed.at, own_gaining), 0.0))
    gainer[:, :c] = np.where(outside[:, None], removed.change + gains, 0.0)
    # outside -> active
    lower[:, c:-1], upper[:, c:-1] = gained[:, 0], edge_lost[:, None]
    lower[q, c + rows, active] = 0.0
    upper[q, c + rows, active] = np.log1p(np.take_along_axis(both, active, axis=1))
    loser[:, c:-1] = np.where(voted[:, None], own_change[:, None] + gained[:, 1], 0.0)
    # outside -> outside
    lower[:, -1], upper[:, -1] = edge_gained, edge_lost
    gainer[:, -1] = np.where(outside, np.log1p(both), 0.0)
    loser[:, -1] = np.where(voted, own_change + edge_gains("qmk,qk->qm", own_losing), 0.0)

    possible = np.concatenate(
        (state.of_active(state.votes) > 0, np.repeat(voted.max(axis=1, keepdims=True), c + 1, axis=1)), axis=1
    )[..., None]
    ends = {"lower": lower, "upper": upper, "loser": loser, "gainer": gainer}
    ends = {name: np.where(possible, values, 0.0) for name, values in ends.items()}
    return _grouped(found, state.log_p, _closed(state.log_p, ends))
