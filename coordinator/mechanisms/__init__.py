"""Mechanisms: noisy argmax, and the noisy histogram. Each is one frozen object that draws the outcome and describes the
event it must be charged for, so that the sigma in the noise cannot differ from the sigma in the ledger."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from consilium.coordinator.mechanisms.base import Drawn, Mechanism
from consilium.coordinator.mechanisms.checked import Confident, Interactive
from consilium.coordinator.mechanisms.counts import GNMax, LNMax, NoisyHistogram
from consilium.coordinator.mechanisms.distributed import Distributed, DistributedTwoPhase
from consilium.coordinator.mechanisms.immutable import Immutable, ImmutableGaussian

__all__ = [
    "ALL_MECHANISMS",
    "AnyMechanism",
    "Confident",
    "Distributed",
    "DistributedTwoPhase",
    "Drawn",
    "GNMax",
    "Immutable",
    "ImmutableGaussian",
    "Interactive",
    "LNMax",
    "Mechanism",
    "NoisyHistogram",
]

ALL_MECHANISMS = (
    LNMax,
    GNMax,
    NoisyHistogram,
    Confident,
    Interactive,
    Immutable,
    ImmutableGaussian,
    Distributed,
    DistributedTwoPhase,
)
"""Every mechanism there is."""


AnyMechanism = Annotated[
    LNMax
    | GNMax
    | NoisyHistogram
    | Confident
    | Interactive
    | Immutable
    | ImmutableGaussian
    | Distributed
    | DistributedTwoPhase,
    Field(discriminator="name"),
]
"""The field type of a configuration: a table whose `name` says which mechanism it is."""
