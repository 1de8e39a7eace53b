"""What only a simulation has to say: whose rows are where, and how the simulated parties behave."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from consilium.models.keys import OwnTeacher
from consilium.protocol.images import Representation
from consilium.protocol.models import Frozen
from consilium.simulations.datasets.spec import OF_IMAGES
from consilium.simulations.population.partitions import PartitionKeys

ManualLabelMode = Literal["quick", "none"]


class ShiftSpec(Frozen):
    """What is changed at parties after the division: the table `data.shift`."""

    noise: float = Field(
        default=0.0,
        ge=0,
        le=100,
        allow_inf_nan=False,
        description="the i-th of N parties, in an order by lot, gets Gaussian noise of standard deviation noise * i / N"
        " on its features, in standard deviations of the public rows",
    )
    swap: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="at this share of the parties, by lot, classes are called by each other's names",
    )
    wrong: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="this share of all private rows, by lot, is labelled as another class, each as likely",
    )
    label: float = Field(
        default=0.0,
        ge=0,
        le=20,
        description="half of a party's rows are left out by lot; its classes have odds e^(label * z) of staying, z"
        " standard normal for each party and class",
    )
    covariate: float = Field(
        default=0.0,
        ge=0,
        le=20,
        description="likewise, with odds e^(covariate * z * v): z of each party, v how far a row lies along one"
        " direction of the features, by lot",
    )
    quantity: float = Field(
        default=0.0,
        ge=0,
        le=20,
        description="a party is left with the share e^(-quantity * w) of its rows, w exponential for each party",
    )


class DataSpec(PartitionKeys):
    """The table `[data]` of a scenario: rows and their partition, what is changed at parties, what models are given."""

    shift: ShiftSpec = Field(
        default=ShiftSpec(), description="noise on features, changed labels, or rows left out, at parties"
    )
    representation: Representation = Field(
        default="none",
        description="what models are given: `scattering` is a fixed wavelet transform of images of 28x28 or 32x32"
        " pixels, grey or in colour, that learns nothing; every node computes it for itself",
    )
    standardise: bool | None = Field(
        default=None,
        description="by the public rows' mean and deviation; false: features as they are. Left out: `false` of sets of"
        " images, else `true`. A representation of images is never standardised",
    )

    @property
    def as_they_are(self) -> bool:
        """Whether features are not standardised."""
        return self.set in OF_IMAGES if self.standardise is None else not self.standardise


class TeacherShare(Frozen):
    """A share of the parties, drawn by lot, that has a teacher of its own choice in its `party.toml`."""

    share: float = Field(gt=0, le=1, description="of the parties")
    teacher: OwnTeacher = Field(description="what they train instead of `federation.teacher`")


class SimulationSpec(Frozen):
    """The table `[simulation]` of a scenario: what no deployed federation has."""

    noise: Literal["seeded", "system"] = Field(
        default="seeded",
        description="`seeded` makes a run reproducible and protects nobody; `system` is the operating system's entropy",
    )
    most_queries: int = Field(default=10_000, ge=1, description="limit in each simulated party's own policy")
    manual_labels: ManualLabelMode = Field(
        default="quick",
        description="whether manual labels are tried: `quick` takes seconds; `none` does not look for how many the"
        " student is worth",
    )
    own_teacher: OwnTeacher | None = Field(
        default=None,
        description="what all simulated parties write into their own `party.toml` as `[teacher]`, also an estimator of"
        " your own (models.md); left out: they train `federation.teacher`",
    )
    teachers: tuple[TeacherShare, ...] = Field(
        default=(), description="shares of the parties that train something else, see below"
    )

    @model_validator(mode="after")
    def _shares_are_of_one_whole(self) -> SimulationSpec:
        if (total := sum(item.share for item in self.teachers)) > 1 + 1e-9:
            raise ValueError(f"the shares of teachers sum to {total:g}, more than 1")
        return self
