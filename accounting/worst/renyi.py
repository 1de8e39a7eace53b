"""What one released winner, or one threshold check, costs in the worst case over all votes: Renyi curves.

The histogram from which a winner is drawn costs alpha / sigma^2; the winner alone about .64 of that for much noise and
low orders, all of it for little noise or high orders. Of a check the noisy number costs alpha k^2 / (2 sigma^2), its
bit about .64 of that. It holds towards whoever sees winners and bits only. Every step is rounded up. Statement and
proof: docs/proofs.md, "The worst case of what leaves".
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from consilium.accounting.checks import check_noise, check_orders, check_scale, check_votes_moved
from consilium.accounting.units import Noise
from consilium.accounting.worst import channel

Value = Callable[[np.ndarray, np.ndarray], np.ndarray]

_ROUNDING = 1e-9
_AT_ONCE = 20_000
"""Values that are computed without a choice: fewer take longer to choose from than to compute."""
_KNOTS = 65
FINE = 36.0
"""Parameter of the lattice of two counts: a plane of half a million places, and .2 % more than with no spacing."""
MOST_TILT = 6.0
"""Largest (alpha - 1) h that is computed. A conversion has its optimum below 6 for any delta above 1e-9."""
LEAST_SHIFT, MOST_SHIFT = 1e-5, 4.0
"""h = votes / sigma outside this range is not computed: below it rounding would show, above it little is gained."""
MARGIN = 1e-6
"""Relative, upward. Sums of 2,000 positive terms are wrong by 2e-13 at most, log ratios by twice that, and they are as
small as h: 8e-8 of a moment at the least h."""
MOST_NOISE = (1 - 1e-5) / LEAST_SHIFT
"""Noise, in votes of a move, beyond which the curve of this much is charged, where that is less than the histogram."""
_RISE = 0.004
"""Where integer noise is first brought to a lattice, the curve rises by less; at coarser ones in proportion."""
FINE_LINE = 2000.0
"""Parameter of the lattice of one count: a line is so much shorter than a plane that nothing visible is lost."""
MOST_LINE_TILT = 9.0


def _hopeless(low: np.ndarray, high: np.ndarray, weights: np.ndarray, reached: np.ndarray) -> np.ndarray:
    """Places whose chord (1 - w) low + w high is below ``reached`` at every weight w: bool (places,). It is if high <
    min over w of (reached - (1 - w) low) / w, a concave function of low: between two knots it is at least its own
    chord."""
    knots = np.linspace(low.min(), low.max(), _KNOTS)
    limits = ((reached - np.outer(knots, 1 - weights)) / weights).min(axis=1)
    return high < np.interp(low, knots, limits)


def envelope(
    value: Value, places: np.ndarray, arguments: np.ndarray, floor: np.ndarray | float = -np.inf
) -> np.ndarray:
    """max over places of value(x, place) at each argument x: float64 (arguments,).

    value : at some arguments and places, float64 (arguments, places); of each place convex in the argument.
    places : float64 (facts, places): what ``value`` needs to know of each place.
    arguments : float64, increasing.
    floor : float64 (arguments,), what other places reach. Where these here do not, the result may be below theirs.

    Between two arguments a convex function is at most its chord: only those places are evaluated there whose chord
    reaches a value that was found.
    """
    best, floor = np.full(arguments.size, -np.inf), np.broadcast_to(floor, arguments.shape)

    def between(low: int, high: int, at_low: np.ndarray, at_high: np.ndarray, places: np.ndarray) -> None:
        inner = arguments[low + 1 : high]
        if inner.size == 0 or at_low.size == 0:
            return
        if inner.size * at_low.size <= _AT_ONCE:
            best[low + 1 : high] = value(inner, places).max(axis=1)
            return
        weights = (inner - arguments[low]) / (arguments[high] - arguments[low])
        reached = value(inner, places[:, [at_low.argmax(), at_high.argmax()]]).max(axis=1)
        reached = np.maximum(reached, floor[low + 1 : high])
        keep = ~_hopeless(at_low, at_high, weights, reached - _ROUNDING * np.abs(reached))
        at_low, at_high, places = at_low[keep], at_high[keep], places[:, keep]
        if not keep.any():
            return
        middle = (low + high) // 2
        weight = weights[middle - low - 1]
        at_middle = (1 - weight) * at_low + weight * at_high
        here = arguments[[middle]]
        known = max(float(value(here, places[:, [at_middle.argmax()]])[0, 0]), floor[middle])
        candidates = np.flatnonzero(at_middle >= known - _ROUNDING * abs(known))
        if candidates.size:
            at_middle[candidates] = value(here, places[:, candidates])[0]
            best[middle] = at_middle[candidates].max()
        between(low, middle, at_low, at_middle, places)
        between(middle, high, at_middle, at_high, places)

    first, last = (value(arguments[[end]], places)[0] for end in (0, -1))
    best[0], best[-1] = first.max(), last.max()
    between(0, arguments.size - 1, first, last, places)
    return best


def _log_moment(alpha: np.ndarray, facts: np.ndarray) -> np.ndarray:
    """log sum_j p_j^alpha q_j^(1 - alpha): float64 (orders, places). The sum is formed without its 1, so that a moment
    far below the spacing of doubles at 1 is not lost, and without the first order in q - p, which is 0 in truth."""
    outcomes, alpha = facts.shape[0] // 2, alpha[:, None]
    total = (alpha - 1) * facts[-1]
    for p, log_ratio in zip(facts[:outcomes], facts[outcomes:-1], strict=True):
        total += p * np.expm1((1 - alpha) * log_ratio)
    return np.log1p(np.maximum(total, 0.0))


def largest(pairs: channel.Pairs, orders: np.ndarray, floor: np.ndarray | float = -np.inf) -> np.ndarray:
    """max over places of (alpha - 1) D_alpha(p || q), and at least ``floor``: float64 (orders,)."""
    if not pairs.p.shape[1]:
        return np.maximum(floor, np.full(orders.size, -np.inf))
    # for each place probabilities, log ratios, and what rounding left of their sums
    facts = np.concatenate((pairs.p, pairs.log_ratio(), (pairs.q - pairs.p).sum(axis=0, keepdims=True)))
    return np.maximum(floor, envelope(_log_moment, facts, orders, floor))


def with_rare(log_moment: np.ndarray | float, rare: float, exponent: np.ndarray, orders: np.ndarray) -> np.ndarray:
    """(alpha - 1) D_alpha where an outcome of probability at most ``rare`` is set beside a simpler channel of moment S:
    (1 - rare)^(1 - alpha) S + e^exponent rare. By Jensen's inequality the outcome adds at most e^exponent times its
    probability under the tilted input, and takes a factor of at least 1 - rare from the others."""
    return np.logaddexp(log_moment + (1 - orders) * np.log1p(-rare), exponent + np.log(rare))


def rare_enough(shift: float) -> float:
    """Noise parameters beyond which outcomes are rarer than a ten millionth of the least moment, which is about h^2."""
    from scipy.special import ndtri  # as in `gdp`

    return float(-ndtri(1e-7 * min(shift, 1.0) ** 2))


def falling(
    curve: Callable[[float, tuple[float, ...], Noise, int], np.ndarray],
    sigma: float,
    orders: np.ndarray,
    noise: Noise,
    votes: int,
    fine: float,
) -> np.ndarray:
    """``curve``, at ``orders`` in any sequence, made to fall with the noise: float64 (orders,). Much noise is charged
    as less, of which it is a mixture (docs/proofs.md, step 4 of the worst case of what leaves). Just below the noise
    at which a coarser lattice is taken, what is charged there is charged already."""
    distinct, where = np.unique(orders, return_inverse=True)
    alpha, at = tuple(distinct.tolist()), min(sigma, MOST_NOISE * votes)
    found, change = curve(at, alpha, noise, votes), channel.coarser(at, fine)
    near = at * (1 + _RISE * channel.coarser(0.0, fine) / at) >= change
    if noise is Noise.DISCRETE and near and change < MOST_NOISE * votes:
        found = np.maximum(found, curve(change * (1 + 1e-12), alpha, noise, votes))
    if sigma >= MOST_NOISE * votes * (1 - 1e-5):  # from a little below, so that it does not rise there
        found = found + 4 * channel.SLACK * (2 * distinct - 1) / (distinct - 1)
    return found[where]


@lru_cache(maxsize=256)
def _one_move(sigma: float, orders: tuple[float, ...], noise: Noise, votes: int) -> np.ndarray:
    """Curve of one move of so many ``votes``; ``orders`` are increasing."""
    alpha = np.array(orders)
    h = votes / sigma
    curve = alpha * h**2
    near = alpha[(alpha - 1) * h <= MOST_TILT]
    if near.size == 0 or not LEAST_SHIFT <= h <= MOST_SHIFT or (noise is Noise.DISCRETE and sigma < 0.5):
        return curve
    lattice = channel.reduce(sigma, noise, votes, FINE)
    # the mixture has taken a little of the noise, so the shift weighs a little more
    step = lattice.shift / lattice.scale
    reach = channel.Reach(rare_enough(h), float(near[-1] - 1) * step)
    whole, half = near * (near - 1) * step**2, near * (near - 1) * step**2 / 2
    rare = channel.check_tail(lattice, reach)
    check = np.maximum(largest(channel.check_line(lattice, reach), near), with_rare(0.0, rare, half, near))
    rare_duel = channel.duel_tail(lattice, reach)
    duel = np.maximum(largest(channel.duel_line(lattice, reach), near), with_rare(0.0, rare_duel, whole, near))
    log_moment = np.maximum(
        with_rare(check, rare, whole, near), with_rare(duel, channel.third_tail(lattice, reach), whole, near)
    )
    within = -reach.far * lattice.scale - lattice.shift
    for u, v, plane in channel.planes(lattice, reach):
        log_moment = largest(plane.of(v >= within), near, log_moment)
        log_moment = largest(plane.turned().of(u >= within), near, log_moment)
    log_moment += 2 * lattice.slack * (2 * near - 1)
    curve[: near.size] = np.minimum(curve[: near.size], log_moment * (1 + MARGIN) / (near - 1))
    curve.setflags(write=False)
    return curve


def along_moves(curve: Callable[[np.ndarray], np.ndarray], alpha: np.ndarray, moves: int) -> np.ndarray:
    """Curve of several moves, which are as many neighbours in a row, from that of one: float64 (orders,). ``curve``
    takes orders in any sequence.

    D_alpha <= k alpha sum_{i < k} D^1_(k alpha - i) / (k alpha - i), by the weak triangle inequality (Mironov, arXiv
    1702.07476, Proposition 11), at the exponents at which it is exact for a curve that is linear in the order.
    """
    k, size, ends = moves, alpha.size, curve(np.concatenate((moves * alpha - (moves - 1), moves * alpha)))
    least, most = k * alpha - (k - 1), k * alpha
    at_least, at_most = (least - 1) * ends[:size], (most - 1) * ends[size:]
    total = np.zeros_like(at_most)
    for i in range(k):
        # (order - 1) D is convex in the order: between the two that are computed a chord is above it
        order = most - i
        total += ((i * at_least + (k - 1 - i) * at_most) / (k - 1)) / ((order - 1) * order)
    return most * total


def rdp_argmax(sigma: float, orders: object, noise: Noise | str, votes_moved: int = 1) -> np.ndarray:
    """Worst-case curve of one released winner, data-independent: float64 (orders,).

    sigma : standard deviation of the Gaussian noise on one count, in votes (discrete: its parameter).
    noise : "discrete" or "continuous". Ties of integer noise may be broken by any order of the classes.
    votes_moved : moves of one unit in one query, each from any class to any class. k moves are k neighbours in a row
        and cost k^2 times as much, as of the histogram.

    Raises NoiseError, OrdersError, UnitError.

    >>> (rdp_argmax(40.0, [2.0, 10.0], "discrete") * 40**2 / np.array([2.0, 10.0])).round(3).tolist()
    [0.64, 0.641]
    """
    alpha, sigma, noise = check_orders(orders), check_scale(sigma, "sigma"), check_noise(noise)
    k = check_votes_moved(votes_moved)

    def one_move(orders: np.ndarray) -> np.ndarray:
        return np.minimum(falling(_one_move, sigma, orders, noise, 1, FINE), orders / sigma**2)

    return one_move(alpha) if k == 1 else np.minimum(along_moves(one_move, alpha, k), alpha * (k / sigma) ** 2)


@lru_cache(maxsize=256)
def _bit(sigma: float, orders: tuple[float, ...], noise: Noise, votes: int) -> np.ndarray:
    alpha = np.array(orders)
    h = votes / sigma
    curve = alpha * h**2 / 2
    near = alpha[(alpha - 1) * h <= MOST_LINE_TILT]
    if near.size == 0 or not LEAST_SHIFT <= h <= MOST_SHIFT or (noise is Noise.DISCRETE and sigma < 0.5):
        return curve
    lattice = channel.reduce(sigma, noise, votes, FINE_LINE)
    step = lattice.shift / lattice.scale
    reach = channel.Reach(rare_enough(h), float(near[-1] - 1) * step)
    half = near * (near - 1) * step**2 / 2
    log_moment = np.maximum(
        largest(channel.check_line(lattice, reach), near),
        with_rare(0.0, channel.check_tail(lattice, reach), half, near),
    )
    log_moment += lattice.slack * (2 * near - 1)
    curve[: near.size] = np.minimum(curve[: near.size], log_moment * (1 + MARGIN) / (near - 1))
    return curve


def rdp_check(sigma: float, orders: object, noise: Noise | str, votes_moved: int = 1) -> np.ndarray:
    """Worst-case curve of one released bit "is the noisy number at least the threshold": float64 (orders,).

    sigma : noise on the number that is compared, in votes.
    votes_moved : by how much the number moves at most, which covers a number that moves by less.

    Raises NoiseError, OrdersError, UnitError.

    >>> (rdp_check(150.0, [2.0, 10.0], "discrete") * 2 * 150**2 / np.array([2.0, 10.0])).round(4).tolist()
    [0.6366, 0.6367]
    """
    alpha, sigma, noise = check_orders(orders), check_scale(sigma, "sigma"), check_noise(noise)
    votes = check_votes_moved(votes_moved)
    return np.minimum(falling(_bit, sigma, alpha, noise, votes, FINE_LINE), alpha * (votes / sigma) ** 2 / 2)
