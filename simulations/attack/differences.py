"""Differences of sums: is some combination of sums over different parties one party's vote alone?

The adversary is the coordinator, and whoever writes rosters. On one question, or on rows that lie so near to it that
parties vote the same, it asks for sum after sum: over sets of parties of its choice, under rosters with other blocks,
without parties that left, with new keys, in federations of other names. It searches: from sets by lot, known plans, and
sets that differ a little from those that it has, it takes the one that brings some party nearest to being alone.

How near is the leverage of a party: the squared length of its unit vector within the span of all sums. 1 says that a
combination of them is its vote, 1/2 that another party is in the same sums. What honest parties let pass is decided by
the functions that nodes call (`sums.roster`), by what each has in its memory. Each rule of `CONTROLS` is one that
looks right and is none. Where sums have noise there is no such rule: any combination is to be had, and `deviation` is
how far it is from the vote.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from consilium.simulations.attack.shadows import Shadows
from consilium.sums.errors import BrokenBlock
from consilium.sums.roster import assigned, blocks_of, check_kept, check_whole, least_sum

HISTORIES = 20
"""Lives of a federation that are played under each rule."""
STEPS = 60
"""Sums that the adversary has at most in one of them; as many choices as `_CHOICES` precede each."""
_CHOICES = 24
_ALONE = 1 - 1e-9
MOST = 40
"""Parties that are told apart; any more are in every sum, and help nobody."""
_PLAN = 5
"""Parties of each group of a known plan of four sums, at most."""


@dataclass(frozen=True)
class SumQuery:
    """One sum. question, federation, roster: which row, name and roster, by number. keys: of each party, 0 where it has
    left. numbers: of the block of each, 0 of none. summed: places of the parties in it."""

    question: int
    federation: int
    roster: int
    keys: tuple[int, ...]
    numbers: tuple[int, ...]
    summed: frozenset[int]


class BlockRule:
    """The rule: an exact sum has all of a block, and a party's block is for ever that of its first sum."""

    def __init__(self) -> None:
        self._first: dict[int, frozenset[str]] = {}

    def grants(self, asked: SumQuery) -> bool:
        """Whether all parties of the sum give to it; they remember it then."""
        blocks = blocks_of(asked.numbers)
        try:
            check_whole(blocks, asked.summed)
            met = {
                place: frozenset(str(asked.keys[member]) for member in block)
                for block in blocks
                if block <= asked.summed
                for place in block
            }
            for place, keys in met.items():
                check_kept(keys, self._first.get(place, frozenset()))
        except BrokenBlock:
            return False
        self._first.update(met)
        return True


class ForgetfulBlocks(BlockRule):
    """A control: what is remembered is forgotten with the roster."""

    _roster = 0

    def grants(self, asked: SumQuery) -> bool:
        """See `BlockRule.grants`."""
        if asked.roster != self._roster:
            self._first, self._roster = {}, asked.roster
        return super().grants(asked)


class OnceRule:
    """A control: a question is summed once in a federation."""

    def __init__(self) -> None:
        self._questions: set[tuple[int, int]] = set()

    def grants(self, asked: SumQuery) -> bool:
        """See `BlockRule.grants`."""
        new = (asked.question, asked.federation) not in self._questions
        self._questions.add((asked.question, asked.federation))
        return new


class PairRule:
    """A control: two sums have the same parties, or differ by some on each side."""

    def __init__(self, least: int = 2) -> None:
        self._sets, self._least = list[frozenset[int]](), least

    def grants(self, asked: SumQuery) -> bool:
        """See `BlockRule.grants`."""
        near = [one for one in self._sets if one != asked.summed]
        if any(min(len(asked.summed - one), len(one - asked.summed)) < self._least for one in near):
            return False
        self._sets.append(asked.summed)
        return True


BLOCKS = "whole blocks, for ever"
NOISE = "noise in each sum"
CONTROLS: dict[str, Callable[[], Any]] = {
    "whole blocks, until there is a new roster": ForgetfulBlocks,
    "two sums differ by two parties on each side": PairRule,
    "a question is summed once in a federation": OnceRule,
}
"""Rules that look right. Each is beaten."""


