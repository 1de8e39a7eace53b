"""How the student asks and learns."""

from __future__ import annotations

from typing import Literal, get_args

from pydantic import Field

from consilium.protocol.config_files import Frozen
from consilium.student.asking.selection import Strategy

OfRows = Literal["logistic_regression", "random_forest", "gradient_boosting", "mlp", "kernel_ridge", "graph"]
OfImages = Literal["cnn", "vat", "fixmatch", "mixmatch", "gan", "graph_cnn"]


class StudentSpec(Frozen):
    """One student.

    queries: how many rows of the pool to ask, 0 for as many as the federation's cap allows. batch: how many in one
        request, 0 for all of a round.
    rounds: in each but the first, queries are chosen by `selection` with the model so far (`asking.selection`), and
        its probabilities go with them. Strategies that need no model choose the first queries too.
    trainer: scikit-learn estimator, torch MLP, kernel ridge regression, or that on labels which were first spread to
        all rows of the pool over a graph of like rows (`student.trainers.kernel`); of rows that are square images also
        a convolutional network, on labels alone (cnn) or on unlabelled rows too (vat, fixmatch, mixmatch, gan), or
        a graph and cnn that help each other to label the pool (graph_cnn, `student.trainers.images.graph_cnn`).
    C: of logistic regression (inverse regularisation). trees, depth: of the forest. hidden, epochs: of the MLP.
    gamma, alpha: of the Gaussian kernel, and penalty, of both with a kernel.
    neighbours, spread: of the graph; `spread` is the share that a row takes from its neighbours.
    channels, steps: of the students of images (`trainers.images.network`, `.loop`): filters of the first layer, and
        the most steps. augment: whether cnn, vat and gan see slightly changed copies. sure: probability from which
        fixmatch takes its own prediction as label. radius: of vat, root mean square of its change of pixels from 0 to
        1. settled: stop once at most this share of the pool's predictions has changed in each of the last checks, 0 for
        never.
    networks: of graph_cnn, how many are trained, one after the other.
    self_training: pseudo-label the rows that got no label where the student's own probability reaches
        `self_training_confidence`, and train again, `self_training_rounds` times. Costs no privacy.
    """

    trainer: OfRows | OfImages = "logistic_regression"
    queries: int = Field(default=0, ge=0)
    batch: int = Field(default=0, ge=0)
    rounds: int = Field(default=1, ge=1, le=1000)
    selection: Strategy = "random"
    C: float = Field(default=0.01, gt=0)
    trees: int = Field(default=200, ge=1, le=5000)
    depth: int = Field(default=6, ge=1, le=64)
    hidden: int = Field(default=32, ge=1, le=4096)
    epochs: int = Field(default=200, ge=1, le=100_000)
    gamma: float = Field(default=2.0, gt=0)
    alpha: float = Field(default=0.1, gt=0)
    neighbours: int = Field(default=10, ge=1, le=1000)
    spread: float = Field(default=0.99, gt=0, lt=1)
    channels: int = Field(default=16, ge=1, le=1024)
    steps: int = Field(default=3000, ge=1, le=1_000_000)
    augment: bool = True
    sure: float = Field(default=0.95, gt=0, lt=1)
    radius: float = Field(default=0.07, gt=0)
    settled: float = Field(default=0.001, ge=0, lt=1)
    networks: int = Field(default=4, ge=1, le=100)
    self_training: bool = False
    self_training_confidence: float = Field(default=0.9, gt=0.5, lt=1)
    self_training_rounds: int = Field(default=3, ge=1, le=50)

    @property
    def inputs(self) -> Literal["features", "representation"]:
        """What the model takes: features as they travel, or what the schema makes of them (`Schema.inputs`)."""
        return "features" if self.trainer in get_args(OfImages) else "representation"
