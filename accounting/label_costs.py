"""What an event costs where nothing but labels leaves: its worst case, and its cost at the votes at hand.

Three numbers stand beside each other wherever a researcher asks: the worst case as the papers charge it (for the noisy
histogram, which nobody sees), the worst case of what leaves, and the costs at the votes at hand, published and exact.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from consilium.accounting.accountant import Accountant
from consilium.accounting.checks import check_orders
from consilium.accounting.curves.conversion import DEFAULT_ORDERS, EpsilonBound, Method, rdp_to_epsilon
from consilium.accounting.curves.discrete import slack_rdp
from consilium.accounting.curves.gaussian import rdp_gaussian
from consilium.accounting.curves.gdp import exact_epsilon
from consilium.accounting.curves.laplace import rdp_laplace
from consilium.accounting.errors import EventError, NoDataDependentBoundError
from consilium.accounting.events import ReleaseEvent, Step
from consilium.accounting.guarantee import Guarantee, Kind
from consilium.accounting.outcome import argmax, check
from consilium.accounting.units import Noise


class VoteBatch(NamedTuple):
    """Votes of one batch and all that decides what they cost. Secret.

    votes : int64 (queries, classes), ``teachers`` in every row. weights : float64 (queries,) in [0, 1], how much of its
    label each query pays. predictions : float64 (queries, classes) of the student, for an interactive event.
    """

    votes: np.ndarray
    teachers: int
    weights: np.ndarray
    predictions: np.ndarray | None = None

    def __repr__(self) -> str:
        return "VoteBatch(<secret>)"


def histogram_rdp(event: ReleaseEvent, orders: object = DEFAULT_ORDERS) -> np.ndarray:
    """Curve of the whole noisy histogram, of which less may leave: float64 (orders,), what the papers charge."""
    if event.laplace_gamma is not None:
        one = rdp_laplace(event.laplace_gamma, orders, event.votes_moved, noise=event.noise)
        return event.answered * one
    parts = event.gaussian_parts()
    if event.label_sigma is None or parts is None:
        return event.worst_case_rdp(orders)
    total = np.zeros(check_orders(orders).size)
    for part in parts:
        one = rdp_gaussian(part.sigma, orders, event.votes_moved, scalar=part.scalar)
        total += part.releases * (one + slack_rdp(part.slack, event.votes_moved, orders))
    return total


def worst_case(event: ReleaseEvent, delta: float, method: Method = "cks", *, numerical: bool = True) -> Guarantee:
    """What may be promised of it, whatever the votes are; see ``Accountant.guarantee``."""
    accountant = Accountant(DEFAULT_ORDERS)
    accountant.commit(event)
    return accountant.guarantee(delta, Kind.WORST_CASE, method, numerical=numerical)


def worst_case_as_histogram(event: ReleaseEvent, delta: float, method: Method = "cks") -> EpsilonBound:
    """The same if the whole noisy histogram were seen, of which a label is a part: what the papers charge.

    By the Renyi curve, or exactly where that is known and less (``method`` "classic" is for comparison, and does not).
    """
    left, parts = delta - event.added_delta(), event.gaussian_parts()
    bound = rdp_to_epsilon(histogram_rdp(event), DEFAULT_ORDERS, left, method)
    exact = exact_epsilon(parts, event.noise, event.votes_moved, left) if parts and method == "cks" else None
    return bound if exact is None or exact >= bound.epsilon else EpsilonBound(exact, math.nan)


def published_rdp(event: ReleaseEvent, batch: VoteBatch, orders: object = DEFAULT_ORDERS) -> np.ndarray | None:
    """The bounds of the PATE papers at these votes: float64 (orders,), one direction. Secret.

    Papernot et al. 2018, Theorem 6, of Gaussian noise; Papernot et al. 2017, Theorems 2 and 3, of Laplace noise. None
    where there is no such bound.
    """
    try:
        evidence = event.evidence(batch.votes, batch.teachers, batch.predictions)
        return event.expected_rdp(evidence, batch.weights, orders)
    except NoDataDependentBoundError:
        return None


def exact_rdp(
    event: ReleaseEvent, batch: VoteBatch, orders: object = DEFAULT_ORDERS, *, both: bool = True
) -> np.ndarray:
    """What leaves costs at these votes: float64 (orders,). Secret.

    both : the larger of both directions; False: D(M(D) || M(D')) with D the data at hand, as the published bounds.
    Where a unit moves several votes in more ways than are tried (`exactly` says so), a label is charged the published
    bound. Where votes decide nothing of what is charged: the worst case.
    """
    steps = _steps(event, batch)
    if steps is None:
        return event.worst_case_rdp(orders)
    total = np.zeros(check_orders(orders).size)
    for step in steps:
        weights, moved = batch.weights if step.only_answered else None, event.votes_moved
        if step.kind == "scalar":
            total += check.sum_rdp(*_compared(event, batch), orders, weights, both, votes_moved=moved)
        elif argmax.tried(batch.votes, moved):
            law = _LAW[step.kind]
            total += argmax.sum_rdp(batch.votes, step.scale, event.noise, law, orders, weights, both, votes_moved=moved)
        else:
            total += step.sum_rdp(orders, moved, event.noise, weights)
    return total


def exactly(event: ReleaseEvent, batch: VoteBatch) -> bool:
    """Whether ``exact_rdp`` is one, and no bound in one direction stands in it: votes may move in few enough ways."""
    steps = _steps(event, batch) or ()
    return all(step.kind == "scalar" or argmax.tried(batch.votes, event.votes_moved) for step in steps)


def exact_rdp_per_query(event: ReleaseEvent, batch: VoteBatch, orders: object = DEFAULT_ORDERS) -> np.ndarray:
    """``exact_rdp`` in both directions query by query: float64 (queries, orders). Secret."""
    steps = _steps(event, batch)
    if steps is None:
        return np.tile(event.worst_case_rdp(orders) / max(event.asked, 1), (event.asked, 1))
    total = np.zeros((event.asked, check_orders(orders).size))
    for step in steps:
        moved = event.votes_moved
        if step.kind == "scalar":
            cost = check.per_query(*_compared(event, batch), orders, votes_moved=moved)
        elif argmax.tried(batch.votes, moved):
            law = _LAW[step.kind]
            cost = argmax.per_query(batch.votes, step.scale, event.noise, law, orders, votes_moved=moved)
        else:
            cost = step.rdp(orders, moved, event.noise)
        total += batch.weights[:, None] * cost if step.only_answered else cost
    return total


_LAW: dict[str, argmax.Kind] = {"histogram": "gaussian", "laplace": "laplace"}
"""Kind of a step -> noise of the argmax."""


def _compared(event: ReleaseEvent, batch: VoteBatch) -> tuple[np.ndarray, float, float, Noise]:
    """Number, threshold, sigma and noise of the check of each query."""
    compared = event.comparison(batch.votes, batch.teachers, batch.predictions)
    if compared is None:
        raise EventError(f"a {event.TYPE} release has a check that compares nothing. Update this program.")
    return compared.number, compared.threshold, compared.sigma, compared.noise


def _steps(event: ReleaseEvent, batch: VoteBatch) -> tuple[Step, ...] | None:
    """None where the votes decide nothing of what is charged."""
    try:
        return event.steps(event.evidence(batch.votes, batch.teachers, batch.predictions))
    except NoDataDependentBoundError:
        return None