@dataclass(frozen=True)
class Difference:
    """rule: what stands in the way. control: whether it is one that is known to be none. histories: lives that were
    played; read: those in which one party's vote came out. asked, granted: sums in all. nearest: the largest leverage
    of any party. deviation: of the noise on the vote that came out, in votes, the least of all lives; 0 of exact sums,
    None where none came out."""

    rule: str
    control: bool
    histories: int
    read: int
    asked: int
    granted: int
    nearest: float
    deviation: float | None

    def to_json(self) -> dict[str, Any]:
        return {
            "rule": self.rule,
            "control": self.control,
            "histories": self.histories,
            "read": self.read,
            "asked": self.asked,
            "granted": self.granted,
            "nearest": self.nearest,
            "deviation": self.deviation,
        }


class Span:
    """What the sums that somebody has tell of each of `parties`."""

    def __init__(self, parties: int) -> None:
        self.sets = list[frozenset[int]]()
        self.leverage = np.zeros(parties)
        self._basis = np.zeros((0, parties))

    def added(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of float64 (choices, parties) of 0 and 1: leverages (choices, parties) with each, and what is new in it."""
        rest = rows - (rows @ self._basis.T) @ self._basis
        rest -= (rest @ self._basis.T) @ self._basis
        length = np.linalg.norm(rest, axis=1, keepdims=True)
        rest = np.where(length > 1e-6, rest / np.maximum(length, 1e-6), 0.0)
        return self.leverage + rest**2, rest

    def add(self, summed: frozenset[int]) -> None:
        row = indicators([summed], len(self.leverage))
        leverage, rest = self.added(row)
        if rest.any():
            self.leverage, self._basis = leverage[0], np.concatenate([self._basis, rest])
        self.sets.append(summed)

    def weights(self) -> np.ndarray:
        """Of the combination of least squares that is nearest to the party that is most alone."""
        alone = np.eye(len(self.leverage))[int(self.leverage.argmax())]
        return np.linalg.lstsq(indicators(self.sets, len(alone)).T, alone, rcond=None)[0]


def indicators(sets: list[frozenset[int]], parties: int) -> np.ndarray:
    """float64 (sets, parties), 1 where a party is in a set."""
    rows = np.zeros((len(sets), parties))
    for place, members in enumerate(sets):
        rows[place, list(members)] = 1.0
    return rows


@dataclass
class Searcher:
    """parties: how many there are. least: of a block, c + 2. smallest: parties of a sum. It makes what it asks for by
    lot, and by what it has."""

    parties: int
    least: int
    smallest: int
    generator: np.random.Generator
    span: Span = field(init=False)
    _plan: list[frozenset[int]] = field(init=False)

    def __post_init__(self) -> None:
        self.span = Span(self.parties)
        self._roster, self._keys, self._next = 0, tuple(range(1, self.parties + 1)), self.parties + 1
        self._question, self._rosters = 0, list[tuple[tuple[int, ...], tuple[int, ...]]]()
        self._plan = _four_sums(self.generator.permutation(self.parties).tolist())
        self._numbers = self._divided()
        self._rosters.append((self._keys, self._numbers))

    def choices(self) -> list[SumQuery]:
        """Sums that it might ask for next, under the roster of now; sometimes it makes another one first."""
        if self.generator.random() < 0.2:
            self._another_roster()
        self._question += 1  # a row so near to the one before that the votes are the same
        sets = [self._set(number) for number in range(_CHOICES)]
        there = frozenset(place for place, key in enumerate(self._keys) if key)
        federation = int(self.generator.integers(3))
        return [
            SumQuery(self._question, federation, self._roster, self._keys, self._numbers, one)
            for one in dict.fromkeys(members & there for members in sets)
            if len(one) >= self.smallest
        ]

    def best(self, choices: list[SumQuery]) -> list[SumQuery]:
        """Those that bring some party nearest to being alone, first; a quarter of the time by lot."""
        if self.generator.random() < 0.25:
            return [choices[place] for place in self.generator.permutation(len(choices))]
        leverages, _ = self.span.added(indicators([one.summed for one in choices], self.parties))
        return [choices[place] for place in np.argsort(-leverages.max(axis=1), kind="stable")]

    def _set(self, number: int) -> frozenset[int]:
        """Known plans; sets that differ by a party or a block from what it has; whole blocks; sets by lot."""
        draw, everybody = self.generator, frozenset(range(self.parties))
        blocks = blocks_of(self._numbers)
        kind = number % 4
        if kind == 0 and self._plan and number < 4 * len(self._plan):
            return self._plan[number // 4]
        earlier = self.span.sets[int(draw.integers(len(self.span.sets)))] if self.span.sets else everybody
        if kind == 1:
            return earlier ^ {int(draw.integers(self.parties))}
        if kind == 2 and blocks:
            return earlier ^ blocks[int(draw.integers(len(blocks)))]
        if blocks and draw.random() < 0.5:
            return frozenset[int]().union(*(block for block in blocks if draw.random() < 0.6))
        return frozenset(np.flatnonzero(draw.random(self.parties) < draw.uniform(0.3, 1.0)).tolist())

    def _another_roster(self) -> None:
        """One of before, or one in which some leave, come back, or have a new key."""
        draw = self.generator
        if draw.random() < 0.5:
            self._roster = int(draw.integers(len(self._rosters)))
            self._keys, self._numbers = self._rosters[self._roster]
            return
        keys = list(self._keys)
        for place in draw.permutation(self.parties)[: 1 + int(draw.integers(3))]:
            leaves = keys[place] and draw.random() < 0.5
            keys[place], self._next = (0, self._next) if leaves else (self._next, self._next + 1)
        if sum(key > 0 for key in keys) >= self.least:
            self._roster, self._keys = len(self._rosters), tuple(keys)
            self._numbers = self._divided()
            self._rosters.append((self._keys, self._numbers))

    def _divided(self) -> tuple[int, ...]:
        """Blocks by lot; or those of before which are whole, and others of who is left."""
        order = self.generator.permutation([place for place, key in enumerate(self._keys) if key]).tolist()
        earlier = list[list[str]]()
        if self._rosters and self.generator.random() < 0.5:
            keys, numbers = self._rosters[int(self.generator.integers(len(self._rosters)))]
            earlier = [[str(keys[place]) for place in block] for block in blocks_of(numbers)]
        names = [str(self._keys[place]) for place in order]
        numbers = dict(zip(order, assigned(names, self.least, earlier), strict=True))
        return tuple(numbers.get(place, 0) for place in range(self.parties))


def _four_sums(places: list[int]) -> list[frozenset[int]]:
    """A + B - C - D is the first place alone: {0}+P+Q, R+S, P+R, Q+S, and all others in each."""
    size = min((len(places) - 1) // 4, _PLAN)
    p, q, r, s = (frozenset(places[1 + group * size : 1 + (group + 1) * size]) for group in range(4))
    rest = frozenset(places[1 + 4 * size :])
    return [frozenset(places[:1]) | p | q | rest, r | s | rest, p | r | rest, q | s | rest] if size > 1 else []


def differences(everything: Shadows) -> list[Difference]:
    """The search against the rule of this federation's collection, and against the controls; nothing where votes are
    plaintext, since the coordinator has them all."""
    config = everything.case.config
    if config.collection == "plaintext":
        return []
    names, least = len(everything.case.parties), config.colluders + 2
    parties = min(names, MOST)
    smallest = max(least_sum(names, config.colluders) - (names - parties), 1)
    sizes = (parties, least, smallest)
    if config.noise_in_sums:
        drawn = config.node_event(0, 0).party_noise(1)
        return [] if drawn is None else [searched(everything, NOISE, None, False, sizes, drawn.sigma)]
    rules = {BLOCKS: BlockRule, **CONTROLS}
    return [searched(everything, name, rule, name != BLOCKS, sizes, 0.0) for name, rule in rules.items()]


def searched(
    everything: Shadows,
    name: str,
    rule: Callable[[], Any] | None,
    control: bool,
    sizes: tuple[int, int, int],
    sigma: float,
) -> Difference:
    """All lives under one rule; `rule`: None lets everything pass. sizes: see `Searcher`. sigma: of the noise on a
    count of each sum."""
    read = asked = granted = 0
    nearest, deviations = 0.0, list[float]()
    for life in range(HISTORIES):
        searcher, guard = Searcher(*sizes, everything.generator(61, life)), rule() if rule else None
        for _ in range(STEPS):
            for choice in searcher.best(searcher.choices()):
                asked += 1
                if guard is None or guard.grants(choice):
                    granted += 1
                    searcher.span.add(choice.summed)
                    break
            if searcher.span.leverage.max() >= _ALONE:
                read += 1
                deviations.append(sigma * float(np.linalg.norm(searcher.span.weights())))
                break
        nearest = max(nearest, float(searcher.span.leverage.max()))
    deviation = min(deviations) if deviations else None
    if deviation is not None and not math.isfinite(deviation):
        deviation = None
    return Difference(name, control, HISTORIES, read, asked, granted, nearest, deviation)
