"""Which simulated parties are not like the others: a kind of teacher of their own, or a policy of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

import numpy as np

from consilium.party.teachers.ensemble import check_rows
from consilium.protocol.errors import ConfigError
from consilium.protocol.parties.refusals import Refused
from consilium.protocol.parties.teachers import TeacherKind
from consilium.protocol.rows.schema import Schema
from consilium.simulations.population.specs import PolicyShare, SimulationSpec, TeacherShare

_TEACHERS, _POLICIES = 0x6B696E64, 0x706F6C69
"""Purposes of the two lots, which are drawn apart."""


class _Share(Protocol):
    @property
    def share(self) -> float: ...


S = TypeVar("S", bound=_Share)


def own_teachers(
    shares: Sequence[TeacherShare], parties: int, seed: int, others: TeacherKind | None = None
) -> dict[int, TeacherKind]:
    """Index of a party -> its own teacher: that of its share, drawn by lot, else that of all `others`; parties without
    one train what the coordinator asks."""
    own = {} if others is None else dict.fromkeys(range(parties), others)
    return own | {index: item.teacher for index, item in _drawn(shares, parties, seed, _TEACHERS).items()}


def teachers_named(simulation: SimulationSpec) -> list[TeacherKind]:
    """Every teacher that some simulated party may have of its own."""
    everybody = [] if simulation.own_teacher is None else [simulation.own_teacher]
    return [*everybody, *(item.teacher for item in simulation.teachers)]


def check_own_teachers(simulation: SimulationSpec, schema: Schema) -> None:
    """Raise ConfigError unless each can be trained on made-up rows of this schema: once here, before all parties."""
    for teacher in teachers_named(simulation):
        try:
            check_rows(teacher, schema)
        except Refused as error:
            raise ConfigError(f"a simulated party's own teacher: {error.detail}") from None


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
