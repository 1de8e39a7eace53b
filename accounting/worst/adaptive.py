"""Composition of winners or checks against an adversary that chooses each release in view of the ones before.

The largest hockey-stick divergence to which n releases can be brought, V_n(gamma), follows from that of n - 1 by one
step of backward induction: V_n(gamma) = max over places of sum_j p_j V_(n-1)(gamma q_j / p_j), with V_0(gamma) =
max(0, 1 - gamma). Places are those of ``worst.channel``: where the votes of the next release stand. It is computed on a
grid of log gamma and rounded up at every step. Nothing is imagined beside it, so that little is lost, whatever the
number of releases and delta. Proof: docs/laboratory/accounting.md, "The worst case of what leaves".

After m releases one more hardly changes shape, so the next few are a block: a release in which nothing can be chosen,
and which is at least as bad as every place in front of V_m, stands for each of them.

Releases of other kinds (the checks of Confident beside its winners) may come in any order. Beside an imagined release
each of them tells at most as much as one in which nothing can be chosen, and those commute with everything.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.special import ndtri

from consilium.accounting.checks import check_delta
from consilium.accounting.curves.gdp import epsilon_of
from consilium.accounting.units import Noise
from consilium.accounting.worst.channel import (
    Lattice,
    Pairs,
    Reach,
    Ties,
    check_line,
    check_tail,
    difference,
    duel_line,
    duel_tail,
    rectangle,
    third_tail,
)
from consilium.accounting.worst.compose import Composed, OneRelease, counted, gaussian_profile

TAU = 1.0
"""Standard deviation, in spacings, of the weights by which a real centre is a mixture of whole ones. Smaller than in
``channel``: what it leaves out of account, 1.5e-8 for each count, is charged as rounding is."""
FINE, FINE_LINE = 13.0, 40.0
"""Parameter of the lattice of two counts, and of one: .3 % and .03 % of the distance are lost."""
STEP = 0.08
"""Spacing of log gamma in units of the distance of one release. Chords between them cost .13 % of epsilon."""
MOST_RELEASES = 2000
"""Of the kind that is induced over: beyond it convolutions take seconds, and ``compose`` loses little."""
GROWTH = 0.03
"""Releases of a block, as a part of those behind it, for one release in all; for n of them sqrt(n) times that. What the
blocks cost is then about the same for every n: less than .1 % of epsilon."""
_ROUNDING = 2e-13
"""Relative rounding of the sums of positive terms that probabilities are."""
_DOT = 1 + 1e-13
"""For the rounding of a sum of a few hundred positive terms."""
_LEAST = 1e-250
"""What is below it is taken to be it, so that ratios stay numbers."""


def reduce(sigma: float, noise: Noise, votes: int, fine: float) -> Lattice:
    """The lattice for noise ``sigma`` on a count that moves by ``votes``; as ``channel.reduce``, with this ``TAU``."""

    def slack(scale: float) -> float:
        return 5 * math.exp(-2 * (math.pi * TAU) ** 2 * (1 - (TAU / scale) ** 2))

    if noise is Noise.CONTINUOUS:
        return Lattice(math.sqrt(fine**2 - TAU**2), votes * fine / sigma, slack(fine))
    if sigma < 2 * fine:
        return Lattice(sigma, votes, 0.0)
    spacing = int(sigma / fine)
    scale = sigma / spacing
    return Lattice(math.sqrt(scale**2 - TAU**2), votes / spacing, slack(scale))


def excess(pairs: Pairs, gammas: np.ndarray, slack: float = 0.0) -> np.ndarray:
    """By how much the profile of each place is above max(0, 1 - gamma): float64 (places, gammas), rounded up.

    slack : |log| of the ratio of a probability to what stands in ``pairs``, at most.
    """
    most = gammas.size // 2
    down, up = gammas[:most], gammas[most:]
    low, high = 1 - _ROUNDING - slack, 1 + _ROUNDING + 1.01 * slack
    above, below = np.zeros((pairs.p.shape[1], up.size)), np.zeros((pairs.p.shape[1], down.size))
    for p, q in zip(pairs.p[:, :, None], pairs.q[:, :, None], strict=True):
        above += np.maximum(p * high - q * (low * up), 0.0)
        below += np.maximum(q * (high * down) - p * low, 0.0)
    return np.concatenate((below, above), axis=1)


def steps_of(profiles: np.ndarray, step: float) -> np.ndarray:
    """For each profile the release with ratios q / p on the grid that has it: float64 (profiles, gammas + 2).

    Entry k is the probability of q / p = e^(step (k - middle)). But for the bend at 1 a profile is convex, so second
    differences are probabilities; one that rounding makes negative is rounded up to 0.
    """
    ratio = math.exp(step)
    wide = np.pad(profiles[:, ::-1], ((0, 0), (2, 2)))
    steps = (wide[:, :-2] - (1 + ratio) * wide[:, 1:-1] + ratio * wide[:, 2:]) / (ratio - 1)
    steps[:, steps.shape[1] // 2] += 1.0
    return np.maximum(steps, 0.0) * (1 + 1e-12)


class Choices(NamedTuple):
    """All that one release can be, as profiles on a grid of gammas.

    profiles : float64 (elements, gammas), what is above max(0, 1 - gamma), 0 at both ends. tail : what was left out
    adds, in units of 1 + gamma.
    """

    profiles: np.ndarray
    tail: float


def _gammas(step: float, most: int) -> np.ndarray:
    return np.exp(step * np.arange(-most, most + 1))


def _choices(profiles: np.ndarray, tail: float) -> Choices:
    """Cuts profiles off at the ends of the grid; what is there, which is as much as beyond, goes to the tail."""
    ends = float(profiles[:, [0, -1]].max())
    profiles[:, [0, -1]] = 0.0
    return Choices(profiles, tail + ends)


_CORE = (2.0, -0.6, 2.0)
"""Largest lead, least and largest mean height of the two counts, in noise parameters, within which every place is an
element by itself. Outside, cells of places are one element, which has the largest of their profiles at each gamma: they
tell too little for that to matter."""


def _cells(scale: float, u: np.ndarray, v: np.ndarray, rule: Ties) -> tuple[np.ndarray, np.ndarray]:
    """The cell of each place (a number), and whether it is in the core."""
    # to win at equality is to lead by one more
    lead, total = u - v + (rule is Ties.TO_GIVER), u + v
    x, height = np.abs(lead) / scale, total / (2 * scale)
    core = (x <= _CORE[0]) & (height >= _CORE[1]) & (height <= _CORE[2])
    # widths of cells in leads and totals: chosen by how little such places tell
    wide = np.where(x <= _CORE[0], 1, np.where(x <= 5, 2, 4))
    kind = np.select([height > _CORE[2], x > 4.5, height < -1.5], [wide, 5, 6], 7)
    across = np.select([height > _CORE[2], x > 4.5, height < -1.5], [wide, 4, 6], 2)
    along = np.select([height > _CORE[2], x > 4.5, height < -1.5], [10**6, 8, 12], 4)
    high = (height > 3.3).astype(np.int64)
    key = ((kind * 2 + high) * 10**5 + lead // across + 5 * 10**4) * 10**5 + total // along + 5 * 10**4
    return key, core


def winners(lattice: Lattice, reach: Reach, step: float, most: int) -> Choices:
    """One released winner."""
    gammas, slack = _gammas(step, most), 2 * lattice.slack
    u, v, before = rectangle(lattice, reach, 0.0)
    after = rectangle(lattice, reach, lattice.shift)[2]
    inside = u[:, None] + v <= math.ceil(math.sqrt(2) * reach.far * lattice.scale)
    by_rule = {rule: _cells(lattice.scale, u[:, None], v[None, :], rule) for rule in Ties}
    names = np.unique(np.concatenate([key[inside & ~core] for key, core in by_rule.values()]))
    lines = [excess(line, gammas, slack) for line in (duel_line(lattice, reach), check_line(lattice, reach))]
    start = names.size + sum(map(len, lines))
    alone = sum(int((inside & core).sum()) for _, core in by_rule.values())
    profiles = np.zeros((start + alone, gammas.size))
    profiles[names.size : start] = np.concatenate(lines)
    for rule, (key, core) in by_rule.items():
        for row in range(u.size):
            within = np.flatnonzero(inside[row])
            found = excess(Pairs(before[rule][:, row, within], after[rule][:, row, within]), gammas, slack)
            single = core[row, within]
            here = found[single]
            profiles[start : start + len(here)] = here
            start += len(here)
            where, found = np.searchsorted(names, key[row, within][~single]), found[~single]
            if where.size:
                order = np.argsort(where, kind="stable")
                distinct, first = np.unique(where[order], return_index=True)
                profiles[distinct] = np.maximum(profiles[distinct], np.maximum.reduceat(found[order], first))
    tail = 2 * check_tail(lattice, reach) + duel_tail(lattice, reach) + third_tail(lattice, reach)
    return _choices(profiles, tail)


def checks(lattice: Lattice, reach: Reach, step: float, most: int) -> Choices:
    """The bit of one threshold check."""
    profiles = excess(check_line(lattice, reach), _gammas(step, most), lattice.slack)
    return _choices(profiles, check_tail(lattice, reach))


class _Group(NamedTuple):
    """Elements whose ratios reach equally far: steps float64 (elements, 2 reach + 1), and the largest of their excess
    at each step, float64 (2 reach + 1,)."""

    steps: np.ndarray
    largest: np.ndarray

    @property
    def reach(self) -> int:
        return self.steps.shape[1] // 2


_PARTS = (0.5, 0.8, 0.93, 1.0)


def _groups(profiles: np.ndarray, step: float) -> list[_Group]:
    """By how far ratios reach: most places reach a fifth as far as the farthest, and cost a fifth."""
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
            mine = profiles[rows, middle - wide : middle + wide + 1]
            groups.append(_Group(steps_of(mine, step), np.pad(mine.max(axis=0)[::-1], 1)))
        first = last
    return groups


_BLOCKS = 4
"""Every ``rounds / _BLOCKS``-th row is computed for all elements; the divergence changes that slowly."""
_EDGE, _EDGE_ROWS = 6, 3
"""Rows before the last that is known, and all behind: every third is computed; chords between them are above."""
_NEAR = 40
_AT_ONCE = 64


class _Rows(NamedTuple):
    """What one round needs: windows of the function around each row, one for each group, and of its curvature.

    A row is a gamma = e^(step row). Of a convex function that is linear between rows, sum_j p_j V(gamma q_j / p_j) -
    V(gamma) is the sum of curvature times excess over the window.
    """

    values: np.ndarray
    around: list[np.ndarray]
    curved: np.ndarray


def _around(values: np.ndarray, step: float, reach: int, rows: int) -> np.ndarray:
    """V from ``reach`` rows below gamma = 1 to as many behind ``rows``; behind its last it is taken to stay so."""
    right = np.concatenate((values, np.full(max(0, rows + reach - values.size), values[-1])))[: rows + reach]
    inverse = np.exp(-step * np.arange(1, reach + 1))
    # exchanging the two inputs: V(1 / gamma) = 1 - 1 / gamma + V(gamma) / gamma
    behind = np.concatenate((values[1 : reach + 1], np.full(max(0, reach + 1 - values.size), values[-1])))
    return np.concatenate(((1 - inverse + inverse * behind)[::-1], right))


def _windows(values: np.ndarray, step: float, groups: Sequence[_Group], rows: int) -> _Rows:
    """values : V at gamma = 1, e^step, ..."""
    most, ratio = max(group.reach for group in groups), math.exp(step)
    whole, start = _around(values, step, most + 1, rows), most + 1
    curvature = np.maximum((whole[2:] - (1 + ratio) * whole[1:-1] + ratio * whole[:-2]) / (ratio - 1), 0.0)
    around = [sliding_window_view(whole, 2 * g.reach + 1)[start - g.reach : start - g.reach + rows] for g in groups]
    curved = sliding_window_view(curvature, 2 * most + 1)[start - 1 - most : start - 1 - most + rows]
    return _Rows(whole[start : start + rows], around, curved)


def _largest(steps: np.ndarray, windows: np.ndarray) -> np.ndarray:
    """max over elements at each row: float64 (rows,)."""
    return np.concatenate(
        [
            (np.ascontiguousarray(windows[i : i + _AT_ONCE]) @ steps.T).max(axis=1)
            for i in range(0, len(windows), _AT_ONCE)
        ]
    )


def _round(values: np.ndarray, step: float, groups: Sequence[_Group], rows: int, number: int) -> np.ndarray:
    """V after one more release, at the first ``rows`` rows.

    All elements are tried at knots. Between two knots the curvature around a row is at most ``over`` times a mixture of
    those around the knots, but for what is ``left``. So what an element adds to V is at most that mixture of what it
    adds at the knots, and only elements are evaluated that could so reach what others do there.
    """
    windows = _windows(values, step, groups, rows)
    gap = max(1, number // _BLOCKS)
    if gap == 1:
        pairs = zip(groups, windows.around, strict=True)
        return np.max([_largest(group.steps, around) for group, around in pairs], axis=0)
    main = max(0, min(rows, values.size) - 1 - _EDGE)
    knots = np.unique(np.r_[np.arange(0, main, gap), np.arange(main, rows, _EDGE_ROWS), rows - 1])
    found = np.zeros(rows)
    at_knots = []
    for group, around in zip(groups, windows.around, strict=True):
        mine = np.empty((knots.size, len(group.steps)))
        for i in range(0, knots.size, _AT_ONCE):
            np.matmul(np.ascontiguousarray(around[knots[i : i + _AT_ONCE]]), group.steps.T, out=mine[i : i + _AT_ONCE])
        at_knots.append(mine)
    best = np.array([mine.max(axis=1) for mine in at_knots])
    winner = best.argmax(axis=0)
    found[knots] = best.max(axis=0)
    gains = found[knots] - windows.values[knots]
    most = windows.curved.shape[1] // 2
    everything: list[list[np.ndarray]] = [[] for _ in groups]
    for knot, (low, high) in enumerate(pairwise(knots)):
        inner = np.arange(low + 1, high)
        if not inner.size:
            continue
        weight = (inner - low) / (high - low)
        if low >= main:
            part = np.expm1(step * (inner - low)) / math.expm1(step * (high - low))
            found[inner] = found[low] + part * (found[high] - found[low]) + np.spacing(found[low])
            continue
        for end in (knot, knot + 1):
            group = winner[end]
            row = groups[group].steps[at_knots[group][end].argmax()]
            found[inner] = np.maximum(found[inner], windows.around[group][low + 1 : high] @ row)
        reached = found[inner] - windows.values[inner]
        around = windows.curved[low + 1 : high]
        with np.errstate(divide="ignore", invalid="ignore"):
            mixed = ((1 - weight) * reached / gains[knot])[:, None] * windows.curved[low]
            mixed += (weight * reached / gains[knot + 1])[:, None] * windows.curved[high]
            ratios = np.where(around > 0, around / mixed, 0.0)
        for index, group in enumerate(groups):
            near, reach = min(group.reach, _NEAR), group.reach
            over = float(ratios[:, most - near : most + near + 1].max())
            if not over < 1.2:  # infinite or NaN where a knot has no curvature
                everything[index].append(inner)
                continue
            within = slice(most - reach, most + reach + 1)
            left = np.maximum(around[:, within] - over * mixed[:, within], 0.0) @ group.largest
            share = np.maximum(
                (at_knots[index][knot] - windows.values[low]) / gains[knot],
                (at_knots[index][knot + 1] - windows.values[high]) / gains[knot + 1],
            )
            could = np.flatnonzero(over * share + float((left / reached).max()) >= 1 - 1e-6)
            if could.size:
                here = windows.around[index][low + 1 : high]
                found[inner] = np.maximum(found[inner], _largest(group.steps[could], here))
    for group, around, parts in zip(groups, windows.around, everything, strict=True):
        if parts:
            where = np.concatenate(parts)
            found[where] = np.maximum(found[where], _largest(group.steps, around[where]))
    return found


def induced(
    groups: Sequence[_Group], step: float, mu: float, releases: int, order: float, left_out: float, growth: float
) -> tuple[np.ndarray, float]:
    """V after ``releases`` adaptive ones, but for what is to be added to it: float64, at gamma = 1, e^step, ...

    ``left_out`` of that may be used up by each release. growth : largest block,
    as a part of the releases behind it; 0 is one at a time. order : Renyi order at which a block is to tell little.
    """
    most = max(group.reach for group in groups)
    values, done, added = np.array([_LEAST]), 0, 0.0
    while done < releases:
        found = _round(values, step, groups, values.size + most, done + 1)
        block = min(int(min(growth, 1.0) * done), releases - done)
        kernel = _at_least(values, found - left_out, step, mu, 2 * most, order) if block > 1 else None
        if kernel is None:
            block = 1
        else:
            front, lost = _power(kernel, block, _far(kernel, step, block))
            found = _after(values, step, front)
            added += lost + block * left_out
        values = np.maximum(np.minimum.accumulate(np.minimum(found, 1.0)) * _DOT, _LEAST)
        done += block
        values = _shortened(values, left_out * (1e-3 + 0.1 * done / releases))
    return values, added


def _shortened(values: np.ndarray, little: float) -> np.ndarray:
    """Without the rows behind the first that is so little: they are taken to be as that is.

    ``little`` has to grow from release to release, as nothing is ever below what was so taken.
    """
    return values[: np.count_nonzero(values > little) + 1]


def _far(kernel: np.ndarray, step: float, times: int) -> int:
    """Rows beyond which so many releases on the grid hardly reach."""
    squared = times * float(kernel @ (step * np.arange(-(kernel.size // 2), kernel.size // 2 + 1)) ** 2)
    return math.ceil((_DEVIATIONS * math.sqrt(squared) + squared / 2) / step) + kernel.size // 2


_DEVIATIONS = 10.0
_SHAPES = (
    (2.0, 0.0),
    *itertools.product((2.0, 4.0, 6.0, 9.0), (0.1, 0.03, 0.01, 3e-3, 1e-3, 3e-4, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)),
)
"""Of releases without choice: squared distance of the rarer one in units of the number's, and how rare it is."""
_NARROW, _WIDE, _KNOTS = 0.3, 1.1, 9
"""Least and most of the squared distance of the other one, in the same units, and how many are looked at first."""


