"""The least noise with which a mechanism keeps a target. Looks at no votes."""

from __future__ import annotations

from consilium.accounting.checks import check_delta
from consilium.accounting.events import ReleaseEvent
from consilium.accounting.label_costs import worst_case, worst_case_as_histogram
from consilium.accounting.planning.target import least_noise
from consilium.accounting.research.mechanisms import Aggregator, as_aggregator
from consilium.accounting.units import Neighbouring, Noise, Unit


def calibrate(
    mechanism: Aggregator | str,
    epsilon: float = 1.0,
    delta: float = 1e-5,
    *,
    asked: int,
    answered: int | None = None,
    unit: Unit | str = Unit.PARTY,
    teachers_per_party: int = 1,
    neighbouring: Neighbouring | str = Neighbouring.REPLACE,
    noise: Noise | str = Noise.DISCRETE,
) -> Aggregator:
    """The mechanism with the least noise whose worst case is at most ``epsilon`` for these numbers of queries.

    Of the mechanism that is given, its threshold and the ratio of its check's noise to its label's are kept.

    Parameters
    ----------
    asked : most queries. answered : most labels, all queries if None.

    Raises
    ------
    CalibrationError : no amount of noise keeps the target. EventError, DeltaError, UnitError : as in ``epsilon``.

    >>> calibrate("Histogram(sigma=1)", epsilon=1.0, asked=100, noise="continuous")
    Histogram(sigma=52.77)
    """
    chosen = as_aggregator(mechanism)
    check_delta(delta)
    event = chosen.event(
        asked, answered, unit=unit, teachers_per_party=teachers_per_party, neighbouring=neighbouring, noise=noise
    )

    def released(amount: float) -> ReleaseEvent:
        return chosen.with_noise(amount).event(
            asked,
            answered,
            unit=event.unit,
            teachers_per_party=teachers_per_party,
            neighbouring=event.neighbouring,
            noise=event.noise,
        )

    # the first bound takes no time and is never below the other, so what it needs is enough
    enough = least_noise(lambda amount: worst_case_as_histogram(released(amount), delta).epsilon, epsilon)
    return chosen.with_noise(least_noise(lambda amount: worst_case(released(amount), delta).epsilon, epsilon, enough))
