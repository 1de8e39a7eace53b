"""The kinds of students: one class for each, with its own keys and defaults, which makes its own trainer.

`name` says which kind it is, and a key of another kind is refused. Trainers are imported where they are made: torch
takes two seconds, and whoever only reads a scenario needs none of them. A new kind is a class here and a trainer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, get_args

from pydantic import Field

from consilium.student.trainers.own_kinds import EstimatorStudent, PickledStudent, TorchStudent
from consilium.student.trainers.settings import (
    AugmentedStudent,
    EvenStudent,
    GraphAndNetworksStudent,
    Inputs,
    SpreadingStudent,
    TrainerKind,
)

if TYPE_CHECKING:
    from consilium.protocol.provenance import Provenance
    from consilium.student.trainers.base import Aids, Trainer
    from consilium.student.trainers.images.loop import MakeMethod
    from consilium.student.trainers.images.rows import Invariances


class LogisticRegressionStudent(TrainerKind):
    """scikit-learn's logistic regression."""

    name: Literal["logistic_regression"] = "logistic_regression"
    C: float = Field(
        default=0.01, gt=0, description="inverse regularisation; not of histograms, where the evidence decides"
    )

    def constants(self) -> tuple[Provenance, ...]:
        """See `TrainerKind.constants`."""
        from consilium.student.trainers.counts.softmax import PROVENANCE

        return (PROVENANCE,)

    def trainer(self, aids: Aids) -> Trainer:
        """See `TrainerKind.trainer`."""
        from consilium.student.trainers.counts.softmax import SoftmaxShares
        from consilium.student.trainers.counts.together import WithShares
        from consilium.student.trainers.tabular import LinearTrainer

        return WithShares(LinearTrainer(self.C), SoftmaxShares())


class TreesStudent(TrainerKind):
    """What the two tree ensembles share."""

    trees: int = Field(default=200, ge=1, le=5000, description="number of trees")
    depth: int = Field(default=6, ge=1, le=64, description="most levels of a tree")


class RandomForestStudent(TreesStudent):
    """scikit-learn's random forest."""

    name: Literal["random_forest"] = "random_forest"

    def trainer(self, aids: Aids) -> Trainer:
        """See `TrainerKind.trainer`."""
        from consilium.student.trainers.counts.denoise import OnDenoised
        from consilium.student.trainers.counts.together import WithShares
        from consilium.student.trainers.tabular import ForestTrainer

        trainer = ForestTrainer(self.trees, self.depth)
        return WithShares(trainer, OnDenoised(trainer, aids.unlabelled))


class GradientBoostingStudent(TreesStudent):
    """scikit-learn's gradient boosting."""

    name: Literal["gradient_boosting"] = "gradient_boosting"

    def trainer(self, aids: Aids) -> Trainer:
        """See `TrainerKind.trainer`."""
        from consilium.student.trainers.counts.denoise import OnDenoised
        from consilium.student.trainers.counts.together import WithShares
        from consilium.student.trainers.tabular import BoostingTrainer

        trainer = BoostingTrainer(self.trees, self.depth)
        return WithShares(trainer, OnDenoised(trainer, aids.unlabelled))


class MlpStudent(TrainerKind):
    """A torch network with one hidden layer."""

    name: Literal["mlp"] = "mlp"
    hidden: int = Field(default=32, ge=1, le=4096, description="width of the hidden layer")
    epochs: int = Field(default=200, ge=1, le=100_000, description="times that every row is seen")

    def trainer(self, aids: Aids) -> Trainer:
        """See `TrainerKind.trainer`."""
        from consilium.student.trainers.counts.denoise import OnDenoised
        from consilium.student.trainers.counts.together import WithShares
        from consilium.student.trainers.mlp import MlpTrainer

        trainer = MlpTrainer(self.hidden, self.epochs)
        return WithShares(trainer, OnDenoised(trainer, aids.unlabelled))


class KernelRidgeStudent(EvenStudent):
    """Kernel ridge regression on the labels alone."""

    name: Literal["kernel_ridge"] = "kernel_ridge"

    def constants(self) -> tuple[Provenance, ...]:
        """See `TrainerKind.constants`."""
        from consilium.student.trainers.counts.even import PROVENANCE as of_even
        from consilium.student.trainers.counts.features import PROVENANCE as of_features

        return (*((of_even,) if self.even else ()), of_features)

    def trainer(self, aids: Aids) -> Trainer:
        """See `TrainerKind.trainer`."""
        from consilium.student.trainers.counts.smooth import KernelShares
        from consilium.student.trainers.counts.together import WithShares
        from consilium.student.trainers.kernel import KernelTrainer

        return WithShares(KernelTrainer(self.gamma, self.alpha), KernelShares(self, aids.unlabelled))


class GraphStudent(SpreadingStudent):
    """Labels spread to all public rows over a graph of like ones, then kernel ridge regression."""

    name: Literal["graph"] = "graph"

    def constants(self) -> tuple[Provenance, ...]:
        """See `TrainerKind.constants`."""
        from consilium.student.trainers.counts.even import PROVENANCE as of_even
        from consilium.student.trainers.counts.features import PROVENANCE as of_features

        return (*((of_even,) if self.even else ()), of_features)

    def trainer(self, aids: Aids) -> Trainer:
        """See `TrainerKind.trainer`."""
        from consilium.student.trainers.counts.smooth import GraphShares
        from consilium.student.trainers.counts.together import WithShares
        from consilium.student.trainers.kernel import GraphTrainer

        return WithShares(GraphTrainer(self, aids.unlabelled), GraphShares(self, aids.unlabelled))


