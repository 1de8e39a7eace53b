"""Settings that kinds of students share, and that their trainers read; the kinds themselves are in `trainers.kinds`."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from consilium.protocol.models import Frozen

if TYPE_CHECKING:
    from consilium.student.trainers.base import Aids, Trainer

Inputs = Literal["features", "representation"]
"""What a model takes: features as they travel, or what the schema makes of them (`Schema.inputs`)."""


class TrainerKind(Frozen):
    """Base of all kinds."""

    inputs: ClassVar[Inputs] = "representation"

    name: str = Field(description="the kind of student")

    def trainer(self, aids: Aids) -> Trainer:
        """A trainer with these settings."""
        raise NotImplementedError


class KernelStudent(TrainerKind):
    """What the students with a Gaussian kernel share."""

    gamma: float = Field(
        default=2.0,
        gt=0,
        description="of the Gaussian kernel, exp(-gamma |a - b|^2); of histograms one of those that are tried",
    )
    alpha: float = Field(default=0.1, gt=0, description="penalty; `kernel_ridge` needs none for histograms")


class SpreadingStudent(KernelStudent):
    """What the students share that spread labels over a graph of like rows."""

    neighbours: int = Field(default=10, ge=1, le=1000, description="of a row in the graph")
    spread: float = Field(default=0.99, gt=0, lt=1, description="share that a row takes from its neighbours")


class ImageStudent(TrainerKind):
    """What the students of square images share: a small convolutional network and the loop that trains it."""

    inputs: ClassVar[Inputs] = "features"

    channels: int = Field(default=16, ge=1, le=1024, description="filters of the first layer")
    steps: int = Field(default=3000, ge=1, le=1_000_000, description="most steps")
    settled: float = Field(
        default=0.001,
        ge=0,
        lt=1,
        description="stop once at most this share of the public rows' predictions changed in each of the last four"
        " checks; 0: never",
    )


class GraphAndNetworksStudent(SpreadingStudent, ImageStudent):
    """What a student of a graph and of networks is told."""

    augment: bool = Field(default=True, description="whether the networks see slightly changed copies")
    networks: int = Field(default=4, ge=1, le=100, description="how many are trained, one after the other")
