"""Composition of releases: curves add per order over all on the same data, and are converted once, at the end."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from consilium.accounting.checks import check_delta
from consilium.accounting.curves.conversion import DEFAULT_ORDERS, EpsilonBound, rdp_to_epsilon
from consilium.accounting.curves.gaussian import rdp_gaussian
from consilium.accounting.curves.gdp import Composed, exact_epsilon
from consilium.accounting.curves.laplace import rdp_laplace
from consilium.accounting.errors import AccountingError, OrdersError, UnitError
from consilium.accounting.events import ReleaseEvent
from consilium.accounting.guarantees import Guarantee, Kind
from consilium.accounting.worst.adaptive import adaptive_epsilon

_BY_CURVES = "Renyi curves summed per order, cks conversion"
_NO_GAIN = 1e-9
"""Share of an epsilon by which another way has to be lower, so that rounding does not choose the words."""


def _at_least(part: Composed) -> np.ndarray:
    """Below the curve of these releases, by two classes near a tie: float64 (orders,). Only to choose by."""
    if part.what == "laplace":
        one = 0.499 * rdp_laplace(1 / part.sigma, DEFAULT_ORDERS, part.votes_moved, noise=part.noise)
    else:
        whole = rdp_gaussian(part.sigma, DEFAULT_ORDERS, part.votes_moved, scalar=part.what == "check")
        one = whole if part.what == "histogram" else 0.636 * whole
    return part.releases * one


class Accountant:
    """Adds up releases with the same unit, neighbouring relation and audience, at `DEFAULT_ORDERS`."""

    def __init__(self) -> None:
        self._events: list[ReleaseEvent] = []
        self._secrets: list[np.ndarray | None] = []

    @property
    def events(self) -> tuple[ReleaseEvent, ...]:
        """What was committed, in order."""
        return tuple(self._events)

    def commit(self, event: ReleaseEvent, data_dependent_rdp: np.ndarray | None = None) -> None:
        """Charge ``event``. Call it before the release, and release only if it returns.

        data_dependent_rdp : float64 (orders,) from ``label_costs.exact_rdp``; without it the worst case is charged
            to the data-dependent curve too.

        Raises UnitError: it speaks about another unit, relation or audience than the releases before it. OrdersError:
        no such curve. State is unchanged.
        """
        for name in ("unit", "neighbouring", "votes_moved", "towards") if self._events else ():
            first, other = getattr(self._events[0], name), getattr(event, name)
            if first != other:
                raise UnitError(
                    f"cannot compose a release with {name} {other} with earlier ones of {first}. Use one accountant"
                    " for each."
                )
        secret = None if data_dependent_rdp is None else np.array(data_dependent_rdp, dtype=np.float64)
        if secret is not None and (secret.shape != DEFAULT_ORDERS.shape or not np.all(secret >= 0)):
            raise OrdersError(f"a data-dependent curve must be >= 0 with shape {DEFAULT_ORDERS.shape}.")
        self._secrets.append(secret)
        self._events.append(event)

    def worst_case_epsilon(self, delta: float) -> EpsilonBound:
        """Epsilon of what was released so far, whatever the votes were, by Renyi curves."""
        return converted([event.worst_case_rdp(DEFAULT_ORDERS) for event in self._events], delta)

    def _parts(self) -> list[Composed] | None:
        """What was released, step by step; None where a cost is not a sum of such."""
        parts = [event.composed_parts() for event in self._events]
        return [part for mine in parts for part in mine] if all(parts) else None

    def exact_worst_case_epsilon(self, delta: float) -> float | None:
        """The same without the loss of the Renyi route (``curves.gdp``), if all are made of Gaussian ones; None where
        no form is known. Of releases that show less than what they are made of it may be above
        ``worst_case_epsilon``."""
        parts = self._parts()
        return exact_epsilon(parts, delta) if parts else None

    def pure_worst_case_epsilon(self, delta: float) -> float | None:
        """The same by adding epsilons at a delta of 0, which holds at any; None where a release has none."""
        check_delta(delta)
        pure = [event.pure_epsilon() for event in self._events]
        return None if not pure or None in pure else math.fsum(epsilon for epsilon in pure if epsilon is not None)

    def least_worst_case_epsilon(self, delta: float) -> tuple[EpsilonBound, str]:
        """The least of them, with the words for how it was found. Which are tried depends on no vote.

        Backward induction nearly always gives it; not of one to three releases, or where several kinds tell about as
        much. Curves take a second for each noise scale, and are left out where even what two classes near a tie cost at
        every order is above.
        """
        parts = self._parts()
        bounds = (
            (self.pure_worst_case_epsilon(delta), "epsilons of pure privacy added"),
            (self.exact_worst_case_epsilon(delta), "exact composition of Gaussian noise"),
            (None if parts is None else adaptive_epsilon(parts, delta), "backward induction over adaptive releases"),
        )
        best, words = math.inf, _BY_CURVES
        for epsilon, how in bounds:
            if epsilon is not None and epsilon < best * (1 - _NO_GAIN):
                best, words = epsilon, how
        if not parts or math.isinf(best) or converted([_at_least(part) for part in parts], delta).epsilon < best:
            by_curves = self.worst_case_epsilon(delta)
            if not best < by_curves.epsilon * (1 - _NO_GAIN):
                return by_curves, _BY_CURVES
        return EpsilonBound(best, math.nan), words

    def data_dependent_epsilon(self, delta: float) -> EpsilonBound:
        """Epsilon at the votes at hand. Secret: neither publish it nor stop because of it. Where the papers' bound was
        given, it may be above the worst case, and holds."""
        events = zip(self._events, self._secrets, strict=True)
        return converted([e.worst_case_rdp(DEFAULT_ORDERS) if own is None else own for e, own in events], delta)

    def guarantee(self, delta: float, kind: Kind) -> Guarantee:
        """The epsilon together with everything that it means. WORST_CASE is only for events of a query budget fixed
        before the run; REALISED for what came out. Raises AccountingError: nothing was released yet."""
        if not self._events:
            raise AccountingError("nothing was released yet, so there is no guarantee to state. Commit an event first.")
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


def converted(curves: Sequence[np.ndarray], delta: float) -> EpsilonBound:
    """The epsilon of releases with these curves at `DEFAULT_ORDERS` together."""
    return rdp_to_epsilon(sum(curves, np.zeros(DEFAULT_ORDERS.size)), DEFAULT_ORDERS, delta)
