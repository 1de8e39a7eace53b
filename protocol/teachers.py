"""What a coordinator may ask a party to train: one class for each kind of teacher, with its own keys and defaults.

`model` names the kind, and a key of another kind is refused. How a party builds what is described here is in
`party.teachers.builders`; a party's own choice of scikit-learn class is in `party.teachers.own_teacher`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar, Literal, get_args

from pydantic import Field, TypeAdapter

from consilium.protocol.models import Frozen

ClassWeight = Literal["balanced", "none"]

DENSE = ("hidden", "hidden-2", "hidden-3")
"""Dense layers of a network before the last, as its weights are called."""

Width = Annotated[int, Field(ge=1, le=4096)]


class TeacherKind(Frozen):
    """Base of all kinds, also of a party's own (`party.teachers.own_teacher`). `model` names the kind."""

    of_images: ClassVar[bool] = False
    """Whether its rows must be square images."""

    model: str = Field(description="the kind of teacher")

    @property
    def title(self) -> str:
        """What people call it."""
        return self.model

    @property
    def keeps_missing(self) -> bool:
        """Whether its estimator gets NaN for a missing value, instead of the mean of the public rows."""
        return False

    def at(self, home: Path) -> TeacherKind:
        """The same for a party whose home this is: what is in a file is found there. Raises ConfigError."""
        return self

    def placed(self, home: Path) -> TeacherKind:
        """What a simulated party writes into its settings, once what is in a file was copied into its home."""
        return self


class WeightedTeacher(TeacherKind):
    """Base of all kinds that a coordinator may ask for."""

    class_weight: ClassWeight = Field(default="none", description="`balanced` weighs a party's own classes equally")


class LogisticRegressionSpec(WeightedTeacher):
    """scikit-learn's logistic regression."""

    model: Literal["logistic_regression"] = "logistic_regression"
    C: float = Field(default=1.0, gt=0, description="inverse regularisation")
    iterations: int = Field(default=200, ge=1, le=100_000, description="most steps of the solver")


class RidgeSpec(WeightedTeacher):
    """Ridge regression on one-hot classes."""

    model: Literal["ridge"] = "ridge"
    alpha: float = Field(default=1.0, gt=0, description="penalty")


class TreesSpec(WeightedTeacher):
    """What the two tree ensembles share."""

    trees: int = Field(default=50, ge=1, le=2000, description="number of trees")
    depth: int = Field(default=4, ge=1, le=64, description="most levels of a tree")


class RandomForestSpec(TreesSpec):
    """scikit-learn's random forest."""

    model: Literal["random_forest"] = "random_forest"


class GradientBoostingSpec(TreesSpec):
    """scikit-learn's gradient boosting."""

    model: Literal["gradient_boosting"] = "gradient_boosting"
    learning_rate: float = Field(default=0.1, gt=0, le=1, description="share of each tree that is added")


class NetworkSpec(WeightedTeacher):
    """What the two networks share: one dense layer before the last, AdamW, one thread for each party."""

    hidden: Width = Field(default=128, description="width of the dense layer")
    epochs: int = Field(default=20, ge=1, le=1000, description="times that every row is seen")
    batch: Width = Field(default=32, description="rows in one step")
    learning_rate: float = Field(default=0.003, gt=0, le=1, description="of AdamW, at the start of a cosine schedule")
    weight_decay: float = Field(default=0.01, ge=0, lt=100, description="of AdamW")

    @property
    def convolutions(self) -> tuple[int, ...]:
        """Channels of each convolution, in order."""
        return ()

    @property
    def dense(self) -> tuple[str, ...]:
        """The dense layers before the last, all `hidden` wide."""
        return DENSE[:1]


class MlpSpec(NetworkSpec):
    """A torch network with one hidden layer."""

    model: Literal["mlp"] = "mlp"


class CnnSpec(NetworkSpec):
    """The network of Papernot et al. 2017 for square images, grey or in colour: two convolutions with max-pool, one
    dense layer; with `dense_layers = 3` theirs for SVHN."""

    of_images: ClassVar[bool] = True

    model: Literal["cnn"] = "cnn"
    channels: int = Field(
        default=16, ge=1, le=256, description="of the first convolution; the second has twice as many"
    )
    dense_layers: int = Field(default=1, ge=1, le=len(DENSE), description="before the last, each `hidden` wide")

    @property
    def convolutions(self) -> tuple[int, ...]:
        """See `NetworkSpec.convolutions`."""
        return self.channels, 2 * self.channels

    @property
    def dense(self) -> tuple[str, ...]:
        """See `NetworkSpec.dense`."""
        return DENSE[: self.dense_layers]


AnyTeacher = LogisticRegressionSpec | RandomForestSpec | GradientBoostingSpec | RidgeSpec | MlpSpec | CnnSpec
TeacherSpec = Annotated[AnyTeacher, Field(discriminator="model")]
"""The field type of a configuration: a table whose `model` says which kind it is."""

TEACHERS: tuple[type[WeightedTeacher], ...] = get_args(AnyTeacher)
"""Every kind that a coordinator may ask for."""

_ADAPTER: TypeAdapter[AnyTeacher] = TypeAdapter(TeacherSpec)


def teacher_spec(**keys: object) -> AnyTeacher:
    """The kind that `model` names, with these keys. Raises pydantic's ValidationError.

    >>> teacher_spec(model="ridge", alpha=0.5)
    RidgeSpec(model='ridge', class_weight='none', alpha=0.5)
    """
    return _ADAPTER.validate_python(keys)


def teacher_from_json(text: str) -> AnyTeacher:
    """What a train request carries. Raises pydantic's ValidationError."""
    return _ADAPTER.validate_json(text)