def _at_least(
    values: np.ndarray, target: np.ndarray, step: float, mu: float, reach: int, order: float
) -> np.ndarray | None:
    """A release on the grid without choice that in front of V is at least ``target`` at each row: its kernel.

    Of those that are tried, about the one that tells least at ``order``. None if none of them does.
    """
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
    """A release on the grid that tells about as much as a Gaussian of squared distance ``squared``: float64.

    Exchanging its inputs turns it round, whatever is cut off: q / p is e^(step k), and q the mirror image of p.
    """
    k = step * np.arange(-reach, reach + 1)
    weights = np.exp(-(k**2) / (2 * squared) - k / 2)
    return weights / weights.sum()


def _own_excess(kernel: np.ndarray, step: float) -> np.ndarray:
    """``excess`` of a release on the grid that is its own mirror image: float64, shape of the kernel."""
    reach = kernel.size // 2
    gammas = np.exp(step * np.arange(reach + 1))
    # gamma = e^(step i): the sum over k < -i of p_k (1 - e^(step (i + k)))
    with_p = np.cumsum(kernel[:reach])[::-1]
    with_q = np.cumsum(kernel[:reach] * np.exp(step * np.arange(-reach, 0)))[::-1]
    above = np.append(np.maximum(with_p - gammas[:-1] * with_q, 0.0), 0.0)
    below = (above / gammas)[:0:-1]
    return np.concatenate((below, above))


