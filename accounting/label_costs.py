"""What an event costs where nothing but labels leaves, at the votes at hand: by the papers' bounds, and exactly."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from consilium.accounting.checks import check_orders, check_same_total, check_weights
from consilium.accounting.curves.conversion import DEFAULT_ORDERS
from consilium.accounting.curves.gaussian import log_q_gnmax, rdp_data_dependent, sum_over_queries
from consilium.accounting.curves.laplace import log_q_lnmax, rdp_lnmax
from consilium.accounting.errors import EventError
from consilium.accounting.events import Comparison, ReleaseEvent, Step
from consilium.accounting.outcome import argmax, check


class VoteBatch(NamedTuple):
    """A release, and all that decides what it costs. Secret.

    votes : int64 (queries, classes), as many in every row.
    answered : bool (queries,), which queries got a label; or float64 in [0, 1], the probability of each.
    predictions : float64 (queries, classes), the student's public ones, for an interactive event.
    """

    event: ReleaseEvent
    votes: np.ndarray
    answered: np.ndarray
    predictions: np.ndarray | None = None

    def __repr__(self) -> str:
        return "VoteBatch(<secret>)"

    def check(self) -> int:
        """The votes in every row; 0 without rows. Raises VotesError, EventError: votes or answers are not those of the
        event's queries. AccountingError: no weights."""
        event, answered = self.event, np.asarray(self.answered)
        teachers = check_same_total(self.votes)
        if len(self.votes) != event.asked:
            raise EventError(f"votes hold {len(self.votes)} queries, the event says {event.asked} were asked.")
        if answered.dtype.name not in ("bool", "float64") or answered.shape != (event.asked,):
            raise EventError(
                f"answered must be a bool mask, or probabilities, of shape ({event.asked},), got {answered.dtype}"
                f" {answered.shape}."
            )
        if answered.dtype == np.bool_ and int(answered.sum()) != event.answered:
            raise EventError(
                f"the mask marks {int(answered.sum())} queries as answered, the event says {event.answered}."
            )
        check_weights(answered, answered.shape)
        return teachers

    def paid(self, step: Step) -> np.ndarray:
        """How much of a step each query pays: float64 (queries,)."""
        return self.answered.astype(np.float64) if step.only_answered else np.ones(len(self.votes))

    def compared(self) -> Comparison:
        """What the check of each query compares. Raises EventError where predictions are missing or do not fit."""
        event, teachers = self.event, int(self.votes[0].sum()) if len(self.votes) else 0
        found = event.mechanism.comparison(self.votes, teachers, event.noise, self.predictions)
        if found is None:
            raise EventError(f"{event.mechanism.name} has a check that compares nothing. Update this program.")
        return found


def published_rdp(batch: VoteBatch, orders: object = DEFAULT_ORDERS) -> np.ndarray | None:
    """The bounds of the PATE papers at these votes: float64 (orders,), one direction; None where there is none. Secret.

    Papernot et al. 2018, Theorem 6, of Gaussian noise; Papernot et al. 2017, Theorems 2 and 3, of Laplace noise. It may
    be above the worst case, since the papers bound the noisy histogram, of which the winner alone leaves; and may
    decide neither when to stop nor what to publish. Raises VotesError, EventError: as `VoteBatch.check`.
    """
    batch.check()
    event, moved, total = batch.event, batch.event.votes_moved, np.zeros(check_orders(orders).size)
    if not event.votes_decide:
        return None
    for step in event.steps:
        curve = partial(rdp_data_dependent, sigma=step.scale, orders=orders, sensitivity_votes=moved)
        if step.law == "laplace":
            log_q = log_q_lnmax(batch.votes, step.scale, event.noise)
            curve = partial(rdp_lnmax, gamma=step.scale, orders=orders, sensitivity_votes=moved, noise=event.noise)
        elif step.leaves == "check":
            log_q, curve = np.minimum(*batch.compared().log_p()), partial(curve, scalar=True)
        else:
            log_q = log_q_gnmax(batch.votes, step.scale, event.noise)
        total += sum_over_queries(curve, log_q, batch.paid(step))
    return total


def exact_rdp(batch: VoteBatch, orders: object = DEFAULT_ORDERS) -> np.ndarray:
    """What leaves costs at these votes, the larger of both directions: float64 (orders,). Secret. Labels whose law is
    not computed are charged a bound (``outcome.argmax``). Where votes decide nothing of what is charged: the worst
    case. Raises VotesError, EventError: as `VoteBatch.check`."""
    batch.check()
    event, moved = batch.event, batch.event.votes_moved
    if not event.votes_decide:
        return event.worst_case_rdp(orders)
    total = np.zeros(check_orders(orders).size)
    for step in event.steps:
        if step.leaves == "check":
            compared = batch.compared()
            given = compared.number, compared.threshold, compared.sigma, compared.noise
            total += check.sum_rdp(*given, orders, batch.paid(step), votes_moved=moved)
        else:
            given = batch.votes, step.scale, event.noise, step.law
            total += argmax.sum_rdp(*given, orders, batch.paid(step), votes_moved=moved)
    return total
