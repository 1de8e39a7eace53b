"""Noise that the phases of a schedule leave out, from the one epsilon that they may cost together.

Equal spend: each of them costs the same epsilon by itself, and as much as the whole allows. Phases that state all their
noise keep it and count in the whole. Looks at caps and mechanisms, never at votes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter, ValidationError

from consilium.accounting.errors import CalibrationError
from consilium.accounting.events.release import ReleaseEvent
from consilium.accounting.planning.target import as_histograms, worst_case
from consilium.coordinator.mechanisms import AnyMechanism
from consilium.coordinator.mechanisms.calibration import KINDS, WIDE, noise_scales, with_noise
from consilium.coordinator.phases import Caps, Phase

CLOSE = 5e-3
"""How far below the target the whole may stay, relative."""
MOST_STEPS = 8
_ADAPTER: TypeAdapter[AnyMechanism] = TypeAdapter(AnyMechanism)

Event = Callable[[AnyMechanism, Caps], ReleaseEvent]
"""The event of a phase whose caps are used up."""


@dataclass(frozen=True)
class OpenPhase:
    """One phase as its table has it. open_scales: fields of the mechanism's noise that the table leaves out."""

    mechanism: Mapping[str, Any]
    caps: Caps
    open_scales: tuple[str, ...]

    @classmethod
    def of(cls, phase: Any) -> OpenPhase:
        """A phase, or the table of one.

        Raises
        ------
        ValueError, TypeError : it is no table of tables, or its caps are wrong.
        """
        table = dict(phase)
        given = table.get("mechanism")
        mechanism = dict(given) if given is not None else {}
        kind = KINDS.get(str(mechanism.get("name", "")))
        scales = () if kind is None else tuple(name for name in noise_scales(kind) if name not in mechanism)
        return cls(mechanism, Caps.model_validate(table.get("caps")), scales)

    def widest(self) -> dict[str, Any]:
        """The mechanism's table with `WIDE` noise where it leaves some out."""
        scales = noise_scales(KINDS[self.mechanism["name"]]) if self.open_scales else {}
        return {**self.mechanism, **{name: scales[name].of(WIDE) for name in self.open_scales}}

    @property
    def is_sound(self) -> bool:
        """Whether nothing is wrong with the phase but that noise is left out."""
        try:
            Phase.model_validate({"mechanism": self.widest(), "caps": self.caps})
        except ValidationError:
            return False
        return True


def with_equal_spend(
    phases: Sequence[OpenPhase], epsilon: float, delta: float, event: Event
) -> list[Mapping[str, Any]]:
    """The mechanisms' tables with the noise that they leave out, so that all together cost just below `epsilon`.

    Tables that are wrong otherwise come back with any noise, for their own validation to say what is wrong.

    Raises
    ------
    CalibrationError : no noise is enough, or phases that state theirs cost too much already. AccountingError : one
        cannot be charged at this delta.
    """
    if not all(phase.is_sound for phase in phases):
        return [phase.widest() for phase in phases]
    stated = [phase for phase in phases if not phase.open_scales]
    if stated:
        fixed = [event(_ADAPTER.validate_python(dict(phase.mechanism)), phase.caps) for phase in stated]
        already = worst_case(fixed, delta).epsilon
        if already >= epsilon:
            raise CalibrationError(
                f"phases that state their noise cost epsilon {already:.4g} by themselves, privacy.epsilon is"
                f" {epsilon:g}. Raise it, or leave their noise out."
            )

    def spent(tables: Sequence[Mapping[str, Any]]) -> list[ReleaseEvent]:
        return [
            event(_ADAPTER.validate_python(dict(table)), phase.caps)
            for table, phase in zip(tables, phases, strict=True)
        ]

    def price(events: list[ReleaseEvent]) -> float:
        return worst_case(events, delta).epsilon

    def rough(events: list[ReleaseEvent]) -> float:
        return as_histograms(events, delta)

    opened = len(phases) - len(stated)
    # how the share of one phase follows from the whole is nearly the same for the bound that takes no time
    share, best = epsilon / math.sqrt(len(phases)), None
    for cost, steps in ((rough, MOST_STEPS), (price, MOST_STEPS)):
        for _ in range(steps):
            tables = [_filled(phase, share, event, cost, rough) for phase in phases]
            whole = cost(spent(tables))
            if whole <= epsilon and cost is price:
                best = tables
            if (1 - CLOSE) * epsilon <= whole <= epsilon:
                break
            share = _next(share, whole, (1 - CLOSE / 4) * epsilon, opened)
    if best is None:
        raise CalibrationError(f"no noise of the phases keeps epsilon {epsilon:g} together. Raise it, or ask less.")
    return best


def _next(share: float, whole: float, target: float, opened: int) -> float:
    """The share of each open phase at which the whole should cost `target`: as if squares of epsilons added up, which
    they nearly do where all noise is Gaussian; half the share, where that leaves nothing."""
    squared = share**2 + (target**2 - whole**2) / opened
    return math.sqrt(squared) if math.isfinite(squared) and squared > (share / 2) ** 2 else share / 2


Price = Callable[[list[ReleaseEvent]], float]
"""Epsilon of some releases together."""


def _filled(phase: OpenPhase, epsilon: float, event: Event, cost: Price, rough: Price) -> Mapping[str, Any]:
    """The table of one phase with noise at which it costs this epsilon by itself."""
    if not phase.open_scales:
        return phase.mechanism
    caps = phase.caps

    def alone(price: Price) -> Callable[[AnyMechanism], float]:
        return lambda mechanism: price([event(mechanism, caps)])

    return with_noise(phase.mechanism, caps.queries, caps.answers, epsilon, alone(cost), alone(rough))
