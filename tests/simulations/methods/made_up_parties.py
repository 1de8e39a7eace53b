"""Parties with made-up rows."""

from __future__ import annotations

import numpy as np

from consilium.simulations.methods.averaging import TrainingRows

INPUTS = 3


def made_up_parties(sizes: list[int], classes: int = 2, inputs: int = INPUTS, seed: int = 0) -> list[TrainingRows]:
    """One for each size; classes whose means differ, in shares of each party's own."""
    generator = np.random.default_rng([seed, 11])
    means = generator.normal(size=(classes, inputs))
    found = []
    for size in sizes:
        y = generator.choice(classes, size=size, p=generator.dirichlet(np.ones(classes)))
        found.append(TrainingRows((means[y] + generator.normal(size=(size, inputs))).astype(np.float32), y))
    return found
