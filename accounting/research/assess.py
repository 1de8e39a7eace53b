"""What votes cost under a mechanism: every bound beside every other."""

from __future__ import annotations

from functools import partial

import numpy as np

from consilium.accounting.checks import check_count, check_delta
from consilium.accounting.curves.conversion import Method, rdp_to_epsilon
from consilium.accounting.curves.orders import DEFAULT_ORDERS
from consilium.accounting.errors import (
    CalibrationError,
    ConditionError,
    EventError,
    NoiseError,
    ThresholdError,
)
from consilium.accounting.events import ReleaseEvent
from consilium.accounting.label_costs import (
    VoteBatch,
    exact_rdp,
    exact_rdp_per_query,
    published_rdp,
    worst_case,
    worst_case_as_histogram,
)
from consilium.accounting.planning.calibration import profile_votes
from consilium.accounting.research.growth import growth
from consilium.accounting.research.histograms import as_histograms
from consilium.accounting.research.mechanisms import Aggregator, as_aggregator
from consilium.accounting.research.result import EpsilonResult
from consilium.accounting.sanitise.plan import forecast_sanitised
from consilium.accounting.sanitise.release import Answered, SanitisedRelease, sanitise
from consilium.accounting.units import Neighbouring, Noise, Unit

_REACH = 2
"""Standard deviations by which a threshold may lie above the number of teachers."""


def epsilon(
    votes: object,
    mechanism: Aggregator | str,
    delta: float = 1e-5,
    unit: Unit | str = Unit.PARTY,
    teachers_per_party: int = 1,
    *,
    neighbouring: Neighbouring | str = Neighbouring.REPLACE,
    noise: Noise | str = Noise.DISCRETE,
    answers: int | None = None,
    answered: object = None,
    predictions: object = None,
    classes: int | None = None,
    teachers: int | None = None,
    sanitised: bool = False,
    public_votes: object = None,
    show_secret: bool = False,
) -> EpsilonResult:
    """What it costs to release labels for these votes.

    Parameters
    ----------
    votes : signed integers (queries, classes), the count of each class; with ``classes``, integers (teachers, queries),
        the class of each teacher's vote; or the path of a .npy or .npz file of either.
    mechanism : made by `GNMax` and its like, or the same in words.
    unit, teachers_per_party, neighbouring : whose data may change, and how; see ``units.votes_moved``.
    noise : "discrete" as deployed, "continuous" as in the papers.
    answers : most labels that may leave, fixed before any vote was seen; all queries if None. It decides the worst case
        and nothing else.
    answered : bool (queries,), which queries got a label; if None, expected answers are charged, as in the papers.
    predictions : float64 (queries, classes), the student's public predictions, for `Interactive`.
    teachers : what every row of votes must sum to, where it is known.
    sanitised : also release the published bound with noise from the operating system, planned on ``public_votes``
        (queries, classes) or on a made-up profile. Each call with it is one more release.
    show_secret : whether the result shows what votes decide when it is printed.

    Raises
    ------
    VotesError : counts that are no signed integers, rows of different sums, a file that holds no votes.
    EventError : an unknown mechanism; an ``answered`` that does not fit. ThresholdError : a threshold so far
        above the teachers that noise does not reach it either. DeltaError, NoiseError, UnitError : a number or a word
        out of range.

    >>> votes = [[90, 6, 4], [50, 30, 20], [100, 0, 0]]
    >>> found = epsilon(votes, "GNMax(sigma=20)", noise="continuous")
    >>> round(found.published or 0, 4), round(found.worst_case_as_histogram, 4), found.answered
    (0.4003, 0.4249, 3.0)
    """
    chosen = as_aggregator(mechanism)
    check_delta(delta)
    histograms, count = as_histograms(votes, classes, teachers)
    _check_reach(chosen, count)
    queries = len(histograms)
    claim = {"unit": unit, "neighbouring": neighbouring, "teachers_per_party": teachers_per_party, "noise": noise}
    cap = queries if answers is None else check_count(answers, "answers")
    event = chosen.event(queries, **claim)
    given = None if predictions is None else np.asarray(predictions, dtype=np.float64)
    mask = None if answered is None else _mask(answered, queries)
    weights = np.exp(event.log_p_answered(histograms, count, given)) if mask is None else mask.astype(np.float64)
    batch = VoteBatch(histograms, count, weights, given)
    published, exact = published_rdp(event, batch), exact_rdp(event, batch)
    found = rdp_to_epsilon(exact, DEFAULT_ORDERS, delta)
    promised = chosen.event(queries, cap, **claim)
    # what holds for all votes holds for these; the exact composition of Gaussian noise may be below a Renyi curve
    least = min(found.epsilon, worst_case(event, delta, numerical=False).epsilon)
    release, refusal = _sanitised(event, batch, mask, delta, public_votes) if sanitised else (None, None)
    return EpsilonResult(
        mechanism=chosen,
        queries=queries,
        classes=histograms.shape[1],
        teachers=count,
        answers=cap,
        guarantee=worst_case(promised, delta),
        worst_case_as_histogram=worst_case_as_histogram(promised, delta).epsilon,
        exact=least,
        order=found.order,
        published=_converted(published, delta, "cks"),
        published_classic=_converted(published, delta, "classic"),
        sanitised=release,
        sanitised_refusal=refusal,
        per_query=exact_rdp_per_query(event, batch, [found.order])[:, 0],
        answered=float(weights.sum()),
        growth=partial(growth, promised, event, batch, delta),
        show_secret=show_secret,
    )


