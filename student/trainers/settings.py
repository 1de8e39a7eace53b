"""Settings that kinds of students share, and that their trainers read; the kinds themselves are in `trainers.kinds`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, field_validator

from consilium.protocol.models import Frozen
from consilium.protocol.provenance import Provenance

if TYPE_CHECKING:
    from consilium.protocol.rows.schema import Schema
    from consilium.student.trainers.base import Aids, Model, Trainer

Inputs = Literal["features", "representation"]
"""What a model takes: features as they travel, or what the schema makes of them (`Schema.inputs`)."""


Augment = Literal["digits", "objects", "signs", "photos", "none"]
"""What images show, and so what may change in them: a key of `student.trainers.images.rows.INVARIANCES`."""


class TrainerKind(Frozen):
    """Base of all kinds."""

    inputs: ClassVar[Inputs] = "representation"

    name: str = Field(description="the kind of student")

    def trainer(self, aids: Aids) -> Trainer:
        """A trainer with these settings."""
        raise NotImplementedError

    def constants(self) -> tuple[Provenance, ...]:
        """Where the numbers are from that its trainer has, beside its settings, where somebody chose any."""
        return ()

    def rehearsed(self, schema: Schema) -> Model | None:
        """What it makes of made-up rows, where others wrote it and anything may be wrong with it; None elsewhere.

        Raises
        ------
        UnusableModel : it cannot be built, or trained on them.
        """
        return None


class KernelStudent(TrainerKind):
    """What the students with a Gaussian kernel share."""

    gamma: float = Field(
        default=2.0,
        gt=0,
        description="of the Gaussian kernel, exp(-gamma |a - b|^2); of histograms one of those that are tried,"
        " of `kernel_ridge` with `even` the only one",
    )
    alpha: float = Field(default=0.1, gt=0, description="penalty; `kernel_ridge` needs none for histograms")


class EvenStudent(KernelStudent):
    """What the students share that can tell many classes apart which are named unequally often."""

    even: bool = Field(
        default=False,
        description="of histograms: every class's share is brought to one spread over the public rows, and all classes"
        " are found on as many of them, before the largest is looked for; for many classes that are about as frequent"
        " as each other",
    )


class SpreadingStudent(EvenStudent):
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


class AugmentedStudent(ImageStudent):
    """What the students of images share that see changed copies."""

    augment: Augment = Field(
        default="digits",
        description="what may change in an image that still shows the same: of `digits` place, size, slant and strokes;"
        " of `objects`, such as clothes, place, size, light, and left and right; of `signs`, digits or letters in"
        " photographs, place, size, slant, light and colours; of `photos` of anything else these, and left and right;"
        " `none`: no changed copies are made",
    )

    @field_validator("augment", mode="before")
    @classmethod
    def _no_longer_a_switch(cls, value: Any) -> Any:
        if isinstance(value, bool):
            word = "digits" if value else "none"
            raise ValueError(f"it says what may change, no longer whether: {str(value).lower()} is now {word!r}")
        return value


class GraphAndNetworksStudent(KernelStudent, AugmentedStudent):
    """What a student of a graph and of networks is told."""

    neighbours: int = Field(default=10, ge=1, le=1000, description="of a row in the graph")
    looks: int = Field(
        default=600,
        ge=0,
        le=1_000_000,
        description="steps in which a first network learns without labels which images show the same; 0: there is none",
    )
    networks: int = Field(default=3, ge=1, le=100, description="how many learn the classes, one after the other")
    steps: int = Field(default=1000, ge=1, le=1_000_000, description="steps of each of them")
    settled: float = Field(default=0.0, ge=0, lt=1, description="as of the other students of images, for each network")