_WIDER, _RARE = 4.0, (1e-3, 1e-4, 1e-5)
"""A release without choice is one of about the same distance, or rarely one of twice that, whose tail is above all."""
_BESIDE = (2.5, 3.5, 5.0, 7.0)
"""Distances of the imagined release that are tried, in units of the largest of those that are to be compared."""
_FAR = 9.0
"""Standard deviations of what is imagined that are looked at."""


def _without_choice(
    profiles: np.ndarray, mu: float, beside: np.ndarray, step: float
) -> tuple[np.ndarray, float] | None:
    """A release on the grid that beside ``beside`` tells at least as much as each of the profiles, and its squared
    distance; None if there is none of at most twice that of the number or the histogram.
    """
    reach = profiles.shape[1] // 2
    largest = np.max([np.convolve(profile, beside[::-1]) for profile in profiles], axis=0) * (1 + 1e-9)
    wider = _kernel(_WIDER * mu**2, step, reach)

    def mixed(squared: float, rare: float) -> np.ndarray:
        return (1 - rare) * _kernel(squared, step, reach) + rare * wider

    def enough(squared: float, rare: float) -> bool:
        found = np.convolve(_own_excess(mixed(squared, rare), step), beside[::-1])
        return bool(np.all(found * (1 - 1e-9) >= largest))

    best: tuple[np.ndarray, float] | None = None
    for rare in _RARE:
        low, high = 0.3 * mu**2, 2 * mu**2
        if not enough(high, rare):
            continue
        while high - low > 1e-4 * high:
            middle = (low + high) / 2
            low, high = (low, middle) if enough(middle, rare) else (middle, high)
        squared = (1 - rare) * high + rare * _WIDER * mu**2
        if best is None or squared < best[1]:
            best = mixed(high, rare), squared
    return best


