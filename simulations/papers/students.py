"""The students of the papers: keys in a paper's file, and what trains each. No federation trains one."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from consilium.models.base import Model, Trainer, constant
from consilium.models.images.loop import ImageTrainer, Supervised
from consilium.models.images.pixels import INVARIANCES
from consilium.models.keys import ImageStudent
from consilium.protocol.label_source import Progress
from consilium.protocol.models import Frozen


class CnnStudent(ImageStudent):
    """The labels alone, on distorted copies (LeCun et al. 1998, Simard et al. 2003)."""

    name: Literal["cnn"] = "cnn"

    def trainer(self, unlabelled: np.ndarray, progress: Progress) -> Trainer:
        """Of rows as they travel."""
        change = INVARIANCES[self.augment].strong
        return ImageTrainer(lambda net, material: Supervised(net, material, change), self, unlabelled, progress)


class VatStudent(ImageStudent):
    """The labels, and predictions that do not change in the worst near direction, and are sure (Miyato et al. 2018)."""

    name: Literal["vat"] = "vat"
    radius: float = Field(default=0.07, gt=0, description="root mean square of the change of pixels from 0 to 1")

    def trainer(self, unlabelled: np.ndarray, progress: Progress) -> Trainer:
        """Of rows as they travel."""
        from consilium.simulations.papers.vat import Vat  # torch takes two seconds to import

        change = INVARIANCES[self.augment]
        return ImageTrainer(lambda net, material: Vat(net, material, change, self.radius), self, unlabelled, progress)


class FeatureMatchingStudent(Frozen):
    """The student of PATE-G as published: dense networks, a generator that matches features (Salimans et al. 2016)."""

    name: Literal["feature_matching"] = "feature_matching"
    epochs: int = Field(default=300, ge=1, le=100_000, description="times that every public row is seen, 100 at a time")

    def trainer(self, unlabelled: np.ndarray, progress: Progress) -> Trainer:
        """Of rows as they travel."""
        from consilium.simulations.papers.feature_matching import ImprovedGanTrainer

        return ImprovedGanTrainer(self.epochs, unlabelled, progress)


PaperStudent = Annotated[CnnStudent | VatStudent | FeatureMatchingStudent, Field(discriminator="name")]


def train(
    x: np.ndarray,
    y: np.ndarray,
    unlabelled: np.ndarray,
    classes: int,
    spec: PaperStudent,
    seed: int,
    progress: Progress,
) -> Model:
    """On labels int64 (n,) of images `x` float (n, pixels) and on `unlabelled` ones; labels of fewer than two classes
    give a constant model."""
    if len(np.unique(y)) < 2:
        return constant(y, classes)
    return spec.trainer(unlabelled, progress).fit(x, y, classes, seed)
