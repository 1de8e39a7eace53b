"""The kinds of students that others wrote: what `[student.trainer]` says of them. Reading it imports nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from consilium.protocol.own_models.building import estimator_of
from consilium.protocol.own_models.keys import FactoryKeys, PickleKeys, TorchKeys
from consilium.protocol.own_models.naming import STUDENTS
from consilium.protocol.own_models.pickles import read_estimator
from consilium.student.trainers.settings import TrainerKind

if TYPE_CHECKING:
    from consilium.protocol.rows.schema import Schema
    from consilium.student.trainers.base import Aids, Model, Trainer


class OwnCodeStudent(TrainerKind):
    """Base of these kinds."""

    @property
    def title(self) -> str:
        """What people call it."""
        return self.name

    def build(self, seed: int) -> Any:
        """An untrained estimator with the methods of a classifier of scikit-learn. Raises ConfigError."""
        raise NotImplementedError

    def trainer(self, aids: Aids) -> Trainer:
        """See `TrainerKind.trainer`. Of noisy histograms it learns the shares without their noise, of all rows."""
        from consilium.student.trainers.counts.denoise import OnDenoised
        from consilium.student.trainers.counts.together import WithShares
        from consilium.student.trainers.own_model import OwnTrainer

        trainer = OwnTrainer(self.title, self.build)
        return WithShares(trainer, OnDenoised(trainer, aids.unlabelled))

    def rehearsed(self, schema: Schema) -> Model | None:
        """See `TrainerKind.rehearsed`."""
        from consilium.protocol.own_models.rehearsal import made_up, rehearse
        from consilium.student.trainers.own_model import OwnModel, in_arrays

        trained = rehearse(f"the student {self.title}", lambda: self.build(0), schema)
        return in_arrays(OwnModel(trained, len(schema.classes), self.title), made_up(schema, 20)[0])


class EstimatorStudent(FactoryKeys, OwnCodeStudent):
    """Any classifier or Pipeline with scikit-learn's methods (models.md)."""

    name: Literal["estimator"] = "estimator"

    @property
    def title(self) -> str:
        """What people call it."""
        return self.factory

    def build(self, seed: int) -> Any:
        """See `OwnCodeStudent.build`."""
        return estimator_of(self.factory, self.parameters, seed, STUDENTS)


class TorchStudent(TorchKeys, OwnCodeStudent):
    """A torch module of your own (models.md)."""

    name: Literal["torch"] = "torch"

    @property
    def title(self) -> str:
        """What people call it."""
        return f"torch {self.factory}"

    def build(self, seed: int) -> Any:
        """See `OwnCodeStudent.build`."""
        from consilium.protocol.own_models.torch_classifier import classifier_of  # torch takes two seconds to import

        return classifier_of(self, seed, STUDENTS)


class PickledStudent(PickleKeys, OwnCodeStudent):
    """An estimator in a file of your own, mode 0600, as the Python API writes it (models.md)."""

    name: Literal["pickled"] = "pickled"
    file: str = Field(default="student.pkl", min_length=1, max_length=1000, description="on the student's machine")

    @property
    def title(self) -> str:
        """What people call it."""
        return f"pickled {Path(self.file).name}"

    def build(self, seed: int) -> Any:
        """See `OwnCodeStudent.build`."""
        return read_estimator(Path(self.file), self.sha256, seed)
