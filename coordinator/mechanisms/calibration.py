"""Noise that a mechanism's table leaves out, from the epsilon that a federation may promise.

A mechanism with two scales of noise gets sigma1 = sigma2 sqrt(3 queries / answers): its check, which every query pays
for, then takes a seventh of the worst-case cost (a quarter where it is a whole histogram), and the labels the rest.
That is close to what public votes chose for the default scenario.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from consilium.accounting.target import least_noise
from consilium.coordinator.mechanisms import ALL_MECHANISMS, AnyMechanism
from consilium.coordinator.mechanisms.base import Mechanism, NoiseScale

CHECK_RATIO = 3.0
"""Squared ratio of sigma1 to sigma2 for as many answers as queries."""

WIDE = 320.0
"""An amount of noise that every mechanism takes whose other keys are right."""

KINDS: dict[str, type[Mechanism]] = {kind.model_fields["name"].default: kind for kind in ALL_MECHANISMS}
"""Mechanism by the name that its table gives."""


_ADAPTER: TypeAdapter[AnyMechanism] = TypeAdapter(AnyMechanism)


def noise_scales(kind: type[Mechanism]) -> dict[str, NoiseScale]:
    """The fields of a mechanism that are scales of its noise, in order.

    >>> list(noise_scales(KINDS["confident"])), list(noise_scales(KINDS["lnmax"]))
    (['sigma1', 'sigma2'], ['gamma'])
    """
    return {
        name: mark for name, field in kind.model_fields.items() for mark in field.metadata if type(mark) is NoiseScale
    }


def widest(table: Mapping[str, Any]) -> dict[str, Any]:
    """The table of a mechanism with `WIDE` noise where it leaves some out."""
    kind = KINDS.get(str(table.get("name", "")))
    scales = {} if kind is None else noise_scales(kind)
    return {**{name: scale.of(WIDE) for name, scale in scales.items()}, **table}


def with_noise(
    table: Mapping[str, Any],
    queries: int,
    answers: int,
    epsilon: float,
    cost: Callable[[AnyMechanism], float],
    rough: Callable[[AnyMechanism], float],
) -> dict[str, Any]:
    """The table of a mechanism with the scales of noise that it leaves out, so that its `cost` is just below `epsilon`.

    `rough` is never below the cost, and takes less time: it is asked first.

    A table that is wrong otherwise comes back with any scales, for its own validation to say what is wrong.

    Raises
    ------
    CalibrationError : no noise is enough.
    """
    kind = KINDS.get(table.get("name", ""))
    if kind is None:
        return dict(table)
    open_scales = {name: scale for name, scale in noise_scales(kind).items() if name not in table}
    if not open_scales:
        return dict(table)
    shares = dict.fromkeys(open_scales, 1.0)
    if len(shares) == 2:
        shares["sigma1"] = math.sqrt(CHECK_RATIO * queries / answers)

    def filled(amount: float) -> dict[str, Any]:
        return {**table, **{name: scale.of(amount * shares[name]) for name, scale in open_scales.items()}}

    def price(amount: float, of: Callable[[AnyMechanism], float] = cost) -> float:
        try:
            return of(_ADAPTER.validate_python(filled(amount)))
        except ValidationError:
            return math.inf  # too little or too much noise for the mechanism

    try:
        _ADAPTER.validate_python(filled(WIDE))
    except ValidationError:
        return filled(WIDE)
    return filled(least_noise(price, epsilon, least_noise(lambda amount: price(amount, rough), epsilon)))