class AutoStudent(TrainerKind):
    """Linear, a kernel or a graph, whichever the released answers speak for; the student's card says which."""

    name: Literal["auto"] = "auto"

    def constants(self) -> tuple[Provenance, ...]:
        """See `TrainerKind.constants`."""
        return (*LogisticRegressionStudent().constants(), *GraphStudent().constants())

    def trainer(self, aids: Aids) -> Trainer:
        """See `TrainerKind.trainer`."""
        from consilium.student.trainers.counts.automatic import AutoTrainer

        return AutoTrainer(aids.unlabelled, aids.job)


class MethodStudent(AugmentedStudent):
    """A student of images that is one method in the common loop."""

    @property
    def invariances(self) -> Invariances:
        """How its images are changed."""
        from consilium.student.trainers.images.rows import INVARIANCES

        return INVARIANCES[self.augment]

    def method(self) -> MakeMethod:
        """What makes the method."""
        raise NotImplementedError

    def trainer(self, aids: Aids) -> Trainer:
        """See `TrainerKind.trainer`."""
        from consilium.student.trainers.images.loop import ImageTrainer

        return ImageTrainer(self.method(), self, aids.unlabelled, aids.job)


class CnnStudent(MethodStudent):
    """The labels alone, on distorted copies (LeCun et al. 1998, Simard et al. 2003)."""

    name: Literal["cnn"] = "cnn"

    def method(self) -> MakeMethod:
        """See `MethodStudent.method`."""
        from consilium.student.trainers.images.cnn import Supervised

        return lambda net, material: Supervised(net, material, self.invariances.strong)


class VatStudent(MethodStudent):
    """The labels, and predictions that do not change in the worst near direction, and are sure (Miyato et al. 2018)."""

    name: Literal["vat"] = "vat"
    radius: float = Field(default=0.07, gt=0, description="root mean square of the change of pixels from 0 to 1")

    def method(self) -> MakeMethod:
        """See `MethodStudent.method`."""
        from consilium.student.trainers.images.vat import Vat

        return lambda net, material: Vat(net, material, self.invariances, self.radius)


class FixMatchStudent(MethodStudent):
    """The labels, and its sure predictions as labels of strongly distorted copies (Sohn et al. 2020)."""

    name: Literal["fixmatch"] = "fixmatch"
    sure: float = Field(default=0.95, gt=0, lt=1, description="probability from which its own prediction is a label")

    def method(self) -> MakeMethod:
        """See `MethodStudent.method`."""
        from consilium.student.trainers.images.fixmatch import FixMatch

        return lambda net, material: FixMatch(net, material, self.invariances, self.sure)


class MixMatchStudent(MethodStudent):
    """The labels and guessed ones, all images mixed with each other (Berthelot et al. 2019)."""

    name: Literal["mixmatch"] = "mixmatch"

    def method(self) -> MakeMethod:
        """See `MethodStudent.method`."""
        from consilium.student.trainers.images.mixmatch import MixMatch

        return lambda net, material: MixMatch(net, material, self.invariances.weak)


class GanStudent(MethodStudent):
    """The labels, and images that a generator makes up, to be told apart: a quick relative of `feature_matching`."""

    name: Literal["gan"] = "gan"

    def method(self) -> MakeMethod:
        """See `MethodStudent.method`."""
        from consilium.student.trainers.images.gan import Gan

        return lambda net, material: Gan(net, material, self.invariances.strong)


class FeatureMatchingStudent(TrainerKind):
    """The student of PATE-G as published: dense networks, a generator that matches features (Salimans et al. 2016)."""

    inputs: ClassVar[Inputs] = "features"

    name: Literal["feature_matching"] = "feature_matching"
    epochs: int = Field(default=300, ge=1, le=100_000, description="times that every public row is seen, 100 at a time")

    def trainer(self, aids: Aids) -> Trainer:
        """See `TrainerKind.trainer`."""
        from consilium.student.trainers.images.improved_gan import ImprovedGanTrainer

        return ImprovedGanTrainer(self, self.epochs, aids.unlabelled, aids.job)


class GraphCnnStudent(GraphAndNetworksStudent):
    """A graph of like images and networks that help each other to label the pool."""

    name: Literal["graph_cnn"] = "graph_cnn"

    def constants(self) -> tuple[Provenance, ...]:
        """See `TrainerKind.constants`."""
        from consilium.student.trainers.images.graph_cnn import PROVENANCE as of_networks
        from consilium.student.trainers.images.smooth import PROVENANCE as of_graph

        return (of_networks, of_graph)

    def trainer(self, aids: Aids) -> Trainer:
        """See `TrainerKind.trainer`."""
        from consilium.student.trainers.images.graph_cnn import GraphCnnTrainer

        return GraphCnnTrainer(self, aids.unlabelled, aids.represent, aids.job)


AnyTrainer = (
    LogisticRegressionStudent
    | RandomForestStudent
    | GradientBoostingStudent
    | MlpStudent
    | KernelRidgeStudent
    | GraphStudent
    | AutoStudent
    | CnnStudent
    | VatStudent
    | FixMatchStudent
    | MixMatchStudent
    | GanStudent
    | FeatureMatchingStudent
    | GraphCnnStudent
    | EstimatorStudent
    | TorchStudent
    | PickledStudent
)
TrainerSpec = Annotated[AnyTrainer, Field(discriminator="name")]
"""The field type of a configuration: a table whose `name` says which kind it is."""

TRAINERS: tuple[type[TrainerKind], ...] = get_args(AnyTrainer)
"""Every kind of student."""
