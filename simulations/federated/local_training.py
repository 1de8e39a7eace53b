"""What a party does with its rows in one round: stochastic gradient descent from the model that it was given."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from consilium.simulations.federated.networks import AveragedNetwork

_LEAST_CHANGE = 1e-12
_PURPOSE = 0x726F756E64


@dataclass(frozen=True)
class TrainingRows:
    """One party's own. x: inputs float32 (n, inputs); y: classes int64 (n,); n is 1 at least."""

    x: np.ndarray = field(repr=False)
    y: np.ndarray = field(repr=False)


@dataclass(frozen=True)
class LocalTraining:
    """learning_rate: of plain gradient steps, without momentum. batch: rows of a step. epochs: passes over the rows in
    a round; or steps, where it is above 0: as many, in as many passes as they take."""

    learning_rate: float
    batch: int = 32
    epochs: int = 1
    steps: int = 0

    def to_config(self) -> dict[str, Any]:
        """As it travels in a train message."""
        return asdict(self)

    @classmethod
    def of_config(cls, config: dict[str, Any]) -> LocalTraining:
        """The inverse; what else is in the message's configuration is left to others."""
        return cls(**{name: config[name] for name in cls.__dataclass_fields__})


def train_locally(
    network: AveragedNetwork,
    given: np.ndarray,
    rows: TrainingRows,
    training: LocalTraining,
    proximal_mu: float,
    generator: np.random.Generator,
) -> np.ndarray:
    """The party's model float64 (size,) after one round from the model `given`; not finite where it diverged.

    proximal_mu: of mu / 2 times the squared distance from `given` in the loss (Li et al. 2020, arXiv 1812.06127,
    equation 2); 0 for none.
    """
    model, x = given.copy(), rows.x.astype(np.float64)
    with np.errstate(all="ignore"):  # whoever asked looks at what comes out
        for chosen in _batches(len(x), training, generator):
            gradient = network.gradient(model, x[chosen], rows.y[chosen])
            if proximal_mu:
                gradient += proximal_mu * (model - given)
            model -= training.learning_rate * gradient
    return model


def answer(
    network: AveragedNetwork,
    given: np.ndarray,
    rows: TrainingRows,
    training: LocalTraining,
    proximal_mu: float,
    lots: Sequence[int],
    *,
    private: bool,
) -> np.ndarray | None:
    """The model that a party answers with; None where its training diverged.

    lots: seed, index of the party, number of the round. private: there is always an answer, the model that was given
    where training diverged, and always one that differs from it.
    """
    generator = np.random.default_rng([_PURPOSE, *lots])
    model = train_locally(network, given, rows, training, proximal_mu, generator)
    if not np.isfinite(model).all():
        if not private:
            return None
        model = given.copy()
    if private and (model == given).all():
        # Flower divides by the length of the update: 0 would end the whole run
        model[np.abs(model).argmin()] += _LEAST_CHANGE
    return model


def _batches(rows: int, training: LocalTraining, generator: np.random.Generator) -> Iterator[np.ndarray]:
    """Positions of the rows of each step: each pass in an order by lot, its last batch as small as it happens to be."""
    left = training.steps or training.epochs * -(-rows // training.batch)
    while left:
        order = generator.permutation(rows)
        for start in range(0, min(rows, left * training.batch), training.batch):
            yield order[start : start + training.batch]
            left -= 1
