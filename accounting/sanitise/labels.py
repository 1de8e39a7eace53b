"""Whose labels have a cost of known sensitivity, and which bound on it that is: GNMax, or LNMax."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from consilium.accounting.errors import EventError
from consilium.accounting.events import ReleaseEvent
from consilium.accounting.sanitise.laplace import LaplaceProfile
from consilium.accounting.sanitise.sensitivity import conditions, sensitivity_curve
from consilium.accounting.sanitise.smooth import label_profile, least_log_q


class LabelCost(Protocol):
    """The cost of the labels of a batch, and how much moved votes can change it. Secret."""

    def cost(self) -> np.ndarray:
        """Sum of the costs whose sensitivity this is: float64 (orders,)."""
        ...

    def at(self, order_index: np.ndarray, distance: np.ndarray) -> np.ndarray:
        """See `SensitivityProfile.at`."""
        ...


def sensitivity_known(event: ReleaseEvent) -> bool:
    """Whether the cost of the event's labels can be sanitised."""
    return event.label_sigma is not None or event.laplace_gamma is not None


def no_known_sensitivity(event: ReleaseEvent) -> EventError:
    """What to say of an event that has none."""
    return EventError(f"a {event.TYPE} release has no data-dependent bound with a known sensitivity. Drop the plan.")


def label_cost(
    event: ReleaseEvent, votes: np.ndarray, teachers: int, orders: np.ndarray, weights: np.ndarray
) -> LabelCost | None:
    """Cost and sensitivity of the labels that left; None where no bound on the sensitivity is known.

    Parameters
    ----------
    votes : signed integers (queries, classes), ``teachers`` in every row. weights : float64 (queries,), the realised
        answered mask (or probabilities, for a plan on public votes).

    Raises
    ------
    ConditionError : C5 or C6 fails at one of the orders. VotesError, NoiseError, OrdersError.
    """
    k = event.votes_moved
    if event.laplace_gamma is not None:
        return LaplaceProfile(votes, teachers, event.laplace_gamma, event.noise, orders, k, weights)
    if event.label_sigma is not None:
        return label_profile(votes, teachers, event.label_sigma, event.noise, orders, k, weights)
    return None


def proved_orders(event: ReleaseEvent, teachers: int, classes: int, orders: np.ndarray) -> np.ndarray:
    """The orders at which the bound on the sensitivity is proved: float64, some of ``orders``. Looks at no votes.

    Of Gaussian noise those with C5 and C6; of Laplace noise all.
    """
    if event.label_sigma is None:
        return orders
    curve = sensitivity_curve(event.label_sigma, classes, orders, event.votes_moved)
    c5, c6 = conditions(curve, least_log_q(teachers, classes, event.label_sigma, event.noise))
    return orders[c5 & c6]