def _profiles_of(release: OneRelease, step: float, far: float) -> Choices:
    """All that one release of any kind can be, on a grid of log gamma with spacing ``step``."""
    reach = Reach(far, 0.0)
    most = math.ceil((1.15 * far * release.mu + release.mu**2) / step) + 3
    if release.what == "argmax":
        return winners(reduce(release.sigma, release.noise, release.votes, FINE), reach, step, most)
    if release.what == "check":
        return checks(reduce(release.sigma, release.noise, release.votes, FINE_LINE), reach, step, most)
    gammas = _gammas(step, most)
    if release.noise is Noise.CONTINUOUS:
        above = gaussian_profile(release.mu, gammas[most:]) * (1 + 1e-9)
        # exchanging the inputs: what is above 1 - gamma at 1 / gamma is what is above 0 at gamma, over gamma
        profile = np.concatenate(((above / gammas[most:])[:0:-1], above))[None]
        return _choices(profile, 0.0)
    lattice = Lattice(release.sigma, release.votes, 0.0)
    end = math.ceil(far * math.sqrt(2) * release.sigma + 2 * release.votes)
    offsets = np.arange(-end, end - 2 * release.votes + 1)
    moved = 2.0 * release.votes
    profile = excess(Pairs(*(difference(lattice, offsets, x)[:, None] for x in (0.0, moved))), gammas)
    return _choices(profile, duel_tail(lattice, reach))


