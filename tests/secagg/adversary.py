"""An adversary at the level of the rule alone: it makes rosters, asks for sums, and keeps each that the honest parties'
rule lets pass, all on one question. It wins where a combination of its sums is one honest party's vote alone.

It knows c parties' votes. It draws up to eight rosters of the same hospitals, who leave, join, and have new keys, with
blocks and weights that it chooses, and of each asks for sums over blocks and over any sets, among them those of known
attacks. The rules of before are here as controls.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from random import Random

import numpy as np

from consilium.sums.errors import BrokenBlock
from consilium.sums.roster import Blocks, assigned, blocks_of, check_blocks, check_kept, check_whole

PRIME = 2**31 - 1
MOST_ROSTERS, MOST_SUMS = 6, 3


@dataclass(frozen=True)
class Drawn:
    """A roster: hospital and key by place, numbers of blocks. name: its hash."""

    name: int
    hospitals: tuple[int, ...]
    keys: tuple[int, ...]
    numbers: tuple[int, ...]
    least: int

    @property
    def blocks(self) -> Blocks:
        """Places by block."""
        return blocks_of(self.numbers)


@dataclass
class Kept:
    """The rule, by the functions that nodes call. What each honest hospital remembers is its own, under any key."""

    first: dict[int, frozenset] = field(default_factory=dict)

    def gives(self, roster: Drawn, summed: frozenset[int], honest: Collection[int]) -> bool:
        """Whether all honest parties of a sum give to it; they remember it then."""
        try:
            check_whole(roster.blocks, summed)
            met = [(block, frozenset(roster.keys[at] for at in block)) for block in roster.blocks if block <= summed]
            for block, keys in met:
                for at in block:
                    if roster.hospitals[at] in honest:
                        self.look(keys, self.first.get(roster.hospitals[at], frozenset()))
        except BrokenBlock:
            return False
        for block, keys in met:
            for at in block:
                self.first[roster.hospitals[at]] = keys
        return True

    def look(self, block: frozenset, first: frozenset) -> None:
        """Raise BrokenBlock for another block than before."""
        check_kept(block, first)


class MayGrow(Kept):
    """A control: a block that has all of the one before, and others, is let pass."""

    def look(self, block: frozenset, first: frozenset) -> None:
        if not first <= block:
            raise BrokenBlock("lost one")


class ByRoster(Kept):
    """A control: what is remembered is of the roster's hash."""

    last = 0

    def gives(self, roster: Drawn, summed: frozenset[int], honest: Collection[int]) -> bool:
        if roster.name != self.last:
            self.first, self.last = {}, roster.name
        return super().gives(roster, summed, honest)


@dataclass
class Pairs:
    """A control, the rule of pairs: two sums under one roster are over the same parties, or differ by `least` on
    each side."""

    sets: dict[int, list[frozenset[int]]] = field(default_factory=dict)

    def gives(self, roster: Drawn, summed: frozenset[int], honest: Collection[int]) -> bool:
        """As `Kept.gives`."""
        earlier = self.sets.setdefault(roster.name, [])
        if not keeps_pairs(summed, earlier, roster.least):
            return False
        earlier.append(summed)
        return True


def keeps_pairs(summed: frozenset[int], earlier: Sequence[frozenset[int]], least: int) -> bool:
    """The rule of pairs on two sets."""
    return all(summed == other or min(len(summed - other), len(other - summed)) >= least for other in earlier)


def four_sums(places: Sequence[int], size: int) -> list[frozenset[int]]:
    """A + B - C - D is the first place alone, and each pair keeps `size`: {0}+P+Q, R+S, P+R, Q+S, and all others."""
    p, q, r, s = (frozenset(places[1 + at * size : 1 + (at + 1) * size]) for at in range(4))
    rest = frozenset(places[1 + 4 * size :])
    return [frozenset(places[:1]) | p | q | rest, r | s | rest, p | r | rest, q | s | rest]


def without_lines(places: Sequence[int]) -> list[frozenset[int]]:
    """Seven sums, each without a line of the Fano plane: they tell differences of two of seven parties' votes."""
    lines = ((0, 1, 2), (0, 3, 4), (0, 5, 6), (1, 3, 5), (1, 4, 6), (2, 3, 6), (2, 4, 5))
    return [frozenset(places) - {places[at] for at in line} for line in lines]


def alone(sums: np.ndarray) -> list[int]:
    """Columns that are the only ones of some combination of the rows, int64 (sums, columns): modulo a prime, the rows
    of the reduced echelon form that have one entry."""
    rows = sums.astype(np.int64) % PRIME
    rank = 0
    for column in range(rows.shape[1]):
        pivots = np.flatnonzero(rows[rank:, column]) if rank < len(rows) else ()
        if not len(pivots):
            continue
        rows[[rank, rank + pivots[0]]] = rows[[rank + pivots[0], rank]]
        rows[rank] = rows[rank] * pow(int(rows[rank, column]), -1, PRIME) % PRIME
        others = np.flatnonzero(rows[:, column])
        others = others[others != rank]
        rows[others] = (rows[others] - rows[others, column][:, None] * rows[rank]) % PRIME
        rank += 1
    reduced = rows[:rank]
    return [int(np.flatnonzero(row)[0]) for row in reduced if np.count_nonzero(row) == 1]


