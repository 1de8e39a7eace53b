"""The keys that a configuration may give: one class for each kind of teacher and of student. `model` names the kind of
a teacher and `name` that of a student; a key of another kind is refused. What is described here is fitted in
`models.table`, which has an entry for each class. The kinds of `AnyTeacher` are those that a coordinator may ask for. A
party's own `party.toml` may also name code in `[teacher]`; nobody else can make a party import anything. Reading a
configuration imports and builds nothing of others: a scenario or a run folder may come from anybody, and who looks at
one runs no code of it. Names are looked up where a model is trained."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import AfterValidator, Field, JsonValue, TypeAdapter

from consilium.models.naming import DottedName, estimator_of, read_estimator, resolve
from consilium.protocol.errors import ConfigError
from consilium.protocol.files import read_private
from consilium.protocol.models import Frozen

ClassWeight = Literal["balanced", "none"]
Width = Annotated[int, Field(ge=1, le=4096)]
LARGEST = 1e12
"""Or its inverse, or a kernel's gamma: far beyond it a model is no numbers any more, once labels are paid for."""


class TeacherKind(Frozen):
    """Base of all kinds of teachers. `model` names the kind."""

    of_images: ClassVar[bool] = False
    """Whether its rows must be square images."""

    model: str = Field(description="the kind of teacher")

    @property
    def title(self) -> str:
        return self.model

    @property
    def keeps_missing(self) -> bool:
        """Whether its estimator gets NaN for a missing value, instead of the mean of the public rows."""
        return False

    def at(self, home: Path) -> TeacherKind:
        """The same for a party whose home this is: what is in a file is found there. Raises ConfigError."""
        return self

    def anywhere(self) -> TeacherKind:
        """The same for a simulated party, which has no home: a file may be anywhere. Raises ConfigError."""
        return self


class WeightedTeacher(TeacherKind):
    """Base of all kinds that a coordinator may ask for."""

    class_weight: ClassWeight = Field(default="none", description="`balanced` weighs a party's own classes equally")


class LogisticRegressionSpec(WeightedTeacher):
    """scikit-learn's logistic regression."""

    model: Literal["logistic_regression"] = "logistic_regression"
    C: float = Field(default=1.0, gt=0, le=LARGEST, description="inverse regularisation")
    iterations: int = Field(default=200, ge=1, le=100_000, description="most steps of the solver")


class RidgeSpec(WeightedTeacher):
    """Ridge regression on one-hot classes."""

    model: Literal["ridge"] = "ridge"
    alpha: float = Field(default=1.0, gt=0, le=LARGEST, description="penalty")


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
    dense_layers: int = Field(default=1, ge=1, le=3, description="before the last, each `hidden` wide")


AnyTeacher = LogisticRegressionSpec | RandomForestSpec | GradientBoostingSpec | RidgeSpec | MlpSpec | CnnSpec
TeacherSpec = Annotated[AnyTeacher, Field(discriminator="model")]
"""The field type of a configuration: a table whose `model` says which kind it is."""
TEACHERS: tuple[type[WeightedTeacher], ...] = get_args(AnyTeacher)
"""Every kind that a coordinator may ask for."""
_ADAPTER: TypeAdapter[AnyTeacher] = TypeAdapter(TeacherSpec)


def teacher_from_json(text: str) -> AnyTeacher:
    """What a train request carries. Raises pydantic's ValidationError."""
    return _ADAPTER.validate_json(text)


Inputs = Literal["features", "representation"]
"""What a model takes: features as they travel, or what the schema makes of them (`Schema.inputs`)."""
Augment = Literal["digits", "objects", "none"]
"""What images show, and so what may change in them: a key of `images.pixels.INVARIANCES`."""


class OwnCodeKeys(Frozen):
    """A model that others wrote, of a teacher or a student: anything may be wrong with it."""

    @property
    def title(self) -> str:
        raise NotImplementedError

    def build(self, seed: int) -> Any:
        """An untrained estimator with the methods of a classifier of scikit-learn. Raises ConfigError."""
        raise NotImplementedError


def _without_null(value: JsonValue) -> JsonValue:
    if value is None:
        raise ValueError("null is no value of TOML: leave the argument out")
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _without_null(item)
    return value


