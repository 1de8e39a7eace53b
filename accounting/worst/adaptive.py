"""Composition of winners, checks and histograms against an adversary that chooses each release in view of the others.

V_n(gamma) = max over places of sum_j p_j V_(n-1)(gamma q_j / p_j), with V_0(gamma) = max(0, 1 - gamma): the largest
hockey-stick divergence to which n releases can be brought, on a grid of log gamma, rounded up at every step. Places are
those of ``worst.channel`` and ``worst.laplace``. A block of releases without choice, at least as bad as every place in
front of V_m, stands for the next few after m. Beside an imagined release such ones stand for releases of other kinds,
which may come in any order. Proof: docs/proofs.md, "The worst case of what leaves".
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.special import ndtr, ndtri

from consilium.accounting.checks import check_delta
from consilium.accounting.curves.discrete import NO_SLACK
from consilium.accounting.curves.gdp import Composed, epsilon_of
from consilium.accounting.units import Noise
from consilium.accounting.worst import channel, laplace

TAU = 1.0
"""Standard deviation, in spacings, of the weights by which a real centre is a mixture of whole ones. Smaller than in
``channel``: what it leaves out, 1.5e-8 for each count, is charged as rounding is."""
FINE, FINE_LINE = 13.0, 40.0
"""Parameter of the lattice of two counts, and of one: .3 % and .03 % of the distance are lost."""
STEP = 0.08
"""Spacing of log gamma in units of the distance of one release. Chords between them cost .13 % of epsilon."""
MOST_RELEASES = 2000
"""That are induced over: beyond it what is imagined instead costs little."""
GROWTH = 0.03
"""Releases of a block, as a part of those behind it, for one release in all; for n of them sqrt(n) times that, which
costs less than .1 % of epsilon."""
_ROUNDING = 2e-13
"""Relative rounding of the sums of positive terms that probabilities are."""
_DOT = 1 + 1e-13
"""For the rounding of a sum of a few hundred positive terms."""
_LEAST = 1e-250
"""What is below it is taken to be it, so that ratios stay numbers."""


_MOST_NOISE = 1e5
_PLACES = 512
"""Whose profiles are computed at once."""
_CORE = (2.5, -0.3, 1.7)
"""Largest lead, least and largest mean height of the two counts, in noise parameters, within which every place is an
element by itself. Outside they tell too little for cells to matter."""
_RARE_LEAD = 1e-7
"""How rare all outcomes but one are where leads under Laplace noise are no longer tried."""
_CELL = 1.0
"""Ends of the intervals of ``laplace.plane``, as a logarithm; a quarter of it changes nothing in five digits."""
_MILD = 1e-11
"""Relative rounding of the closed forms of ``laplace``, which cancel mildly."""
_MANY_LEADS = 2.0
"""Lead, in scales of the noise, up to which each is an element by itself, or a twentieth of the scale."""
_PARTS = (0.5, 0.8, 0.93, 1.0)
_AT_ONCE = 64
_SHAPES = (
    (2.0, 0.0),
    *itertools.product((2.0, 4.0, 9.0), (0.1, 0.03, 0.01, 3e-3, 1e-3, 3e-4, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)),
)
"""Of releases without choice: squared distance of the rarer one in units of the number's, and how rare it is."""
_NARROW, _WIDE, _KNOTS = 0.3, 1.1, 9
"""Least and most of the squared distance of the other one, in the same units, and how many are looked at first."""
_DEVIATIONS = 10.0
"""Beyond which so many releases without choice hardly reach."""
_COARSE = 25.0
"""Standard deviation, in spacings, from which on the grid of many releases is made twice as coarse."""
_DISTANCES = (1.0, 2.0, 4.0)
"""Of the imagined release, in units of what is a guess at the best, until one is found."""
_FAR = 9.0
"""Standard deviations of it that are looked at."""
_MOST_FAR = 10.0
"""Noise parameters within which places are tried: beyond, they would take more than a second and 100 MB."""
_MOST_TIMES = 10**8
"""Releases without choice: of more the rounding of each would show."""
_MOST_EPSILON = 300.0
_COARSELY, _FINELY = 0.05, 500
"""Steps of log x, and into how many of them each is divided where more may be reached."""
_FINENESS = {"argmax": FINE, "check": FINE_LINE, "histogram": FINE_LINE}
_WINDOW = 0.006
"""Share by which noise may be below that from which a coarser lattice is taken, where .4 % more is lost."""
_DIGITS = 7
_MOST_KINDS = 6
"""Releases of one federation are of two kinds; each takes up to half a second."""
_LEAST_SHIFT = {"laplace": 1e-3}
_MOST_SHIFT = {"laplace": 4.0}


