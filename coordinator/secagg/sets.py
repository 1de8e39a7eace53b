"""Who is in a sum: chosen so that no party has to refuse it, and so that later sums find room.

All who answered, if the rule of `protocol.secagg.sets` allows it; else the parties of an earlier sum, if all of them
are there; else as many as a greedy choice can keep. Who is left out has dropped, as far as the protocol goes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from consilium.protocol.secagg.errors import SetTooClose
from consilium.protocol.secagg.sets import allowed, by_weight, nearest

TRIES = 32
"""Greedy choices with other ties; the first takes the best party each time."""


@dataclass(frozen=True)
class Chooser:
    """The rule, and what was summed before.

    n, u_min, least : parties in the roster, least in a sum, and its least_difference.
    earlier : sets of places that exact sums were unmasked over.
    spare : parties that a new set leaves out where u_min allows it: a set of all n leaves no room, since no other set
        has a party that it lacks.
    seed : of ties and of who is left out; public.
    """

    n: int
    u_min: int
    least: int
    earlier: Sequence[Collection[int]] = ()
    spare: int = 0
    seed: int = 0

    def __call__(self, answered: Collection[int]) -> frozenset[int]:
        """The places that are summed, within `answered`, at least u_min of them.

        Raises
        ------
        SetTooClose : no choice is found.
        """
        there = frozenset(answered)
        surplus = max(0, len(there) - max(self.u_min, self.n - self.spare))
        if not surplus and allowed(there, self.earlier, self.least):
            return there
        repeated = max((frozenset(old) for old in self.earlier if there >= set(old)), key=len, default=None)
        if repeated is not None and len(repeated) >= self.u_min:
            return repeated
        found = self._fewer(there, surplus)
        if found is None:
            raise SetTooClose(nearest(there, self.earlier) or 0, self.least)
        return found

    def _fewer(self, there: frozenset[int], surplus: int) -> frozenset[int] | None:
        """The parties that are there less at least `surplus`, so that each earlier set differs enough."""
        rng = np.random.default_rng(self.seed)
        inside = np.zeros((len(self.earlier), self.n), dtype=bool)
        for row, old in zip(inside, self.earlier, strict=True):
            row[list(old)] = True
        for attempt in range(TRIES):
            found = self._greedy(there, surplus, inside, rng, 0.0 if attempt == 0 else 1.5)
            if found is not None:
                return found
        return None

    def _greedy(
        self, there: frozenset[int], surplus: int, inside: np.ndarray, rng: np.random.Generator, wander: float
    ) -> frozenset[int] | None:
        """Leave out, one by one, whoever is in most of the earlier sets that still differ too little.

        inside : bool (earlier sets, n). wander : how far a party may be from the best and still be taken.
        """
        kept = np.zeros(self.n, dtype=bool)
        kept[list(there)] = True
        while True:
            missing = self.least - (inside & ~kept).sum(axis=1)  # that must still go from each earlier set
            room = (kept & ~inside).sum(axis=1) - self.least  # that may still go from beside it
            if (room < 0).any():
                return None
            if (missing <= 0).all() and len(there) - kept.sum() >= surplus:
                return frozenset(np.flatnonzero(kept).tolist())
            free = kept & ~(~inside[room == 0]).any(axis=0)
            score = inside[missing > 0].sum(axis=0) + (1e-6 + wander) * rng.random(self.n)
            useful = free & (inside[missing > 0].any(axis=0) if (missing > 0).any() else True)
            if not useful.any() or kept.sum() <= self.u_min:
                return None
            kept[int(np.argmax(np.where(useful, score, -1.0)))] = False


@dataclass(frozen=True)
class WeightedChooser:
    """The same where parties have weights: the rule holds for the parties of each weight, which are chosen apart.

    weights : by place. whole : the rule for all parties; its `spare` is divided among the weights.
    """

    weights: Sequence[int]
    whole: Chooser

    def __call__(self, answered: Collection[int]) -> frozenset[int]:
        """The places that are summed, within `answered`, at least u_min of them.

        Raises
        ------
        SetTooClose : no choice is found, or too few are left.
        """
        chosen = frozenset[int]().union(*(self._of(group, answered) for group in by_weight(self.weights)))
        if len(chosen) < self.whole.u_min:
            raise SetTooClose(0, self.whole.least)
        return chosen

    def _of(self, group: frozenset[int], answered: Collection[int]) -> frozenset[int]:
        """Those of one weight. None of them where they are too few, or no earlier sum had any."""
        least, before = self.whole.least, [group & {*old} for old in self.whole.earlier]
        there = group & {*answered}
        if before and not any(before):
            return frozenset()
        if len(there) < least:
            if any(before):
                raise SetTooClose(0, least)
            return frozenset()
        places = sorted(group)
        at = {place: number for number, place in enumerate(places)}
        choose = replace(
            self.whole,
            n=len(places),
            u_min=least,
            earlier=[frozenset(at[place] for place in old) for old in before],
            spare=self.whole.spare * len(places) // self.whole.n,
        )
        return frozenset(places[number] for number in choose(frozenset(at[place] for place in there)))
