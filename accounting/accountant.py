"""Composition of releases.

Curves add per order over all releases on the same data; the conversion to epsilon happens once, at the end.
"""

from __future__ import annotations

import math

import numpy as np

from consilium.accounting.checks import check_delta, check_orders
from consilium.accounting.composed import Composed
from consilium.accounting.curves.conversion import DEFAULT_ORDERS, EpsilonBound, rdp_to_epsilon
from consilium.accounting.curves.gaussian import rdp_gaussian
from consilium.accounting.curves.gdp import exact_epsilon
from consilium.accounting.curves.laplace import rdp_laplace
from consilium.accounting.errors import AccountingError, OrdersError, UnitError
from consilium.accounting.events import ReleaseEvent
from consilium.accounting.guarantees import Guarantee, Kind
from consilium.accounting.worst.adaptive import adaptive_epsilon

_BY_CURVES = "Renyi curves summed per order, cks conversion"
_NO_GAIN = 1e-9
"""Share of an epsilon by which another way has to be lower, so that rounding does not choose the words."""


def _at_least(part: Composed, orders: np.ndarray) -> np.ndarray:
    """Below the curve of these releases, by two classes near a tie: float64 (orders,). Only to choose by."""
    if part.what == "laplace":
        one = 0.499 * rdp_laplace(1 / part.sigma, orders, part.votes_moved, noise=part.noise)
    else:
        whole = rdp_gaussian(part.sigma, orders, part.votes_moved, scalar=part.what == "check")
        one = whole if part.what == "histogram" else 0.636 * whole
    return part.releases * one


