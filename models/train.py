"""From the description of a student (`specs`) to what trains it: one case for each kind.

A new kind of student is a class in `specs` and a case here.
"""

from __future__ import annotations

from consilium.models.base import Aids, Model, Trainer
from consilium.models.evidence import SoftmaxShares
from consilium.models.guard import made_up, rehearse
from consilium.models.images.graph_cnn import GraphCnnTrainer
from consilium.models.images.loop import ImageTrainer, Supervised, Vat
from consilium.models.images.pixels import INVARIANCES
from consilium.models.kernel import GraphTrainer
from consilium.models.own_model import OwnModel, OwnTrainer, in_arrays
from consilium.models.shares import GraphShares, OnDenoised, WithShares
from consilium.models.specs import (
    AugmentedStudent,
    CnnStudent,
    FeatureMatchingStudent,
    GraphCnnStudent,
    GraphStudent,
    LogisticRegressionStudent,
    OwnCodeStudent,
    TrainerKind,
    VatStudent,
)
from consilium.models.tabular import LinearTrainer
from consilium.protocol.schema import Schema


def trainer_of(spec: TrainerKind, aids: Aids) -> Trainer:
    """A trainer with these settings. Those of labels alone learn noisy histograms from shares without their noise."""
    match spec:
        case LogisticRegressionStudent():
            return WithShares(LinearTrainer(spec.C), SoftmaxShares())
        case GraphStudent():
            return WithShares(GraphTrainer(spec, aids.unlabelled), GraphShares(spec, aids.unlabelled))
        case GraphCnnStudent():
            return GraphCnnTrainer(spec, aids.unlabelled, aids.represent, aids.job)
        case AugmentedStudent():
            return _image_trainer(spec, aids)
        case FeatureMatchingStudent():
            from consilium.models.images.feature_matching import ImprovedGanTrainer  # torch takes two seconds to import

            return ImprovedGanTrainer(spec, spec.epochs, aids.unlabelled, aids.job)
        case OwnCodeStudent():
            trainer = OwnTrainer(spec.title, spec.build, aids.schema)
            return WithShares(trainer, OnDenoised(trainer, aids.unlabelled))
    raise TypeError(f"no trainer for {type(spec).__name__}")


def _image_trainer(spec: AugmentedStudent, aids: Aids) -> ImageTrainer:
    change = INVARIANCES[spec.augment]
    match spec:
        case CnnStudent():
            return ImageTrainer(
                lambda net, material: Supervised(net, material, change.strong), spec, aids.unlabelled, aids.job
            )
        case VatStudent():
            return ImageTrainer(
                lambda net, material: Vat(net, material, change, spec.radius), spec, aids.unlabelled, aids.job
            )
    raise TypeError(f"no trainer for {type(spec).__name__}")


def rehearsed(spec: TrainerKind, schema: Schema) -> Model | None:
    """What a student that others wrote makes of made-up rows, since anything may be wrong with it; None elsewhere.

    Raises
    ------
    UnusableModel : it cannot be built, or trained on them.
    """
    if not isinstance(spec, OwnCodeStudent):
        return None
    trained = rehearse(f"the student {spec.title}", lambda: spec.build(0), schema)
    return in_arrays(OwnModel(trained, len(schema.classes), spec.title), made_up(schema, 20)[0])
