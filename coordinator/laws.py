"""The law of a label, by mechanism: what a student may know of the noise. It goes with `draw`, and has its two laws."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import singledispatch

from consilium.accounting.events import Mechanism
from consilium.accounting.mechanisms import Confident, Immutable, ImmutableGaussian
from consilium.protocol.label_source import LabelLaw


@singledispatch
def law_of(mechanism: Mechanism, votes: int, classes: int, in_sums: Sequence[float]) -> LabelLaw | None:
    """Of labels that are drawn on `votes` votes; None where the noisy counts themselves are released. in_sums: standard
    deviation of all noise that a count of each round's sum holds; empty where counts are exact."""
    label = mechanism.label_noise
    if label is None or mechanism.count_sigma > 0:
        return None
    return LabelLaw(votes, (in_sums or (label.deviation,))[-1])


@law_of.register
def _(mechanism: Immutable, votes: int, classes: int, in_sums: Sequence[float]) -> LabelLaw:
    """What is added to the largest count is left out: a label is surer than this says."""
    return LabelLaw(votes, math.sqrt(2) / mechanism.gamma)


@law_of.register
def _(mechanism: ImmutableGaussian, votes: int, classes: int, in_sums: Sequence[float]) -> LabelLaw:
    return LabelLaw(votes, mechanism.sigma)


@law_of.register
def _(mechanism: Confident, votes: int, classes: int, in_sums: Sequence[float]) -> LabelLaw:
    """Of sums with noise C_j the check compares max_j(n_j - m_j + C_j - C), C the mean of the C_j (`draw.projected`).
    C is independent of that, and has the variance s^2 / classes: with C, as `LabelLaw` has it, so much less is left for
    the check's own noise."""
    cells, label = in_sums or (0.0, mechanism.sigma2)
    own = math.sqrt(max(mechanism.sigma1**2 - cells**2 / classes, 0.0))
    return LabelLaw(votes, label, mechanism.threshold, own, cells, mechanism.needs_probabilities)
