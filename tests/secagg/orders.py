"""Seeded sessions of a lying coordinator, in any order: what parties unmask, held against the two rules.

It asks old queries again, starts sessions side by side, leaves out whom it likes and unmasks what it can. No query may
be in two noisy sums that were unmasked, and exact sums are over whole blocks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from pathlib import Path
from random import Random

import numpy as np

from consilium.protocol.messages import WireModel
from consilium.sums.errors import BadShare, SecAggError, ThresholdNotMet
from consilium.sums.masks.machine import Aggregation
from consilium.sums.roster import whole
from tests.secagg.network import Federation, make_queries


class Forgery(AssertionError):
    """A rule was broken."""


class Sessions:
    """A coordinator that lies about everything but signatures, against parties that keep their state.

    It asks sets that overlap, under two federations, keeps sessions open and goes on with any of them at random, over
    any invited parties, any U3 within U2, and unmasks whatever t parties sign. What parties refuse, they refuse with a
    typed error. What came out is held against the two rules.
    """

    PARTIES, POOL, OPEN = 7, 6, 4

    def __init__(self, folder: Path, seed: int) -> None:
        self._random = Random(seed)
        self._federation = Federation(folder, self.PARTIES, teachers=1, queries=make_queries(self.POOL, seed=seed))
        self._federation.noise = lambda sigma, shape: np.zeros(shape, dtype=np.int64)
        self._pool = self._federation.queries
        self._open: list[tuple[Aggregation, frozenset[int]]] = []
        self.unmasked: list[tuple[bool, frozenset[int], frozenset[int]]] = []
        self.outcomes: Counter[str] = Counter()

    def step(self) -> None:
        """Begin a session, or take one of those that are open one stage further."""
        random = self._random
        if len(self._open) < self.OPEN and random.random() < 0.4:
            asked = frozenset(random.sample(range(self.POOL), random.choice((1, 2))))
            queries = np.ascontiguousarray(self._pool[sorted(asked)])
            noise = random.choice(({}, {"sigma": 2.0, "noise_shares": 2}))
            terms = self._federation.terms(queries=queries, federation=random.choice("ef") * 64, **noise)
            out = random.choice((0, 0, 1, 2, 2))
            invited = random.sample(self._federation.names, self.PARTIES - out)
            self._open.append(
                (self._federation.machine(terms, queries=queries, invited=invited, choose=self._choose), asked)
            )
        if not self._open:
            return
        at = random.randrange(len(self._open))
        machine, asked = self._open[at]
        assert machine.stage is not None
        replies: dict[str, WireModel | str] = {}
        for name, request in machine.requests().items():
            try:
                replies[name] = self._federation.serve(name, machine.stage, request)
            except SecAggError as error:
                self.outcomes[f"{machine.stage}, {type(error).__name__}"] += 1
        try:
            machine.take(replies)
        except (ThresholdNotMet, BadShare):
            if random.random() < 0.5:
                del self._open[at]
            return
        if machine.stage is None:
            exact = machine.terms.sigma == 0
            self.unmasked.append((exact, frozenset(machine.summed), asked))
            self.outcomes["unmasked, exact" if exact else "unmasked"] += 1
            del self._open[at]

    def _choose(self, answered: Collection[int]) -> Collection[int]:
        roster = self._federation.roster
        blocks = whole(roster.blocks, answered)
        if len(blocks) >= roster.u_min and self._random.random() < 0.5:
            return blocks
        return self._random.sample(sorted(answered), self._random.randint(roster.u_min, len(answered)))

    def check(self) -> None:
        """Raise Forgery if a rule was broken."""
        asked = Counter(query for exact, _, queries in self.unmasked for query in queries if not exact)
        if asked and max(asked.values()) > 1:
            raise Forgery("a query is in two noisy sums that were unmasked")
        blocks = self._federation.roster.blocks
        if any(exact and summed != whole(blocks, summed) for exact, summed, _ in self.unmasked):
            raise Forgery("an exact sum that was unmasked has a part of a block in it")