def reduce(sigma: float, noise: Noise, fine: float) -> channel.Lattice:
    """The lattice for noise ``sigma`` on a count that moves by one vote; as ``channel.reduce``, with this ``TAU``."""

    def slack(scale: float) -> float:
        return 5 * math.exp(-2 * (math.pi * TAU) ** 2 * (1 - (TAU / scale) ** 2))

    if noise is Noise.CONTINUOUS:
        return channel.Lattice(math.sqrt(fine**2 - TAU**2), fine / sigma, slack(fine))
    if sigma < 2 * fine:
        return channel.Lattice(sigma, 1, 0.0)
    spacing = int(sigma / fine)
    scale = sigma / spacing
    return channel.Lattice(math.sqrt(scale**2 - TAU**2), 1 / spacing, slack(scale))


def excess(pairs: channel.Pairs, gammas: np.ndarray, slack: float = 0.0) -> np.ndarray:
    """By how much the profile of each place is above max(0, 1 - gamma): float64 (places, gammas), rounded up. slack:
    |log| of the ratio of a probability to what stands in ``pairs``, at most."""
    most = gammas.size // 2
    down, up = gammas[:most], gammas[most:]
    low, high = 1 - _ROUNDING - slack, 1 + _ROUNDING + 1.01 * slack
    above, below = np.zeros((pairs.p.shape[1], up.size)), np.zeros((pairs.p.shape[1], down.size))
    for p, q in zip(pairs.p[:, :, None], pairs.q[:, :, None], strict=True):
        for total, more, less in ((above, p * high, q * (low * up)), (below, q * (high * down), p * low)):
            part = more - less
            total += np.maximum(part, 0.0, out=part)
    return np.concatenate((below, above), axis=1)


