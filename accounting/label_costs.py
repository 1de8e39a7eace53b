"""What an event costs where nothing but labels leaves, at the votes at hand: by the papers' bounds, and exactly."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from consilium.accounting.checks import check_orders, check_same_total
from consilium.accounting.curves.conversion import DEFAULT_ORDERS
from consilium.accounting.errors import EventError
from consilium.accounting.events import ReleaseEvent
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


def published_rdp(event: ReleaseEvent, batch: VoteBatch, orders: object = DEFAULT_ORDERS) -> np.ndarray | None:
    """The bounds of the PATE papers at these votes: float64 (orders,), one direction. Secret.

    Papernot et al. 2018, Theorem 6, of Gaussian noise; Papernot et al. 2017, Theorems 2 and 3, of Laplace noise. None
    where there is no such bound.
    """
    if not _at_hand(event, batch):
        return None
    evidence = event.evidence(batch.votes, batch.teachers, batch.predictions)
    return event.data_dependent_rdp(evidence, batch.weights, orders)


def exact_rdp(
    event: ReleaseEvent, batch: VoteBatch, orders: object = DEFAULT_ORDERS, *, both: bool = True
) -> np.ndarray:
    """What leaves costs at these votes: float64 (orders,). Secret.

    both : the larger of both directions; False: D(M(D) || M(D')) with D the data at hand, as the published bounds.
    Labels that ``bounded_rdp`` names are charged a bound, of both directions. Where votes decide nothing of what is
    charged: the worst case.

    Raises
    ------
    VotesError, EventError : the votes are not those of the event's queries, of ``teachers`` each.
    """
    if not _at_hand(event, batch):
        return event.worst_case_rdp(orders)
    total, moved = np.zeros(check_orders(orders).size), event.votes_moved
    for step in event.steps:
        weights = batch.weights if step.only_answered else None
        if step.leaves == "check":
            total += check.sum_rdp(*_compared(event, batch), orders, weights, both, votes_moved=moved)
        else:
            given = batch.votes, step.scale, event.noise, step.law, orders
            total += argmax.sum_rdp(*given, weights, both, votes_moved=moved)
    return total


def bounded_rdp(event: ReleaseEvent, batch: VoteBatch, orders: object = DEFAULT_ORDERS) -> np.ndarray:
    """The part of ``exact_rdp`` that is a bound, since the law of these labels is not computed: float64 (orders,)."""
    label = event.label
    if label is None or not _at_hand(event, batch):
        return np.zeros(check_orders(orders).size)
    rows = ~argmax.computed(batch.votes, label.scale, event.noise, label.law, event.votes_moved)
    given = batch.votes[rows], label.scale, event.noise, label.law, orders, batch.weights[rows]
    return argmax.sum_rdp(*given, votes_moved=event.votes_moved)


def _at_hand(event: ReleaseEvent, batch: VoteBatch) -> bool:
    """Whether these votes, which are checked, decide what is charged."""
    check_same_total(batch.votes, batch.teachers)
    if len(batch.votes) != event.asked:
        raise EventError(f"votes hold {len(batch.votes)} queries, the event says {event.asked} were asked.")
    return event.votes_decide


def _compared(event: ReleaseEvent, batch: VoteBatch) -> tuple[np.ndarray, float, float, Noise]:
    """Number, threshold, sigma and noise of the check of each query."""
    compared = event.mechanism.comparison(batch.votes, batch.teachers, event.noise, batch.predictions)
    if compared is None:
        raise EventError(f"{event.mechanism.name} has a check that compares nothing. Update this program.")
    return compared.number, compared.threshold, compared.sigma, compared.noise