class Accountant:
    """Adds up releases with the same unit, neighbouring relation and audience.

    orders : Renyi orders (orders,) at which everything is tracked.
    """

    def __init__(self, orders: object = DEFAULT_ORDERS) -> None:
        self._orders = check_orders(orders).copy()
        self._orders.setflags(write=False)
        self._events: list[ReleaseEvent] = []
        self._curves: list[np.ndarray] = []
        self._secrets: list[np.ndarray | None] = []

    def __repr__(self) -> str:
        return f"Accountant({len(self._events)} release(s), {self._orders.size} orders)"

    @property
    def orders(self) -> np.ndarray:
        """Renyi orders, read-only (orders,)."""
        return self._orders

    @property
    def events(self) -> tuple[ReleaseEvent, ...]:
        """What was committed, in order."""
        return tuple(self._events)

    def _check_same_claim(self, event: ReleaseEvent) -> None:
        if not self._events:
            return
        first = self._events[0]
        for name in ("unit", "neighbouring", "votes_moved", "towards"):
            if getattr(first, name) != getattr(event, name):
                raise UnitError(
                    f"cannot compose a release with {name} {getattr(event, name)} with earlier ones of "
                    f"{getattr(first, name)}. Use one accountant for each."
                )

    def commit(self, event: ReleaseEvent, data_dependent_rdp: np.ndarray | None = None) -> None:
        """Charge ``event``. Call it before the release, and release only if it returns.

        data_dependent_rdp : float64 (orders,) from ``label_costs.exact_rdp``; without it the worst case is charged
            to the data-dependent curve too.

        Raises UnitError: it speaks about another unit, relation or audience than the releases before it. OrdersError:
        see there. State is unchanged.
        """
        self._check_same_claim(event)
        secret = None if data_dependent_rdp is None else np.array(data_dependent_rdp, dtype=np.float64)
        if secret is not None and (
            secret.shape != self._orders.shape or np.any(np.isnan(secret)) or np.any(secret < 0)
        ):
            raise OrdersError(f"a data-dependent curve must be >= 0 with shape {self._orders.shape}.")
        self._secrets.append(secret)
        self._events.append(event)

    def _worst(self) -> list[np.ndarray]:
        """The curve of each release, computed when the first is asked for: those of a new noise scale take a second."""
        for event in self._events[len(self._curves) :]:
            self._curves.append(event.worst_case_rdp(self._orders))
        return self._curves

    def worst_case_epsilon(self, delta: float) -> EpsilonBound:
        """Epsilon of what was released so far, whatever the votes were, by Renyi curves."""
        total = np.sum(self._worst(), axis=0) if self._events else np.zeros(self._orders.size)
        return rdp_to_epsilon(total, self._orders, delta)

    def _parts(self) -> list[Composed] | None:
        """What was released, step by step; None where a cost is not a sum of such."""
        parts = [event.composed_parts() for event in self._events]
        return [part for mine in parts for part in mine] if all(parts) else None

    def exact_worst_case_epsilon(self, delta: float) -> float | None:
        """The same without the loss of the Renyi route, if all are made of Gaussian ones; None where no form is known.

        See ``accounting.curves.gdp``. Of releases that show less than what they are made of it may be above
        ``worst_case_epsilon``.
        """
        parts = self._parts()
        return exact_epsilon(parts, delta) if parts else None

    def pure_worst_case_epsilon(self, delta: float) -> float | None:
        """The same by adding epsilons at a delta of 0, which holds at any; None where a release has none."""
        check_delta(delta)
        pure = [event.pure_epsilon() for event in self._events]
        return None if not pure or None in pure else math.fsum(epsilon for epsilon in pure if epsilon is not None)

    def adaptive_worst_case_epsilon(self, delta: float) -> float | None:
        """The same by backward induction, nearly always the smallest; None where no form is known.

        See ``accounting.worst.adaptive``. Of one to three releases, or where several kinds tell about as much, it may
        be above the others.
        """
        parts = self._parts()
        return None if parts is None else adaptive_epsilon(parts, delta)

    def _curves_may_be_below(self, epsilon: float, delta: float) -> bool:
        """False where even what two classes near a tie cost at every order is above."""
        parts = self._parts()
        if not parts or math.isinf(epsilon):
            return True
        least = np.sum([_at_least(part, self._orders) for part in parts], axis=0)
        return rdp_to_epsilon(np.broadcast_to(least, self._orders.shape), self._orders, delta).epsilon < epsilon

    def least_worst_case_epsilon(self, delta: float) -> tuple[EpsilonBound, str]:
        """The least of them, with the words for how it was found. Which are tried depends on no vote."""
        bounds = (
            (self.pure_worst_case_epsilon, "epsilons of pure privacy added"),
            (self.exact_worst_case_epsilon, "exact composition of Gaussian noise"),
            (self.adaptive_worst_case_epsilon, "backward induction over adaptive releases"),
        )
        best, words = EpsilonBound(math.inf, math.nan), _BY_CURVES
        for bound, how in bounds:
            epsilon = bound(delta)
            if epsilon is not None and epsilon < best.epsilon * (1 - _NO_GAIN):
                best, words = EpsilonBound(epsilon, math.nan), how
        if self._curves_may_be_below(best.epsilon, delta):
            by_curves = self.worst_case_epsilon(delta)
            if not best.epsilon < by_curves.epsilon * (1 - _NO_GAIN):
                best, words = by_curves, _BY_CURVES
        return best, words

    def data_dependent_epsilon(self, delta: float) -> EpsilonBound:
        """Epsilon at the votes at hand. Secret: neither publish it nor stop because of it. Where the papers' bound was
        given, it may be above the worst case, and holds."""
        total = np.zeros(self._orders.size)
        for event, secret in zip(self._events, self._secrets, strict=True):
            total += event.worst_case_rdp(self._orders) if secret is None else secret
        return rdp_to_epsilon(total, self._orders, delta)

    def guarantee(self, delta: float, kind: Kind) -> Guarantee:
        """The epsilon together with everything that it means.

        kind : WORST_CASE only where the events hold a query budget fixed before the run; REALISED for what came
        out.

        Raises AccountingError: nothing was released yet, or a sanitised value is asked for (see ``sanitise.release``).
        """
        if not self._events:
            raise AccountingError("nothing was released yet, so there is no guarantee to state. Commit an event first.")
        if kind is Kind.SANITISED:
            raise AccountingError(
                "an accountant holds no sanitised value. Make one with consilium.accounting.sanitise.release."
            )
        # what holds for all data holds for these too, so the worst case may stand for either
        bound, words = self.least_worst_case_epsilon(delta)
        at_votes = kind is Kind.DATA_DEPENDENT and any(secret is not None for secret in self._secrets)
        at_hand = self.data_dependent_epsilon(delta) if at_votes else bound
        if at_hand.epsilon <= bound.epsilon and at_hand is not bound:
            bound, words = at_hand, _BY_CURVES
        first = self._events[0]
        return Guarantee(
            epsilon=bound.epsilon,
            delta=delta,
            order=bound.order,
            unit=first.unit,
            neighbouring=first.neighbouring,
            teachers_per_party=first.teachers_per_party,
            towards=first.towards,
            kind=kind,
            method=f"{words}, {first.noise} noise",
        )