class FactoryKeys(OwnCodeKeys):
    """Which callable makes the model, and with which arguments: an estimator of scikit-learn, unless others say how."""

    factory: DottedName = Field(
        description="`package.module:callable` or `package.module.Class`, importable where it is trained"
    )
    parameters: Annotated[dict[str, JsonValue], AfterValidator(_without_null)] = Field(
        default_factory=dict, description="its arguments, by name"
    )

    @property
    def title(self) -> str:
        return self.factory

    def build(self, seed: int) -> Any:
        return estimator_of(self.factory, self.parameters, seed)


class TorchKeys(FactoryKeys):
    """A torch module, trained on cross-entropy by AdamW. Its factory gets `inputs`, `classes` and `parameters`."""

    epochs: int = Field(default=20, ge=1, le=100_000, description="times that every row is seen")
    steps: int = Field(default=0, ge=0, le=10_000_000, description="steps, whatever `epochs` says; 0: by `epochs`")
    batch: int = Field(default=32, ge=1, le=65_536, description="rows in one step")
    learning_rate: float = Field(default=0.003, gt=0, le=10, description="at the start of a cosine schedule")
    weight_decay: float = Field(default=0.01, ge=0, lt=100, description="of AdamW")
    images: bool = Field(
        default=False,
        description="rows are square images, of 1 or 3 channels: the module gets (n, channels, side, side), its"
        " factory `inputs` = [channels, side, side]",
    )

    @property
    def title(self) -> str:
        return f"torch {self.factory}"

    def build(self, seed: int) -> Any:
        from consilium.models.torch_classifier import TorchClassifier  # torch takes two seconds to import

        return TorchClassifier(self, resolve(self.factory), seed % 2**32)


class PickleKeys(OwnCodeKeys):
    """An untrained estimator that cloudpickle wrote, or a callable without arguments that returns one."""

    file: str = Field(default="", max_length=1000, description="where it is")
    sha256: str = Field(default="", pattern=r"^([0-9a-f]{64})?$", description="of the file; left out: any")

    @property
    def title(self) -> str:
        return f"pickled {Path(self.file).name}"

    def build(self, seed: int) -> Any:
        return read_estimator(Path(self.file), self.sha256, seed)


class OwnCode(OwnCodeKeys, TeacherKind):
    """Base of the kinds of teachers that others wrote."""

    missing: Literal["mean", "keep"] = Field(
        default="mean",
        description="what it gets where `[missing]` says `mean`: that, or NaN (`keep`), for estimators that know what"
        " to do with it; questions have no missing values",
    )

    @property
    def keeps_missing(self) -> bool:
        return self.missing == "keep"


class EstimatorSpec(FactoryKeys, OwnCode):
    """Any classifier or Pipeline with scikit-learn's methods: LightGBM, XGBoost, or what your own function makes."""

    model: Literal["estimator"] = "estimator"


class TorchSpec(TorchKeys, OwnCode):
    """A torch module of your own, trained on one thread."""

    model: Literal["torch"] = "torch"


class PickledSpec(PickleKeys, OwnCode):
    """An estimator in a file of the party's own home, as the Python API writes it. file: a name in the home, mode 0600.
    sha256: filled in when the home is opened, so that another file is another teacher."""

    model: Literal["pickled"] = "pickled"
    file: str = Field(default="teacher.pkl", min_length=1, max_length=1000, description="in the party's own home")

    def at(self, home: Path) -> PickledSpec:
        """See `TeacherKind.at`. Raises ConfigError for a name that leads out of the home, or a file of others."""
        if Path(self.file).name != self.file:
            raise ConfigError(
                f"[teacher] file is {self.file!r}, which is not in the party's home", "Give the name of a file in it"
            )
        path = home / self.file
        digest = hashlib.sha256(read_private(path)).hexdigest()
        if self.sha256 not in ("", digest):
            raise ConfigError(f"{path} has SHA-256 {digest}, [teacher] says {self.sha256}", "Write the right one there")
        return self.model_copy(update={"file": str(path), "sha256": digest})

    def anywhere(self) -> PickledSpec:
        path = Path(self.file).resolve()
        return self.model_copy(update={"file": path.name}).at(path.parent)