def steps_of(profile: np.ndarray, step: float) -> np.ndarray:
    """The release with ratios q / p on the grid that has this profile: float64 (gammas + 2,); entry k is the
    probability of q / p = e^(step (k - middle)). But for the bend at 1 a profile is convex, so second differences
    are probabilities."""
    ratio, wide = math.exp(step), np.pad(profile[::-1], 2)
    steps = (wide[:-2] - (1 + ratio) * wide[1:-1] + ratio * wide[2:]) / (ratio - 1)
    steps[steps.size // 2] += 1.0
    return np.maximum(steps, 0.0) * (1 + 1e-12)


def _gammas(step: float, most: int) -> np.ndarray:
    return np.exp(step * np.arange(-most, most + 1))


def _cut(profiles: np.ndarray, tail: float) -> tuple[np.ndarray, float]:
    """Profiles above max(0, 1 - gamma), float64 (elements, gammas), made 0 at both ends of the grid, and what was left
    out, in units of 1 + gamma: what is at an end is as much as beyond."""
    ends = float(profiles[:, [0, -1]].max())
    profiles[:, [0, -1]] = 0.0
    return profiles, tail + ends


def _by_cell(pairs: channel.Pairs, cells: np.ndarray, step: float, most: int, slack: float = 0.0) -> np.ndarray:
    """The largest profile of the places of each cell, an element, in both directions: float64 (2 cells, gammas). Beyond
    the largest ratio of a place its profile is 0: places are sorted by it, and computed no further."""
    gammas, names = _gammas(step, most), np.unique(cells, return_inverse=True)[1]
    reach = np.minimum(np.abs(pairs.log_ratio()).max(axis=0) / step + 2, most).astype(np.int64)
    profiles = np.zeros((names.max() + 1, gammas.size))
    order = np.argsort(reach, kind="stable")
    for places in (order[i : i + _PLACES] for i in range(0, order.size, _PLACES)):
        within = slice(most - reach[places[-1]], most + reach[places[-1]] + 1)
        places = places[np.argsort(names[places], kind="stable")]
        distinct, first = np.unique(names[places], return_index=True)
        found = np.maximum.reduceat(excess(pairs.of(places), gammas[within], slack), first)
        profiles[distinct, within] = np.maximum(profiles[distinct, within], found)
    # exchanging the two inputs: what is above 1 - gamma at 1 / gamma is what is above 0 at gamma, over gamma
    return np.concatenate((profiles, profiles[:, ::-1] * gammas))


def _cells(lattice: channel.Lattice, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """The cell of each place: a number."""
    lead, total = u - v + 1, u + v  # to win at equality is to lead by one more
    x, height = np.abs(lead) / lattice.scale, total / (2 * lattice.scale)
    kinds = [(x <= _CORE[0]) & (height >= _CORE[1]) & (height <= _CORE[2]), height > _CORE[2], x > 4.5, height < -1.5]
    # widths in noise parameters, chosen by how little such places tell; without a third the total tells nothing
    scale = lattice.scale * min(1.0, 0.2 * lattice.scale / lattice.shift)
    high = np.where(x <= 2.5, 0, np.where(x <= 5, 0.2, 0.4))
    all_of_them = np.where(height > 3.3, 1e5, 9e4)
    across, along = (
        np.maximum(np.select(kinds, [0, *widths], other) * scale, 1).astype(np.int64)
        for widths, other in (((high, 0.6, 0.9), 0.3), ((all_of_them, 1.2, 1.8), 0.6))
    )
    return ((across * 10**7 + along) * 10**4 + lead // across + 5000) * 10**4 + total // along + 5000


def winners(lattice: channel.Lattice, reach: channel.Reach, step: float, most: int) -> tuple[np.ndarray, float]:
    """One released winner under Gaussian noise."""
    slack = 2 * lattice.slack
    strips = list(channel.planes(lattice, reach))
    u, v = (np.concatenate([strip[axis] for strip in strips]) for axis in (0, 1))
    pairs = channel.Pairs(
        *(np.concatenate(sides, axis=1) for sides in zip(*(strip[2] for strip in strips), strict=True))
    )
    # one that leads far and is far above a third wins but for the tails
    ahead, above = math.sqrt(2) * reach.far * lattice.scale, reach.far * lattice.scale
    told = np.flatnonzero(
        ((u - v < ahead + 2 * lattice.shift) | (u < above + lattice.shift)) & ((v - u < ahead) | (v < above))
    )
    u, v, pairs = u[told], v[told], pairs.of(told)
    gammas = _gammas(step, most)
    lines = [
        excess(line, gammas, slack) for line in (channel.duel_line(lattice, reach), channel.check_line(lattice, reach))
    ]
    plane = _by_cell(pairs, _cells(lattice, u, v), step, most, slack)
    tail = (
        2 * channel.check_tail(lattice, reach) + channel.duel_tail(lattice, reach) + channel.third_tail(lattice, reach)
    )
    return _cut(np.concatenate((*lines, plane)), tail)


def laplace_winners(gamma: float, noise: Noise, step: float, most: int) -> tuple[np.ndarray, float]:
    """One released winner under Laplace noise.

    No loss is above 2 gamma in size, so what is far away is bounded as a whole: where all outcomes but one have
    probability at most theta, before and after, a profile is at most theta (1 - g e^(-2 gamma)) above max(0, 1 - g),
    and in the other direction at most theta (g - e^(-2 gamma)).
    """
    lattice = laplace.reduce(gamma, noise)
    end = 2 * lattice.shift
    while laplace.beyond(lattice, end) > _RARE_LEAD:
        end += math.ceil(0.25 / lattice.g)
    few, less, grid = max(1, int(0.05 / lattice.g)), math.exp(-2 * gamma), _gammas(step, most)
    found = [laplace.beyond(lattice, end) * np.maximum(np.minimum(1 - grid * less, grid - less), 0.0)[None]]
    tail = 0.0  # infinite where tangents meet at no law
    for leads, pairs in laplace.plane(lattice, end, _CELL):
        tail = tail if pairs.are_laws() else math.inf
        columns = pairs.p.shape[1] // leads.size
        wide = np.select([np.abs(leads) * lattice.g <= _MANY_LEADS, np.abs(leads) * lattice.g <= 6], [1, 4], 16) * few
        cells = ((leads // wide + 10**7) * 32 + wide // few)[:, None] * columns + np.arange(columns)
        found.append(_by_cell(pairs, cells.ravel(), step, most, _MILD))
    for pairs in itertools.chain(laplace.edges(lattice, end), laplace.alone(lattice, end)):
        found.append(_by_cell(pairs, np.arange(pairs.p.shape[1]) // 8, step, most, _MILD))
    return _cut(np.concatenate(found), tail)


def _groups(profiles: np.ndarray) -> list[np.ndarray]:
    """By how far ratios reach: most places reach a fifth as far as the farthest, and cost a fifth. Of each element what
    it is above max(0, 1 - gamma), the largest gamma first: float64 (elements, 2 reach + 1)."""
    middle = profiles.shape[1] // 2
    there = profiles > 0
    used = np.maximum(middle - there.argmax(axis=1), middle - there[:, ::-1].argmax(axis=1))
    used[~there.any(axis=1)] = 0
    order, first, groups = np.argsort(used, kind="stable"), 0, []
    for part in _PARTS:
        last = math.ceil(part * len(profiles))
        rows = order[first:last]
        if rows.size:
            wide = max(1, int(used[rows].max()))
            groups.append(np.ascontiguousarray(profiles[rows, middle - wide : middle + wide + 1][:, ::-1]))
        first = last
    return groups


def _around(values: np.ndarray, step: float, reach: int, rows: int) -> np.ndarray:
    """V from ``reach`` rows below gamma = 1 to as many behind ``rows``; behind its last it is taken to stay so."""
    right = np.concatenate((values, np.full(max(0, rows + reach - values.size), values[-1])))[: rows + reach]
    inverse = np.exp(-step * np.arange(1, reach + 1))
    # exchanging the two inputs: V(1 / gamma) = 1 - 1 / gamma + V(gamma) / gamma
    behind = np.concatenate((values[1 : reach + 1], np.full(max(0, reach + 1 - values.size), values[-1])))
    return np.concatenate(((1 - inverse + inverse * behind)[::-1], right))


def _curved(values: np.ndarray, step: float, reach: int, rows: int) -> np.ndarray:
    """The curvature of V, known at gamma = 1, e^step, ..., in a window around each row: float64 (rows, 2 reach + 1),
    rounded up. Of a convex function that is linear between rows, sum_j p_j V(gamma q_j / p_j) - V(gamma) is the sum
    of curvature times excess over the window."""
    ratio, whole = math.exp(step), _around(values, step, reach + 1, rows)
    bend = whole[2:] - (1 + ratio) * whole[1:-1] + ratio * whole[:-2]
    return sliding_window_view(np.maximum(bend + 1e-15 * whole[:-2], 0.0) / (ratio - 1), 2 * reach + 1)


def _round(values: np.ndarray, step: float, groups: Sequence[np.ndarray], rows: int) -> np.ndarray:
    """V after one more release, at the first ``rows`` rows: what the element that adds most there adds."""
    most = max(group.shape[1] // 2 for group in groups)
    curved, added = _curved(values, step, most, rows), np.zeros(rows)
    for group in groups:
        windows = curved[:, most - group.shape[1] // 2 : most + group.shape[1] // 2 + 1]
        for some in (slice(start, start + _AT_ONCE) for start in range(0, rows, _AT_ONCE)):
            found = (np.ascontiguousarray(windows[some]) @ group.T).max(axis=1) * _DOT
            np.maximum(added[some], found, out=added[some])
    return _around(values, step, 0, rows) + added


def induced(
    groups: Sequence[np.ndarray], step: float, mu: float, releases: int, order: float, left_out: float, growth: float
) -> tuple[np.ndarray, float]:
    """V after ``releases`` adaptive ones, at gamma = 1, e^step, ..., and what is to be added to it: ``left_out`` may be
    used up by each. growth: largest block, as a part of the releases behind it; 0 is one at a time. order: Renyi
    order at which a block is to tell little."""
    most = 1 + max(group.shape[1] // 2 for group in groups)
    values, done, added = np.array([_LEAST]), 0, 0.0
    while done < releases:
        found = _round(values, step, groups, values.size + most)
        block = min(int(min(growth, 1.0) * done), releases - done)
        kernel = _at_least(values, found - left_out, step, mu, 2 * most, order) if block > 1 else None
        if kernel is None:
            block = 1
        else:
            front = _many(_Fixed(kernel, step), block, step)
            found = _after(values, step, front.kernel)
            added += front.lost + block * left_out
        values = np.maximum(np.minimum.accumulate(np.minimum(found, 1.0)) * _DOT, _LEAST)
        done += block
        values = _shortened(values, left_out * (1e-3 + 0.1 * done / releases))
    return values, added


def _shortened(values: np.ndarray, little: float) -> np.ndarray:
    """Without the rows behind the first that is so little, as which they are taken. ``little`` has to grow from release
    to release."""
    return values[: np.count_nonzero(values > little) + 1]


def _at_least(
    values: np.ndarray, target: np.ndarray, step: float, mu: float, reach: int, order: float
) -> np.ndarray | None:
    """A release on the grid without choice that in front of V is at least ``target`` at each row: its kernel, of those
    that are tried about the one that tells least at ``order``. None if none does."""
    whole = _around(values, step, reach, target.size)

    def in_front(kernel: np.ndarray) -> np.ndarray:
        return np.convolve(whole, kernel[::-1], "valid") * (1 - 1e-12)

    def mixed(squared: float, wider: float, rare: float) -> np.ndarray:
        return (1 - rare) * _kernel(squared * mu**2, step, reach) + rare * _kernel(wider * mu**2, step, reach)

    losses = np.exp((1 - order) * step * np.arange(-reach, reach + 1))
    knots = np.linspace(_NARROW, _WIDE, _KNOTS)
    kernels = [_kernel(squared * mu**2, step, reach) for squared in knots]
    heights, moments = np.array([in_front(kernel) for kernel in kernels]), np.array([x @ losses for x in kernels])
    wides = {wider: _kernel(wider * mu**2, step, reach) for wider, _ in _SHAPES}
    above = {wider: (in_front(kernel), float(kernel @ losses)) for wider, kernel in wides.items()}
    guesses = []
    for wider, rare in _SHAPES:
        wanted = (target - rare * above[wider][0]) / (1 - rare)
        if np.any(wanted > heights[-1]):
            continue
        # heights rise with the knots: between two of them, by the chord
        next_one = np.clip((heights < wanted).sum(axis=0), 1, _KNOTS - 1)
        low, high = (np.take_along_axis(heights, k[None], axis=0)[0] for k in (next_one - 1, next_one))
        with np.errstate(divide="ignore", invalid="ignore"):
            part = np.where(wanted > low, (wanted - low) / (high - low), 0.0)
        squared = float((knots[next_one - 1] + part * (knots[1] - knots[0])).max())
        moment = (1 - rare) * float(np.interp(squared, knots, moments)) + rare * above[wider][1]
        guesses.append((moment, squared, wider, rare))
    for _, squared, wider, rare in sorted(guesses):
        low, high = 0.98 * squared, min(1.02 * squared, _WIDE)
        if not np.all(in_front(mixed(high, wider, rare)) >= target):
            continue
        while high - low > 1e-6:
            middle = (low + high) / 2
            enough = np.all(in_front(mixed(middle, wider, rare)) >= target)
            low, high = (low, middle) if enough else (middle, high)
        return mixed(high, wider, rare)
    return None


def _kernel(squared: float, step: float, reach: int) -> np.ndarray:
    """A release on the grid that tells about as much as a Gaussian of squared distance ``squared``: float64. q is the
    mirror image of p, whatever is cut off."""
    k = step * np.arange(-reach, reach + 1)
    weights = np.exp(-(k**2) / (2 * squared) - k / 2)
    return weights / weights.sum()


def _profiles_of(release: Composed, step: float, far: float) -> tuple[np.ndarray, float]:
    """All that one release of any kind can be, on a grid of log gamma with spacing ``step``."""
    if release.what == "laplace":
        return laplace_winners(1 / release.sigma, release.noise, step, math.ceil(2 / release.sigma / step) + 2)
    reach = channel.Reach(far, 0.0)
    most = math.ceil((1.15 * far * release.mu + release.mu**2) / step) + 3
    if release.what == "argmax":
        return winners(reduce(release.sigma, release.noise, FINE), reach, step, most)
    gammas = _gammas(step, most)
    if release.what == "check":
        lattice = reduce(release.sigma, release.noise, FINE_LINE)
        return _cut(
            excess(channel.check_line(lattice, reach), gammas, lattice.slack), channel.check_tail(lattice, reach)
        )
    if release.noise is Noise.CONTINUOUS:
        up, losses = gammas[most:], np.log(gammas[most:]) / release.mu
        above = (ndtr(release.mu / 2 - losses) - up * ndtr(-release.mu / 2 - losses)) * (1 + 1e-9)
        return _cut(np.concatenate(((above / up)[:0:-1], above))[None], 0.0)
    lattice = reduce(release.sigma, release.noise, FINE_LINE)
    end = math.ceil(far * math.sqrt(2) * lattice.scale + 2 * lattice.shift) + 1
    offsets = np.arange(-end, end + 1)
    pair = channel.Pairs(*(channel.difference(lattice, offsets, x)[:, None] for x in (0.0, 2 * lattice.shift)))
    return _cut(excess(pair, gammas, 2 * lattice.slack), channel.duel_tail(lattice, reach))


class _Fixed(NamedTuple):
    """Releases without choice, as one on a grid of log gamma, and what is to be added to a profile with them."""

    kernel: np.ndarray
    step: float
    lost: float = 0.0

    def coarser(self, step: float) -> _Fixed:
        """On a grid whose spacing is ``step``, a power of two times this one's: what falls between two points goes to
        both, so that neither input loses mass; of convex functions that is the chord."""
        kernel, mine = self.kernel, self.step
        while mine < step * 0.75:
            kernel = np.pad(kernel, kernel.size // 2 % 2)
            up = -math.expm1(-mine) / (math.exp(mine) - math.exp(-mine))
            between, kernel = kernel[1::2], kernel[::2].copy()
            kernel[1:] += up * between
            kernel[:-1] += (1 - up) * between
            mine *= 2
        return _Fixed(kernel * _DOT, mine, self.lost)


def _many(one: _Fixed, times: int, coarsest: float = math.inf) -> _Fixed:
    """``times`` of them, one after another, on a grid that is made coarser as they grow."""
    kernel, step, reach = one.kernel, one.step, one.kernel.size // 2
    squared = float(kernel @ (step * np.arange(-reach, reach + 1)) ** 2)
    far = _DEVIATIONS * math.sqrt(times * squared) + times * squared / 2 + reach * step
    result, doubled = _Fixed(np.ones(1), step), one._replace(lost=0.0)
    left = times
    while True:
        if left % 2:
            result = _both(result, doubled, far)
        left //= 2
        if not left:
            return result._replace(lost=result.lost + times * one.lost)
        doubled, squared = _both(doubled, doubled, far), 2 * squared
        if math.sqrt(squared) > _COARSE * doubled.step and 2 * doubled.step <= coarsest:
            doubled, result = (each.coarser(2 * doubled.step) for each in (doubled, result))


def _both(first: _Fixed, second: _Fixed, far: float) -> _Fixed:
    """Both, on the grid of both; what is beyond ``far`` is cut off. What is too far on the other side is moved to the
    end: a smaller q / p tells more."""
    kernel = np.convolve(first.kernel, second.kernel)
    over, lost = kernel.size // 2 - math.ceil(far / first.step), 0.0
    if over > 0:
        lost, beyond = float(kernel[:over].sum()), float(kernel[-over:].sum())
        kernel = kernel[over:-over].copy()
        kernel[-1] += beyond
    return _Fixed(kernel * _DOT, first.step, first.lost + second.lost + lost)


def _after(values: np.ndarray, step: float, kernel: np.ndarray) -> np.ndarray:
    """V with a release on the grid in front, at all rows where that is not as at the last."""
    reach = kernel.size // 2
    return np.convolve(_around(values, step, reach, values.size + reach), kernel[::-1], "valid") * _DOT


def _step(release: Composed) -> float:
    """Spacing of log gamma; that of a winner under Laplace noise, with no loss above 2 gamma, is a part of that."""
    return 1 / release.sigma / 9 if release.what == "laplace" else STEP * release.mu


@lru_cache(maxsize=4)
def _groups_of(release: Composed, step: float, far: float) -> tuple[list[np.ndarray], float]:
    """All that one release can be, on this grid, and its tail."""
    profiles, tail = _profiles_of(release, step, far)
    return _groups(profiles), tail


@lru_cache(maxsize=16)
def _fixed(
    release: Composed, times: int, step: float, far: float, order: float, little: float
) -> tuple[tuple[_Fixed, ...], float] | None:
    """As many releases without choice that stand for ``times`` of these wherever they come, each but for ``little``,
    and what is imagined with them, on grids of ``step`` times powers of two; and their tail. None if none are found.
    What stands for a release in front of V_1, the profile of the imagined one, does so in front of both and
    anything."""
    own = step * 2.0 ** -math.ceil(math.log2(step / _step(release)) - 1e-9)
    if release.what == "histogram":
        profiles, tail = _profiles_of(release, own, far)
        return (_many(_Fixed(steps_of(profiles[0], own), own), times),), times * tail
    groups, tail = _groups_of(release, own, far)
    most = 1 + max(group.shape[1] // 2 for group in groups)
    # a part of about .3 (mu / distance)^2 is lost of each
    guess = min(max((0.3 * times) ** 0.25, 1.0), 8.0)
    for distance in (guess * factor for factor in _DISTANCES):
        beside = _kernel((distance * release.mu) ** 2, own, math.ceil(_FAR * distance * release.mu / own))
        values = _after(np.array([_LEAST]), own, beside)
        target = _round(values, own, groups, values.size + most) - little
        kernel = _at_least(values, target, own, release.mu, 2 * most, order)
        if kernel is not None:
            return (_Fixed(beside, own), _many(_Fixed(kernel, own, little), times)), times * tail
    return None


class _Whole(NamedTuple):
    """Profile of a composition: V at gamma = e^(step i), i = 0, 1, ..., and what is to be added to it, ``tail`` in
    units of 1 + gamma."""

    values: np.ndarray
    step: float
    tail: float


def _composed(counts: tuple[tuple[Composed, int], ...], delta: float) -> _Whole | None:
    """The profile of all of them: the first is induced over if it is of few enough that tell enough, the others are
    without choice. None if none is found."""
    (core, times), *others = counts
    variance, total = sum(n * release.told for release, n in counts), sum(n for _, n in counts)
    epsilon = epsilon_of(variance, delta)
    left_out = delta * 1e-3 / total
    far = max(6.0, float(-ndtri(left_out / (1 + math.exp(min(epsilon, 50.0))))))
    far = math.ceil(2 * far) / 2  # compositions of like size share what was computed
    if far > _MOST_FAR and any(release.what != "laplace" for release, _ in counts):
        return None
    if total > _MOST_TIMES or epsilon > _MOST_EPSILON:
        return None
    order = max(epsilon / variance + 0.5, 1.1)  # about that at which the composition is converted
    step, values, tail, added = _step(core), np.array([_LEAST]), 0.0, 0.0
    if core.what != "histogram" and times <= MOST_RELEASES:
        groups, one = _groups_of(core, step, far)
        values, added = induced(groups, step, core.mu, times, order, left_out, GROWTH * math.sqrt(times))
        tail = times * one
    else:
        others = list(counts)
    every: list[_Fixed] = []
    for release, n in others:
        found = _fixed(release, n, step, far, order, left_out)
        if found is None:
            return None
        every.extend(found[0])
        tail += found[1]
    coarsest = max([step, *(each.step for each in every)])
    values = values[:: round(coarsest / step)]
    for each in every:
        values = _shortened(_after(values, coarsest, each.coarser(coarsest).kernel), left_out)
        added += each.lost
    return _Whole(values + added, coarsest, tail)


def _least_epsilon(whole: _Whole, delta: float) -> float:
    """Least epsilon with a profile of at most delta."""
    gammas = np.exp(whole.step * np.arange(whole.values.size))
    delta_at = whole.values + whole.tail * (1 + gammas)
    below = np.flatnonzero(delta_at <= delta)
    if not below.size:
        return math.inf
    last = int(below[0])
    if last == 0:
        return 0.0
    # V is convex in gamma: chords are above
    high, low = delta_at[last - 1], delta_at[last]
    part = (high - delta) / (high - low)
    return (whole.step * (last - 1) + math.log1p(part * math.expm1(whole.step))) * (1 + 1e-12)


def _along_moves(whole: _Whole, delta: float, moves: int) -> float:
    """The same for neighbours that are so many moves apart. Of one move an event of probability x under one input has
    at most f(x) = min over gamma of V(gamma) + gamma x under the other; f is concave and rises. So delta is at most
    the largest f(f(...f(x))) - e^epsilon x."""
    gammas = np.exp(whole.step * np.arange(whole.values.size))
    values = np.minimum(whole.values + whole.tail * (1 + gammas), 1.0)
    # gamma below 1: V(1 / gamma) = 1 - 1 / gamma + V(gamma) / gamma
    slopes = np.concatenate((1 / gammas[:0:-1], gammas))
    heights = np.concatenate(((1 - 1 / gammas + values / gammas)[:0:-1], values))
    bends = np.maximum.accumulate(np.diff(heights) / np.diff(slopes))  # minus the x at which the next line is lower

    def reached(x: np.ndarray) -> np.ndarray:
        for _ in range(moves):
            line = np.searchsorted(bends, -x)  # any line is above f
            x = np.minimum(heights[line] + slopes[line] * x, 1.0) * _DOT
        return x

    far = np.arange(-690.0, 0.0)
    little = int(np.count_nonzero(reached(np.exp(far)) <= delta))
    if not little:
        return math.inf
    log_x = np.append(np.arange(far[little - 1], 0.0, _COARSELY), 0.0)
    above = np.maximum(reached(np.exp(log_x)) - delta, 0.0)
    most = max(float((above / np.exp(log_x)).max()), 1.0)
    # between two x at most f at the larger, less e^epsilon times the smaller: looked at closely where that is more
    here = np.flatnonzero(above[1:] / np.exp(log_x[:-1]) > most)
    x = np.exp(np.minimum(log_x[here][:, None] + np.linspace(0, _COARSELY, _FINELY + 1), 0.0))
    between = reached(x[:, 1:].ravel()).reshape(-1, _FINELY) - delta
    return math.log((between / x[:, :-1]).max(initial=most)) * (1 + 1e-12)


def _until_coarser(release: Composed) -> tuple[Composed, ...]:
    """The release, and the one with the least noise of the next lattice if that is near: its epsilon is not less than
    ours by more than lattices differ, and the larger of both falls with the noise."""
    if release.what not in _FINENESS or release.noise is Noise.CONTINUOUS:
        return (release,)
    following = _FINENESS[release.what] * max(2, int(release.sigma / _FINENESS[release.what]) + 1)
    near = release.sigma >= following * (1 - _WINDOW)
    return (release, release._replace(sigma=following)) if near else (release,)


def adaptive_epsilon(parts: Sequence[Composed], delta: float) -> float:
    """Least epsilon at ``delta`` of an adaptive composition in any order: an upper bound, data-independent.

    inf where nothing is computed: noise that is not as good as a discrete Gaussian, of less than one or more than 1e5
    times a vote (Laplace: a scale of a quarter to 1,000 votes), more than six kinds, more than 1e8 releases, a delta
    below 1e-20 for each release (for several moves sooner), an epsilon above 300.

    Raises DeltaError.
    """
    check_delta(delta)
    used = [part for part in parts if part.releases]
    if not used:
        return 0.0
    if any(part.slack > NO_SLACK for part in used):
        return math.inf
    counts: Counter[Composed] = Counter()
    for part in used:
        # more noise is a mixture of less, and costs no more
        counts[Composed(1, part.what, min(part.sigma, _MOST_NOISE), part.noise)] += part.releases
    moves = max(part.votes_moved for part in used)
    shifts = [(_LEAST_SHIFT.get(one.what, 1e-5), 1 / one.sigma, _MOST_SHIFT.get(one.what, 1.0)) for one in counts]
    if len(counts) > _MOST_KINDS or not all(least <= shift <= most for least, shift, most in shifts):
        return math.inf  # lost in rounding, or so telling that nothing is gained
    # what is induced over comes first: of winners and checks that which contributes most
    kinds = sorted(counts.items(), key=lambda item: (item[0].what == "histogram", -item[1] * item[0].told, item[0]))
    return _epsilon(tuple(kinds), moves, delta)


@lru_cache(maxsize=1024)
def _epsilon(kinds: tuple[tuple[Composed, int], ...], moves: int, delta: float) -> float:
    """Kept by all that decides it: what is promised, what was spent and what a party charges are often one."""
    (core, times), *others = kinds
    found = []
    for release in _until_coarser(core):
        sizing = delta
        if moves > 1:  # what is left over after one move grows along the others
            rough = epsilon_of(sum(n * each.told for each, n in kinds), delta)
            sizing = max(delta * 1e-2 * math.exp(-1.5 * (moves - 1) * rough), 1e-200)
        whole = _composed(((release, times), *others), sizing)
        if whole is None:
            return math.inf
        found.append(_least_epsilon(whole, delta) if moves == 1 else _along_moves(whole, delta, moves))
    epsilon = max(found)
    if math.isinf(epsilon) or epsilon == 0:
        return epsilon
    # machines differ in the last digits of exponentials: rounded up, they agree
    places = _DIGITS - 1 - math.floor(math.log10(epsilon))
    return math.ceil(epsilon * 10**places) / 10**places
