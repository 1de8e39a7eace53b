"""Which simulated parties are not like the others: a kind of teacher of their own, or a policy of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

import numpy as np

from consilium.protocol.parties.teachers import TeacherKind
from consilium.simulations.population.specs import PolicyShare, TeacherShare

_TEACHERS, _POLICIES = 0x6B696E64, 0x706F6C69
"""Purposes of the two lots, which are drawn apart."""


class _Share(Protocol):
    @property
    def share(self) -> float: ...


S = TypeVar("S", bound=_Share)


def own_teachers(shares: Sequence[TeacherShare], parties: int, seed: int) -> dict[int, TeacherKind]:
    """Index of a party -> its own teacher, drawn by lot; parties without one train what the coordinator asks."""
    return {index: item.teacher for index, item in _drawn(shares, parties, seed, _TEACHERS).items()}


def own_limits(shares: Sequence[PolicyShare], parties: int, seed: int) -> dict[int, float]:
    """Index of a party -> the largest epsilon of its own policy, drawn by lot; the others allow anything."""
    return {index: item.most_epsilon for index, item in _drawn(shares, parties, seed, _POLICIES).items()}


def _drawn(shares: Sequence[S], parties: int, seed: int, purpose: int) -> dict[int, S]:
    """The numbers of parties are the shares' multiples of `parties`, rounded so that the shares taken together are
    met."""
    order = np.random.default_rng([seed, purpose]).permutation(parties)
    ends = np.rint(np.cumsum([item.share for item in shares]) * parties).astype(int)
    own: dict[int, S] = {}
    start = 0
    for item, end in zip(shares, ends, strict=True):
        own.update({int(index): item for index in order[start:end]})
        start = end
    return own
