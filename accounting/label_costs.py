"""What an event costs where nothing but labels leaves, at the votes at hand: by the papers' bounds, and exactly."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from consilium.accounting.checks import check_orders
from consilium.accounting.curves.conversion import DEFAULT_ORDERS
from consilium.accounting.curves.discrete import slack_rdp
from consilium.accounting.curves.gaussian import rdp_gaussian
from consilium.accounting.curves.laplace import rdp_laplace
from consilium.accounting.errors import EventError, NoDataDependentBoundError
from consilium.accounting.events import ReleaseEvent, Step
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
    Labels that ``bounded_rdp`` names are charged a bound, of both directions. Where votes decide nothing of what is
    charged: the worst case.
    """
    steps = _steps(event, batch)
    if steps is None:
        return event.worst_case_rdp(orders)
    total, moved = np.zeros(check_orders(orders).size), event.votes_moved
    for step in steps:
        weights = batch.weights if step.only_answered else None
        if step.kind == "scalar":
            total += check.sum_rdp(*_compared(event, batch), orders, weights, both, votes_moved=moved)
        else:
            given = batch.votes, step.scale, event.noise, _LAW[step.kind], orders
            total += argmax.sum_rdp(*given, weights, both, votes_moved=moved)
    return total


def bounded_rdp(event: ReleaseEvent, batch: VoteBatch, orders: object = DEFAULT_ORDERS) -> np.ndarray:
    """The part of ``exact_rdp`` that is a bound, since the law of these labels is not computed: float64 (orders,)."""
    total = np.zeros(check_orders(orders).size)
    for step in _steps(event, batch) or ():
        if step.kind != "scalar":
            kind = _LAW[step.kind]
            rows = ~argmax.computed(batch.votes, step.scale, event.noise, kind, event.votes_moved)
            given = batch.votes[rows], step.scale, event.noise, kind, orders, batch.weights[rows]
            total += argmax.sum_rdp(*given, votes_moved=event.votes_moved)
    return total


def exact_rdp_per_query(event: ReleaseEvent, batch: VoteBatch, orders: object = DEFAULT_ORDERS) -> np.ndarray:
    """``exact_rdp`` in both directions query by query: float64 (queries, orders). Secret."""
    steps = _steps(event, batch)
    if steps is None:
        return np.tile(event.worst_case_rdp(orders) / max(event.asked, 1), (event.asked, 1))
    total, moved = np.zeros((event.asked, check_orders(orders).size)), event.votes_moved
    for step in steps:
        if step.kind == "scalar":
            cost = check.per_query(*_compared(event, batch), orders, votes_moved=moved)
        else:
            cost = argmax.per_query(batch.votes, step.scale, event.noise, _LAW[step.kind], orders, votes_moved=moved)
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