def _check_reach(mechanism: Aggregator, teachers: int) -> None:
    """PATE 2018 asks 250 teachers at a threshold of 300 and sigma1 200: noise reaches what votes alone cannot."""
    threshold, sigma1 = mechanism.value("threshold"), mechanism.value("sigma1")
    if threshold is not None and sigma1 is not None and threshold > teachers + _REACH * sigma1:
        raise ThresholdError(
            f"threshold {threshold:g} is above the {teachers} teachers by more than {_REACH} times sigma1, so that next"
            " to nothing is ever answered. Lower it."
        )


def _converted(curve: np.ndarray | None, delta: float, method: Method) -> float | None:
    return None if curve is None else rdp_to_epsilon(curve, DEFAULT_ORDERS, delta, method).epsilon


def _mask(answered: object, queries: int) -> np.ndarray:
    mask = np.asarray(answered)
    if mask.dtype != np.bool_ or mask.shape != (queries,):
        raise EventError(
            f"answered must be a bool mask of shape ({queries},), got {mask.dtype} {mask.shape}. For a cap on"
            " labels pass answers."
        )
    return mask


def _sanitised(
    event: ReleaseEvent, batch: VoteBatch, mask: np.ndarray | None, delta: float, public_votes: object
) -> tuple[SanitisedRelease | None, str | None]:
    """A release, or why there is none."""
    checked = event.comparison(batch.votes, batch.teachers, batch.predictions) is not None
    if checked and mask is None:
        return (
            None,
            "a sanitised epsilon is one of the answers that were given. Pass answered, one bool for each query.",
        )
    realised = np.ones(event.asked, dtype=np.bool_) if mask is None else mask
    if public_votes is None:
        shape = (event.asked, batch.votes.shape[1])
        public = np.resize(profile_votes("typical", batch.teachers, shape[1]), shape)
    else:
        public, _ = as_histograms(public_votes, teachers=batch.teachers)
    try:
        plan = forecast_sanitised(event, public, batch.teachers, delta).plan
        counted = event.with_counts(event.asked, int(realised.sum()))
        released = Answered(counted, batch.votes, realised, batch.predictions)
        return sanitise([released], plan, delta, batch.teachers), None
    except (CalibrationError, ConditionError, EventError, NoiseError) as error:
        return None, str(error)
