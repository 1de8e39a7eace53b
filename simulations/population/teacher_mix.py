"""Which simulated parties train a kind of teacher of their own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from consilium.protocol.parties.teachers import TeacherKind
from consilium.simulations.population.specs import TeacherShare

_PURPOSE = 0x6B696E64


def own_teachers(shares: Sequence[TeacherShare], parties: int, seed: int) -> dict[int, TeacherKind]:
    """Index of a party -> its own teacher, drawn by lot; parties without one train what the coordinator asks.

    The numbers of parties are the shares' multiples of `parties`, rounded so that the shares taken together are met.
    """
    order = np.random.default_rng([seed, _PURPOSE]).permutation(parties)
    ends = np.rint(np.cumsum([item.share for item in shares]) * parties).astype(int)
    own: dict[int, TeacherKind] = {}
    start = 0
    for item, end in zip(shares, ends, strict=True):
        own.update({int(index): item.teacher for index in order[start:end]})
        start = end
    return own
