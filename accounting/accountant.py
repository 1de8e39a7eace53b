"""Composition of releases.

Curves add per order over all releases on the same data; the conversion to epsilon happens once, at the end.
"""

from __future__ import annotations

import math

import numpy as np

from consilium.accounting.checks import check_delta, check_orders
from consilium.accounting.curves.conversion import DEFAULT_ORDERS, EpsilonBound, rdp_to_epsilon
from consilium.accounting.curves.gdp import GaussianPart, exact_epsilon
from consilium.accounting.errors import AccountingError, DeltaError, OrdersError, UnitError
from consilium.accounting.events import ReleaseEvent
from consilium.accounting.guarantees import Guarantee, Kind
from consilium.accounting.worst.adaptive import adaptive_epsilon
from consilium.accounting.worst.compose import Composed, composed_epsilon, counted

_MOST_KINDS = 2
"""Of releases that are induced over, as one federation has them. Two federations take 4 s and 250 MB for half a per
cent, five take 12 s for nothing."""
_LEAST_DISTANCE = 1.2e-3
"""Of a release that is induced over, a sigma of about 1,200 votes of a move: of less tell-tale ones rounding hides
which place is the worst, and all of them would have to be tried in every round."""
_BY_CURVES = "Renyi curves summed per order, cks conversion"
_NO_GAIN = 1e-9
"""Share of an epsilon by which another way has to be lower, so that rounding does not choose the words."""


def _left(delta: float, added: float) -> float:
    if added >= check_delta(delta):
        raise DeltaError(f"the releases fail with probability {added:g} already, but delta is {delta:g}. Raise delta.")
    return delta - added