class _Whole(NamedTuple):
    """Profile of a composition: V at gamma = e^(step i), i = 0, 1, ..., and what is to be added to it.

    tail : in units of 1 + gamma.
    """

    values: np.ndarray
    step: float
    tail: float


def _power(kernel: np.ndarray, times: int, reach: int) -> tuple[np.ndarray, float]:
    """``times`` releases on the grid, one after another, and the mass that was cut off because it is beyond ``reach``.

    What is too far on the other side is moved to the end: a smaller q / p tells more.
    """
    result, lost, base, base_lost = np.ones(1), 0.0, kernel, 0.0
    while True:
        if times % 2:
            result, more = _trimmed(np.convolve(result, base), reach)
            lost += base_lost + more
        times //= 2
        if not times:
            return result, lost
        base, more = _trimmed(np.convolve(base, base), reach)
        base_lost = 2 * base_lost + more


def _trimmed(kernel: np.ndarray, reach: int) -> tuple[np.ndarray, float]:
    over = kernel.size // 2 - reach
    if over <= 0:
        return kernel, 0.0
    middle = kernel[over:-over].copy()
    middle[-1] += kernel[-over:].sum()
    return middle * _DOT, float(kernel[:over].sum())


def _after(values: np.ndarray, step: float, kernel: np.ndarray) -> np.ndarray:
    """V with a release on the grid in front, at all rows where that is not as at the last."""
    reach = kernel.size // 2
    return np.convolve(_around(values, step, reach, values.size + reach), kernel[::-1], "valid") * _DOT


