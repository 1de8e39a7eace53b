"""A mechanism by its parameters alone: what it would be charged for, without what draws its noise.

The mechanisms that draw noise stand with the coordinator; both make the same events, so that both cost the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from consilium.accounting.errors import EventError
from consilium.accounting.events import (
    ConfidentEvent,
    GNMaxEvent,
    HistogramEvent,
    InteractiveEvent,
    LNMaxEvent,
    ReleaseEvent,
)
from consilium.accounting.units import MechanismName, Neighbouring, Noise, Towards, Unit


class _Kind(NamedTuple):
    """What is charged, its parameters, and which of them is noise: 1 if it grows with the noise, -1 if it falls.

    The noise on a count, which answers the label, stands last.
    """

    event: type[ReleaseEvent]
    parameters: tuple[str, ...]
    noise: Mapping[str, int]


_KINDS: dict[MechanismName, _Kind] = {
    "GNMax": _Kind(GNMaxEvent, ("sigma",), {"sigma": 1}),
    "LNMax": _Kind(LNMaxEvent, ("gamma",), {"gamma": -1}),
    "Confident": _Kind(ConfidentEvent, ("threshold", "sigma1", "sigma2"), {"sigma1": 1, "sigma2": 1}),
    "Interactive": _Kind(InteractiveEvent, ("threshold", "sigma1", "sigma2"), {"sigma1": 1, "sigma2": 1}),
    "Histogram": _Kind(HistogramEvent, ("sigma",), {"sigma": 1}),
}


@dataclass(frozen=True, slots=True)
class Aggregator:
    """A mechanism as accounting knows it: its name, and its parameters in the order in which they are written.

    Made by `GNMax`, `LNMax`, `Confident`, `Interactive` and `Histogram`.

    Raises
    ------
    EventError, NoiseError, ThresholdError : parameters that it cannot have.
    """

    name: MechanismName
    parameters: tuple[tuple[str, float], ...]

    def __post_init__(self) -> None:
        wanted, given = _KINDS[self.name].parameters, [name for name, _ in self.parameters]
        if sorted(given) != sorted(wanted):
            raise EventError(f"{self.name} takes {', '.join(wanted)}, got {', '.join(given) or 'nothing'}. Give these.")
        self.event(0)
        object.__setattr__(self, "parameters", tuple((name, float(value)) for name, value in self.parameters))

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(f'{name}={value:.10g}' for name, value in self.parameters)})"

    def event(
        self,
        asked: int,
        answered: int | None = None,
        *,
        unit: Unit | str = Unit.PARTY,
        neighbouring: Neighbouring | str = Neighbouring.REPLACE,
        teachers_per_party: int = 1,
        noise: Noise | str = Noise.DISCRETE,
    ) -> ReleaseEvent:
        """What is charged for ``asked`` queries of which ``answered`` (None: all) get a label.

        Raises
        ------
        EventError, UnitError : counts or words that no release can have.

        >>> GNMax(sigma=40).event(100).worst_case_rdp([2.0]).shape
        (1,)
        """
        make = _KINDS[self.name].event
        return make(
            asked=asked,
            answered=asked if answered is None else answered,
            unit=unit,  # pyright: ignore[reportArgumentType]
            neighbouring=neighbouring,  # pyright: ignore[reportArgumentType]
            teachers_per_party=teachers_per_party,
            towards=Towards.STUDENT,
            noise=noise,  # pyright: ignore[reportArgumentType]
            **dict(self.parameters),  # pyright: ignore[reportArgumentType]
        )

    def value(self, name: str) -> float | None:
        """A parameter by its name; None if this mechanism has none of that name."""
        return dict(self.parameters).get(name)

    def with_noise(self, amount: float) -> Aggregator:
        """The same with so much noise on a count; the noise of a check keeps its ratio to it.

        amount : standard deviation of Gaussian noise, or the scale 1 / gamma of Laplace noise.

        >>> Confident(threshold=200, sigma1=150, sigma2=40).with_noise(80)
        Confident(threshold=200, sigma1=300, sigma2=80)
        """
        powers, before = _KINDS[self.name].noise, dict(self.parameters)
        label, power = list(powers.items())[-1]
        factor = amount / before[label] ** power
        scaled = {name: before[name] * factor**sign for name, sign in powers.items()}
        return Aggregator(self.name, tuple((before | scaled).items()))


def GNMax(sigma: float) -> Aggregator:
    """argmax of votes + N(0, sigma^2) on each count; answers every query. Papernot et al. 2018, Section 3.1.

    >>> GNMax(sigma=40)
    GNMax(sigma=40)
    """
    return Aggregator("GNMax", (("sigma", sigma),))


def LNMax(gamma: float) -> Aggregator:
    """argmax of votes + Lap(1/gamma) on each count; answers every query. Papernot et al. 2017."""
    return Aggregator("LNMax", (("gamma", gamma),))


def Confident(threshold: float, sigma1: float, sigma2: float) -> Aggregator:
    """GNMax (sigma2) where the top count + N(0, sigma1^2) reaches the threshold. Papernot et al. 2018, Algorithm 1."""
    return Aggregator("Confident", (("threshold", threshold), ("sigma1", sigma1), ("sigma2", sigma2)))


def Interactive(threshold: float, sigma1: float, sigma2: float) -> Aggregator:
    """The same check on what votes exceed the student's predictions by. Papernot et al. 2018, Algorithm 2."""
    return Aggregator("Interactive", (("threshold", threshold), ("sigma1", sigma1), ("sigma2", sigma2)))


def Histogram(sigma: float) -> Aggregator:
    """votes + N(0, sigma^2) on each count, all of which is released."""
    return Aggregator("Histogram", (("sigma", sigma),))