class Accountant:
    """Adds up releases with the same unit, neighbouring relation and audience.

    Parameters
    ----------
    orders : Renyi orders (orders,) at which everything is tracked.
    """

    def __init__(self, orders: object = DEFAULT_ORDERS) -> None:
        self._orders = check_orders(orders).copy()
        self._orders.setflags(write=False)
        self._events: list[ReleaseEvent] = []
        self._worst = np.zeros(self._orders.size)
        self._data_dependent = np.zeros(self._orders.size)
        self._added_delta = 0.0

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

        Parameters
        ----------
        data_dependent_rdp : float64 (orders,) from ``event.data_dependent_rdp``; without it the worst case is charged
            to the data-dependent curve too.

        Raises
        ------
        UnitError : it speaks about another unit, relation or audience than the releases before it. OrdersError : see
            there. State is unchanged.
        """
        self._check_same_claim(event)
        rdp = event.worst_case_rdp(self._orders)
        if data_dependent_rdp is None:
            secret = rdp
        else:
            secret = np.asarray(data_dependent_rdp, dtype=np.float64)
            if secret.shape != self._orders.shape or np.any(np.isnan(secret)) or np.any(secret < 0):
                raise OrdersError(f"a data-dependent curve must be >= 0 with shape {self._orders.shape}.")
            # Never above the worst case; rounding in a sum of many terms may put it there.
            secret = np.minimum(secret, rdp)
        self._worst = self._worst + rdp
        self._data_dependent = self._data_dependent + secret
        self._added_delta += event.added_delta()
        self._events.append(event)

    def worst_case_epsilon(self, delta: float) -> EpsilonBound:
        """Epsilon of what was released so far, whatever the votes were."""
        return rdp_to_epsilon(self._worst, self._orders, _left(delta, self._added_delta))

    def exact_worst_case_epsilon(self, delta: float) -> float | None:
        """The same without the loss of the Renyi route, if all are made of Gaussian ones; None where no form is known.

        See ``accounting.curves.gdp``. Of releases that show less than what they are made of it may be above
        ``worst_case_epsilon``.
        """
        parts: list[GaussianPart] = []
        for event in self._events:
            mine = event.gaussian_parts()
            if mine is None or event.noise is not self._events[0].noise:
                return None
            parts.extend(mine)
        if not parts:
            return None
        left = _left(delta, self._added_delta)
        first = self._events[0]
        return exact_epsilon(parts, first.noise, first.votes_moved, left)

    def _composed_parts(self) -> list[Composed] | None:
        parts: list[Composed] = []
        for event in self._events:
            mine = event.composed_parts()
            if mine is None:
                return None
            parts.extend(mine)
        return parts

    def composed_worst_case_epsilon(self, delta: float) -> float | None:
        """The same for winners, bits and histograms, each beside a Gaussian; None where no form is known.

        See ``accounting.worst.compose``. Of few releases it may be above ``worst_case_epsilon``.
        """
        parts = self._composed_parts()
        if parts is None:
            return None
        if all(part.what == "histogram" for part in parts) and self.exact_worst_case_epsilon(delta) is not None:
            return None  # nothing is below the exact value of what leaves
        epsilon = composed_epsilon(parts, _left(delta, self._added_delta))
        return epsilon if math.isfinite(epsilon) else None

    def pure_worst_case_epsilon(self, delta: float) -> float | None:
        """The same by adding epsilons at a delta of 0, which holds at any; None where a release has none."""
        check_delta(delta)
        pure = [event.pure_epsilon() for event in self._events]
        return None if not pure or None in pure else math.fsum(epsilon for epsilon in pure if epsilon is not None)

    def adaptive_worst_case_epsilon(self, delta: float) -> float | None:
        """The same by backward induction: the smallest for many releases of one kind; None where no form is known, of
        more than ``_MOST_KINDS``, and below ``_LEAST_DISTANCE``.

        See ``accounting.worst.adaptive``. Where two kinds tell about as much it may be above the others.
        """
        parts, left = self._composed_parts(), _left(delta, self._added_delta)
        kinds = counted(parts or ())[0]
        if parts is None or len(kinds) > _MOST_KINDS or (kinds and max(kind.mu for kind in kinds) < _LEAST_DISTANCE):
            return None
        epsilon = adaptive_epsilon(parts, left)
        return epsilon if math.isfinite(epsilon) else None

    def least_worst_case_epsilon(self, delta: float, *, numerical: bool = True) -> tuple[EpsilonBound, str]:
        """The least of them, with the words for how it was found. Which are tried depends on no vote.

        numerical : also backward induction and the composition beside a Gaussian, which take one to five seconds for
        noise that was not asked about before.
        """
        best, words = self.worst_case_epsilon(delta), _BY_CURVES
        bounds = [
            (self.pure_worst_case_epsilon, "epsilons of pure privacy added"),
            (self.exact_worst_case_epsilon, "exact composition of Gaussian noise"),
        ]
        if numerical:
            bounds += [
                (self.adaptive_worst_case_epsilon, "backward induction over adaptive releases"),
                (self.composed_worst_case_epsilon, "composition beside a Gaussian"),
            ]
        for bound, how in bounds:
            epsilon = bound(delta)
            if epsilon is not None and epsilon < best.epsilon * (1 - _NO_GAIN):
                best, words = EpsilonBound(epsilon, math.nan), how
            if epsilon is not None and bound == self.adaptive_worst_case_epsilon and self._one_kind_tells_most():
                break  # what is imagined in front of the others costs little, and more is imagined by the slower one
        return best, words

    def _one_kind_tells_most(self) -> bool:
        """Whether there are two or more releases, and all but those of one kind tell a third as much at most."""
        counts, _ = counted(self._composed_parts() or ())
        distances = sorted((release.mu for release in counts), reverse=True)
        return sum(counts.values()) > 1 and all(distance <= distances[0] / 3 for distance in distances[1:])

    def data_dependent_epsilon(self, delta: float) -> EpsilonBound:
        """Epsilon at the votes at hand. Secret: neither publish it nor stop because of it."""
        return rdp_to_epsilon(self._data_dependent, self._orders, _left(delta, self._added_delta))

    def guarantee(self, delta: float, kind: Kind, *, numerical: bool = True) -> Guarantee:
        """The epsilon together with everything that it means.

        numerical : see ``least_worst_case_epsilon``.
        kind : WORST_CASE only where the events hold a query budget fixed before the run; REALISED for what came
        out.

        Raises
        ------
        AccountingError : nothing was released yet, or a sanitised value is asked for (see ``sanitise.release``).
        """
        if not self._events:
            raise AccountingError("nothing was released yet, so there is no guarantee to state. Commit an event first.")
        if kind is Kind.SANITISED:
            raise AccountingError(
                "an accountant holds no sanitised value. Make one with consilium.accounting.sanitise.release."
            )
        # what holds for all data holds for these too, so the worst case may stand for either
        bound, words = self.least_worst_case_epsilon(delta, numerical=numerical)
        at_hand = self.data_dependent_epsilon(delta) if kind is Kind.DATA_DEPENDENT else bound
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