@lru_cache(maxsize=4)
def _groups_of(release: OneRelease, far: float) -> tuple[list[_Group], float]:
    """Groups on the grid of this release, and its tail."""
    step = STEP * release.mu
    family = _profiles_of(release, step, far)
    return _groups(family.profiles, step), family.tail


@lru_cache(maxsize=64)
def _composed(counts: tuple[tuple[OneRelease, int], ...], delta: float, growth: float = GROWTH) -> _Whole | None:
    """The profile of all of them: the first is induced over, the others are without choice. None if none is found."""
    (core, times), *others = counts
    variance = 0.66 * times * core.mu**2 + sum(0.7 * n * release.mu**2 for release, n in others)
    epsilon = epsilon_of(variance, delta)
    total = sum(n for _, n in counts)
    left_out = delta * 1e-4 / total
    far = max(6.0, float(-ndtri(left_out / (1 + math.exp(min(epsilon, 50.0))))))
    far = math.ceil(2 * far) / 2  # compositions of like size share what was computed
    if far > _MOST_FAR:
        return None
    step, order = STEP * core.mu, epsilon / variance + 0.5
    groups, tail = _groups_of(core, far)
    values, added = induced(groups, step, core.mu, times, order, left_out, growth * math.sqrt(times))
    tail *= times
    if others:
        families = [(release, n, _profiles_of(release, step, far)) for release, n in others]
        widest = max(release.mu for release, _ in others)
        best: tuple[float, np.ndarray, list[np.ndarray]] | None = None
        for distance in _BESIDE:
            squared = (distance * widest) ** 2
            beside = _kernel(squared, step, math.ceil(_FAR * math.sqrt(squared) / step))
            kernels = [_without_choice(f.profiles, release.mu, beside, step) for release, _, f in families]
            known = [k for k in kernels if k is not None]
            if len(known) < len(kernels):
                continue
            cost = squared + sum(n * k[1] for (_, n, _), k in zip(families, known, strict=True))
            if best is None or cost < best[0]:
                best = cost, beside, [k[0] for k in known]
        if best is None:
            return None
        values = _shortened(_after(values, step, best[1]), left_out)
        for (_, n, f), kernel in zip(families, best[2], strict=True):
            front, lost = _power(kernel, n, _far(kernel, step, n))
            values = _shortened(_after(values, step, front), left_out)
            tail += n * f.tail + lost
    return _Whole(values + added, step, tail)


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