@dataclass(frozen=True)
class Outcome:
    """Sums that passed, sums asked for, and honest hospitals whose vote a combination is. twins: whether every honest
    hospital in a sum has one that is in the same sums."""

    passed: int
    asked: int
    read: int
    twins: bool


def play(seed: int, rule: Callable[[], Kept | Pairs], least_parties: int = 10, most_parties: int = 207) -> Outcome:
    """One history of rosters and sums."""
    random = Random(seed)
    n, colluders = random.randint(least_parties, most_parties), random.choice((0, 0, 1, 2, 3))
    hospitals = list(range(n))
    keys = {hospital: hospital for hospital in hospitals}
    corrupt = frozenset(random.sample(hospitals, colluders))
    honest = frozenset(range(2 * n)) - corrupt
    held, least = rule(), colluders + 2
    roster = _drawn(0, hospitals, keys, least)
    rows: list[np.ndarray] = []
    asked = 0
    for name in range(random.randint(2, MOST_ROSTERS)):
        if name:
            roster = _next(name, roster, hospitals, keys, n, random) or roster
        for summed in _sets(roster, random):
            asked += 1
            if held.gives(roster, summed, honest):
                row = np.zeros(2 * n, dtype=np.int64)
                row[[roster.hospitals[at] for at in summed]] = 1
                rows.append(row)
    if not rows:
        return Outcome(0, asked, 0, True)
    sums = np.array(rows)
    sums[:, sorted(corrupt)] = 0  # known: they are subtracted
    columns, counts = np.unique(sums[:, sums.any(axis=0)], axis=1, return_counts=True)
    read = [at for at in alone(columns) if counts[at] == 1]
    return Outcome(len(rows), asked, len(read), bool((counts > 1).all()))


def _drawn(name: int, hospitals: list[int], keys: dict[int, int], least: int, numbers: Sequence[int] = ()) -> Drawn:
    here = tuple(keys[each] for each in hospitals)
    numbers = tuple(numbers) or assigned([str(key) for key in here], least)
    return Drawn(name, tuple(hospitals), here, tuple(numbers), least)


def _next(
    name: int, roster: Drawn, hospitals: list[int], keys: dict[int, int], parties: int, random: Random
) -> Drawn | None:
    """Another roster: somebody leaves, comes, or has a new key; blocks as they were, anew, merged or mixed."""
    number_of = dict(zip(roster.hospitals, roster.numbers, strict=True))
    for _ in range(random.randint(0, 2)):
        match random.randrange(4):
            case 0 if len(hospitals) > 9:
                hospitals.remove(random.choice(hospitals))
            case 1 | 2:
                for _ in range(random.choice((1, 1, 2, 3))):
                    new = max(keys) + 1
                    if new < 2 * parties:
                        hospitals.append(new)
                        keys[new] = new
            case _:
                keys[random.choice(hospitals)] = random.randrange(10**6, 10**9)
    match random.randrange(6):
        case 0:
            random.shuffle(hospitals)
            return _drawn(name, hospitals, keys, roster.least)
        case 1:
            return _drawn(name, hospitals, keys, roster.least)
        case 2 if max(roster.numbers) > 1:  # two blocks are one
            one, other = random.sample(range(1, max(roster.numbers) + 1), 2)
            number_of = {each: one if number == other else number for each, number in number_of.items()}
        case 3:  # two parties change places
            one, other = random.sample(list(number_of), 2)
            number_of[one], number_of[other] = number_of[other], number_of[one]
        case _:
            pass
    last = max(roster.numbers, default=0)
    into = random.choice((0, random.randint(1, last) if last else 0, last + 1))
    numbers = [number_of.get(each, into) for each in hospitals]
    try:
        check_blocks(numbers, roster.least)
    except ValueError:
        return None  # no node takes such a roster
    return _drawn(name, hospitals, keys, roster.least, numbers)


def _sets(roster: Drawn, random: Random) -> list[frozenset[int]]:
    """Sums that are asked for."""
    everybody, blocks = frozenset(range(len(roster.keys))), roster.blocks
    places = random.sample(sorted(everybody), len(everybody))
    sets: list[frozenset[int]] = []
    for _ in range(random.randint(1, MOST_SUMS)):
        match random.randrange(4):
            case 0:
                sets.append(frozenset().union(*blocks))
            case 1 | 2 if blocks:
                some = random.sample(blocks, random.randint(1, len(blocks)))
                sets.append(frozenset[int]().union(*some))
            case 3:
                sets.append(frozenset(places[: random.randint(1, len(places))]))
            case _:
                sets.append(everybody - {random.choice(places)})
    if random.random() < 0.3 and len(places) > 4 * roster.least:
        sets += four_sums(places, roster.least)
    elif random.random() < 0.1:
        sets += without_lines(places)
    return sets
