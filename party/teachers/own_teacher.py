"""The `[teacher]` table of `party.toml`: a party's own choice, whatever kind the coordinator asks for.

Only a party itself may name code. No kind that a coordinator may ask for (`protocol.parties.teachers`) has such a key:
nobody else can make a party import anything. And reading the table imports nothing but scikit-learn, since simulated
parties get theirs from scenarios, which may be anybody's: what is named is looked up where it is trained.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, model_validator

from consilium.protocol.errors import ConfigError
from consilium.protocol.files import read_private, write_private
from consilium.protocol.own_models.building import estimator_of
from consilium.protocol.own_models.keys import FactoryKeys, PickleKeys, TorchKeys
from consilium.protocol.own_models.naming import TEACHERS
from consilium.protocol.own_models.pickles import digest_of, read_estimator
from consilium.protocol.parties.teachers import AnyTeacher, TeacherKind

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

CLASS_PATTERN = r"^sklearn(\.[a-z][a-z0-9_]*)+\.[A-Z][A-Za-z0-9]*$"

MissingForTeacher = Literal["mean", "keep"]


class OwnCode(TeacherKind):
    """Base of the kinds that name an estimator which others wrote: anything may be wrong with it.

    missing: what it gets for a value that `[missing]` says is replaced by the mean: that, or NaN with "keep".
    """

    missing: MissingForTeacher = Field(
        default="mean",
        description="what it gets where `[missing]` says `mean`: that, or NaN (`keep`), for estimators that know what"
        " to do with it; questions have no missing values",
    )

    def build(self, seed: int) -> Any:
        """An untrained estimator with the methods of a classifier of scikit-learn. Raises ConfigError."""
        raise NotImplementedError

    @property
    def keeps_missing(self) -> bool:
        """See `TeacherKind.keeps_missing`."""
        return self.missing == "keep"

    @property
    def known_by(self) -> str:
        """Equal for two tables that train the same. Raises ConfigError."""
        return self.model_dump_json()


class SklearnSpec(OwnCode):
    """Any classifier of scikit-learn, by name.

    estimator: for example "sklearn.svm.SVC". parameters: its arguments; `random_state` is given where it has one.
    """

    model: Literal["sklearn"]
    estimator: str = Field(pattern=CLASS_PATTERN, max_length=200)
    parameters: dict[str, bool | int | float | str] = Field(default_factory=dict)

    @property
    def title(self) -> str:
        """What people call it."""
        return self.estimator

    @model_validator(mode="after")
    def _can_be_built(self) -> SklearnSpec:
        try:
            self.build(0)
        except (TypeError, ImportError, AttributeError) as error:
            raise ValueError(f"{self.estimator} cannot be built: {error}") from None
        return self

    def build(self, seed: int) -> BaseEstimator:
        """The untrained estimator.

        Raises
        ------
        ValueError : the name is of something else than a classifier of scikit-learn. TypeError, ImportError,
            AttributeError : there is no such class, or it has no such arguments.
        """
        from sklearn.base import BaseEstimator, ClassifierMixin  # a second to import: only for those who name a class

        module, _, name = self.estimator.rpartition(".")
        found = getattr(importlib.import_module(module), name)
        if not (inspect.isclass(found) and issubclass(found, ClassifierMixin) and issubclass(found, BaseEstimator)):
            raise ValueError(f"{self.estimator} is no classifier")
        if not found.__module__.startswith("sklearn."):
            raise ValueError(f"{self.estimator} is a class of {found.__module__}, not of scikit-learn")
        parameters: dict[str, Any] = dict(self.parameters)
        if "random_state" in inspect.signature(found).parameters:
            parameters.setdefault("random_state", seed % 2**32)
        return found(**parameters)


class EstimatorSpec(FactoryKeys, OwnCode):
    """Any classifier or Pipeline with scikit-learn's methods: LightGBM, XGBoost, or what your own function makes."""

    model: Literal["estimator"] = "estimator"

    @property
    def title(self) -> str:
        """What people call it."""
        return self.factory

    def build(self, seed: int) -> Any:
        """See `OwnCode.build`."""
        return estimator_of(self.factory, self.parameters, seed, TEACHERS)


class TorchSpec(TorchKeys, OwnCode):
    """A torch module of your own, trained on one thread."""

    model: Literal["torch"] = "torch"

    @property
    def title(self) -> str:
        """What people call it."""
        return f"torch {self.factory}"

    def build(self, seed: int) -> Any:
        """See `OwnCode.build`."""
        from consilium.protocol.own_models.torch_classifier import classifier_of  # torch takes two seconds to import

        return classifier_of(self, seed, TEACHERS)


class PickledSpec(PickleKeys, OwnCode):
    """An estimator in a file of the party's own home, as the Python API writes it.

    file: a name in the home, mode 0600. sha256: filled in when the home is opened, so that another file is another
        teacher.
    """

    model: Literal["pickled"] = "pickled"
    file: str = Field(default="teacher.pkl", min_length=1, max_length=1000, description="in the party's own home")

    @property
    def title(self) -> str:
        """What people call it."""
        return f"pickled {Path(self.file).name}"

    @property
    def known_by(self) -> str:
        """See `OwnCode.known_by`: by what is in the file, wherever it is."""
        found = self.sha256 or digest_of(Path(self.file))
        return self.model_copy(update={"file": "", "sha256": found}).model_dump_json()

    def at(self, home: Path) -> PickledSpec:
        """See `TeacherKind.at`. Raises ConfigError for a name that leads out of the home, or a file of others."""
        if Path(self.file).name != self.file:
            raise ConfigError(
                f"[teacher] file is {self.file!r}, which is not in the party's home", "Give the name of a file in it"
            )
        path = home / self.file
        found = digest_of(path)
        if self.sha256 not in ("", found):
            raise ConfigError(f"{path} has SHA-256 {found}, [teacher] says {self.sha256}", "Write the right one there")
        return self.model_copy(update={"file": str(path), "sha256": found})

    def placed(self, home: Path) -> PickledSpec:
        """See `TeacherKind.placed`: `file` may be anywhere here. Raises ConfigError."""
        content, name = read_private(Path(self.file)), "teacher.pkl"
        write_private(home / name, content)
        return self.model_copy(update={"file": name, "sha256": hashlib.sha256(content).hexdigest()})

    def build(self, seed: int) -> Any:
        """See `OwnCode.build`."""
        return read_estimator(Path(self.file), self.sha256, seed)


OwnTeacher = Annotated[AnyTeacher | SklearnSpec | EstimatorSpec | TorchSpec | PickledSpec, Field(discriminator="model")]
"""Any kind that a coordinator may ask for, or an estimator that others wrote."""