OwnTeacher = Annotated[AnyTeacher | EstimatorSpec | TorchSpec | PickledSpec, Field(discriminator="model")]
"""Any kind that a coordinator may ask for, or an estimator that others wrote."""


class TrainerKind(Frozen):
    """Base of all kinds of students."""

    inputs: ClassVar[Inputs] = "representation"
    learns_from_public_rows: ClassVar[bool] = False
    """Whether public rows without a label teach it much, in seconds: private rivals are then given the same rows."""

    name: str = Field(description="the kind of student")


class LogisticRegressionStudent(TrainerKind):
    """scikit-learn's logistic regression."""

    name: Literal["logistic_regression"] = "logistic_regression"
    C: float = Field(
        default=0.01,
        gt=0,
        le=LARGEST,
        description="inverse regularisation of manual labels of two classes; of more, and of released ones, evidence"
        " decides",
    )


class GraphStudent(TrainerKind):
    """Labels spread to all public rows over a graph of like ones, then kernel ridge regression."""

    learns_from_public_rows: ClassVar[bool] = True

    name: Literal["graph"] = "graph"
    gamma: float | None = Field(
        default=None,
        gt=0,
        le=LARGEST,
        description="of the Gaussian kernel, exp(-gamma |a - b|^2); left out: 1 over the median squared distance"
        " of public rows; of histograms one of those tried",
    )
    alpha: float = Field(default=0.1, ge=1e-6, le=LARGEST, description="penalty")
    neighbours: int = Field(default=10, ge=1, le=1000, description="of a row in the graph")
    spread: float = Field(default=0.99, gt=0, lt=1, description="share that a row takes from its neighbours")


class ImageStudent(TrainerKind):
    """What students of square images share: a small convolutional network and the loop that trains it."""

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
    augment: Augment = Field(
        default="digits",
        description="what may change in an image that shows the same: of `digits` place, size, slant and strokes;"
        " of `objects` place, size, light, left and right; `none`: nothing",
    )


Smoothing = Literal["linear", "softmax"]


class GraphCnnStudent(ImageStudent):
    """A graph of like images and networks that help each other to label the pool."""

    name: Literal["graph_cnn"] = "graph_cnn"
    gamma: float = Field(default=2.0, gt=0, le=LARGEST, description="of the Gaussian kernel, exp(-gamma |a - b|^2)")
    alpha: float = Field(default=0.1, ge=1e-6, le=LARGEST, description="penalty")
    neighbours: int = Field(default=10, ge=1, le=1000, description="of a row in the graph")
    looks: int = Field(
        default=600,
        ge=0,
        le=1_000_000,
        description="steps in which a first network learns without labels which images are alike; 0: there is none",
    )
    smoothing: Smoothing = Field(
        default="linear",
        description="of the graph's functions into shares; `softmax` is better where all public rows are asked"
        " and teachers often disagree, worse after a few dozen queries",
    )
    networks: int = Field(default=3, ge=1, le=100, description="how many learn the classes, one after the other")
    steps: int = Field(default=1000, ge=1, le=1_000_000, description="steps of each of them")
    settled: float = Field(default=0.0, ge=0, lt=1, description="stop once fewer predictions than this share change")


class EstimatorStudent(FactoryKeys, TrainerKind):
    """Any classifier or Pipeline with scikit-learn's methods (models.md)."""

    name: Literal["estimator"] = "estimator"


class TorchStudent(TorchKeys, TrainerKind):
    """A torch module of your own (models.md)."""

    name: Literal["torch"] = "torch"


class PickledStudent(PickleKeys, TrainerKind):
    """An estimator in a file of your own, mode 0600, as the Python API writes it (models.md)."""

    name: Literal["pickled"] = "pickled"
    file: str = Field(default="student.pkl", min_length=1, max_length=1000, description="on the student's machine")


AnyTrainer = (
    LogisticRegressionStudent | GraphStudent | GraphCnnStudent | EstimatorStudent | TorchStudent | PickledStudent
)
TrainerSpec = Annotated[AnyTrainer, Field(discriminator="name")]
"""The field type of a configuration: a table whose `name` says which kind it is."""
TRAINERS: tuple[type[TrainerKind], ...] = get_args(AnyTrainer)
"""Every kind of student."""