_CLOSE = 1e-4


def _along_moves(whole: _Whole, delta: float, moves: int) -> float:
    """The same for neighbours that are so many moves apart.

    Of one move an event of probability x under one input has at most f(x) = min over gamma of V(gamma) + gamma x under
    the other; f is concave and rises. So delta is at most the largest f(f(...f(x))) - e^epsilon x.
    """
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

    coarse = np.arange(-690.0, 0.0, 0.05)
    little = int(np.count_nonzero(reached(np.exp(coarse)) <= delta))
    if not little:
        return math.inf
    x = np.exp(np.append(np.arange(coarse[little - 1], 0.0, _CLOSE), 0.0))
    # between two x at most f at the larger, less e^epsilon times the smaller
    most = float(((reached(x)[1:] - delta) / x[:-1]).max())
    return math.log(max(most, 1.0)) * (1 + 1e-12)


_WINDOW = 0.006
"""Share by which noise may be below that from which a coarser lattice is taken, where .4 % more is lost."""


def _until_coarser(release: OneRelease) -> tuple[OneRelease, ...]:
    """The release, and the one with the least noise of the next lattice if that is near: its epsilon is not less than
    ours by more than lattices differ, and the larger of both falls with the noise."""
    fine = FINE if release.what == "argmax" else FINE_LINE
    following = fine * max(2, int(release.sigma / fine) + 1)
    near = release.noise is Noise.DISCRETE and release.sigma >= following * (1 - _WINDOW)
    return (release, release._replace(sigma=following)) if near else (release,)


_DIGITS = 7
_NEAR_ENOUGH = 1.5
"""Distances of other kinds in units of that which is induced over: larger ones would take a grid too fine for them."""
_MOST_FAR = 10.0
"""Noise parameters within which places are tried: beyond, they would take more than a second and 100 MB."""


def _in_order(counts: dict[OneRelease, int]) -> list[tuple[OneRelease, int]]:
    """What is induced over first: of winners and checks that which contributes most."""
    return sorted(counts.items(), key=lambda item: (item[0].what == "histogram", -item[1] * item[0].mu ** 2, item[0]))


def adaptive_epsilon(parts: Sequence[Composed], delta: float) -> float:
    """Least epsilon at ``delta`` of an adaptive composition in any order: an upper bound, data-independent.

    inf where nothing is computed: more than ``MOST_RELEASES`` of the kind that tells most, histograms alone, another
    kind that tells much more at once, noise of less than one or more than 1e5 times the votes of a move, a delta below
    1e-20 for each release (for several moves sooner).

    Raises
    ------
    DeltaError, EventError, NoiseError, UnitError.

    >>> adaptive_epsilon([Composed(10, "check", 20.0, Noise.DISCRETE)], 1e-5) < 0.52
    True
    """
    check_delta(delta)
    counts, moves = counted(parts)
    if not counts:
        return 0.0
    (core, times), *others = order = _in_order(counts)
    if core.what == "histogram" or times > MOST_RELEASES:
        return math.inf
    if any(release.mu > _NEAR_ENOUGH * core.mu for release, _ in others):
        return math.inf
    if not all(release.within_reach for release in counts):
        return math.inf
    found = []
    for release in _until_coarser(core):
        sizing = delta
        if moves > 1:  # what is left over after one move grows along the others
            rough = epsilon_of(0.66 * sum(n * each.mu**2 for each, n in order), delta)
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
