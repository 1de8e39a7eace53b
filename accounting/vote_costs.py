"""The three doors: what votes cost, what may be promised before there are any, and the least noise for a target."""

from __future__ import annotations

import math
import os
import zipfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from consilium.accounting.checks import as_array, check_count, check_delta, check_same_total
from consilium.accounting.curves.conversion import DEFAULT_ORDERS, Method, rdp_to_epsilon
from consilium.accounting.errors import (
    CalibrationError,
    EventError,
    NoiseError,
    ThresholdError,
    VotesError,
    VotesPathError,
)
from consilium.accounting.events import Mechanism, ReleaseEvent
from consilium.accounting.guarantees import Guarantee, rounded_up
from consilium.accounting.label_costs import VoteBatch, exact_rdp, published_rdp
from consilium.accounting.outcome import argmax
from consilium.accounting.sanitise.release import SanitisedPlan, SanitisedRelease, forecast_sanitised, sanitise
from consilium.accounting.target import least_noise, worst_case, worst_case_as_histogram
from consilium.accounting.units import Neighbouring, Noise, Unit

_LARGEST = 2.0**53
"""Beyond it doubles skip whole numbers."""
_TYPICAL = (0.3, 0.45, 0.6, 0.7, 0.78, 0.85, 0.9, 0.94, 0.97, 1.0)
"""Share of the teachers that back the plurality, at ten equally likely kinds of query. Made up, and public."""
M = TypeVar("M", bound=Mechanism)


def load_votes(path: Path) -> np.ndarray:
    """The array of a file: a .npz with a key ``votes``, or a .npy. Nothing is unpickled. The files of the PATE papers
    are read as they are: integers of any type, or whole numbers kept as floats, which the code of 2017 writes.

    Raises VotesPathError: no such file. VotesError: wrong format, or floats that are no whole numbers.
    """
    if not path.is_file():
        raise VotesPathError(f"there is no file {path}. Give a .npz with key 'votes' or a .npy.")
    if path.suffix not in (".npz", ".npy"):
        raise VotesError(f"{path} is neither .npz nor .npy. Save the histogram as votes= in a .npz.")
    try:
        votes = np.load(path, allow_pickle=False, mmap_mode="r" if path.suffix == ".npy" else None)
        if not isinstance(votes, np.ndarray):
            with votes as archive:
                if "votes" not in archive:
                    keys = ", ".join(archive.files)
                    raise VotesError(f"{path} has no key 'votes' (it has: {keys}). Save the histogram as votes=.")
                votes = archive["votes"]
    except VotesError:
        raise
    except (OSError, zipfile.BadZipFile, EOFError) as error:
        raise VotesError(f"{path} is not a readable NumPy file ({type(error).__name__}). Save it again.") from None
    except ValueError:
        raise VotesError(f"{path} does not hold a plain array of numbers. Save it again, without objects.") from None
    if np.issubdtype(votes.dtype, np.floating):
        if not np.all(np.isfinite(votes) & (votes == np.floor(votes)) & (np.abs(votes) <= _LARGEST)):
            raise VotesError(f"{path} holds float counts that are no whole numbers. Save counts, not shares of them.")
        votes = votes.astype(np.int64)
    return votes


def as_histograms(votes: object, teachers: int | None = None) -> tuple[np.ndarray, int]:
    """(votes int64 (queries, classes), teachers), from signed integers (queries, classes), the count of each class, or
    the path of a .npy or .npz file of them. teachers: what every row must sum to, where it is known.

    Raises VotesError: anything else. The message never shows a count. VotesPathError: no such file.
    """
    array = load_votes(Path(votes)) if isinstance(votes, str | os.PathLike) else as_array(votes)
    found = check_same_total(array, teachers)
    if not len(array) or not found:
        raise VotesError("there are no votes to account for. Pass at least one query with at least one vote.")
    return array.astype(np.int64, copy=False), found


def _predictions(predictions: object) -> np.ndarray | None:
    """A student's class probabilities as float64 (queries, classes), of which `curves.gaussian` asks more."""
    try:
        return None if predictions is None else np.asarray(predictions, dtype=np.float64)
    except (TypeError, ValueError):
        raise ThresholdError("predictions are no (queries, classes) matrix of probabilities. Pass one.") from None


def typical_votes(teachers: int, classes: int) -> np.ndarray:
    """Made-up public votes int64 (10, classes): six tenths of the dissent on one rival, the rest spread evenly."""
    top = np.ceil(np.maximum(np.array(_TYPICAL) * teachers, teachers / classes)).astype(np.int64)
    rest = teachers - top
    rival = np.minimum(top, np.maximum(3 * rest // 5, -(-rest // (classes - 1))))
    left, others = (rest - rival)[:, None], max(classes - 2, 1)
    spread = left // others + (np.arange(classes - 2) < left % others)
    return np.column_stack([top, rival, spread])


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class EpsilonResult:
    """Bounds on what it costs to release labels for some votes: docs/researchers.md has each by its name.

    guarantee : the worst case of all that this call released, with everything that it means; it may be published, and
        so may ``worst_case_of_labels``, without a sanitised number, and ``worst_case_as_histogram``, as the papers
        charge it.
    exact, published, published_classic, answered : secret. ``exact`` is the larger of both directions, never above the
        worst case; None where a unit moves several votes, there are more than 24 classes, noise and leads are too far
        apart, or it takes more than seconds. ``published`` covers one direction.
    sanitised_plan : of such a release, made without these votes: what `federation.privacy.sanitised` takes.
    sanitised, sanitised_refusal : a release of a bound at the votes with noise, which may be published, or why there is
        none.
    """

    mechanism: Mechanism
    queries: int
    classes: int
    teachers: int
    answers: int
    guarantee: Guarantee
    worst_case_of_labels: float
    worst_case_as_histogram: float
    exact: float | None
    published: float | None
    published_classic: float | None
    sanitised_plan: SanitisedPlan | None
    sanitised: SanitisedRelease | None
    sanitised_refusal: str | None
    answered: float

    @property
    def worst_case(self) -> float:
        """Epsilon that may be published: of what leaves, whatever the votes are, at counts that were fixed before."""
        return self.guarantee.epsilon

    def rows(self) -> list[tuple[str, float | None, bool]]:
        """(name, epsilon or None where there is none, whether it may be published) in reading order."""
        cap = f"worst case, at most {self.answers} labels for {self.queries} queries"
        released = self.sanitised
        labels = [] if released is None else [("worst case, of the labels alone", self.worst_case_of_labels, True)]
        at_votes = [] if released is None else [("at the votes, sanitised", released.guarantee.epsilon, True)]
        return [
            (cap if released is None else f"{cap} and the sanitised number", self.worst_case, True),
            *labels,
            ("worst case, as if the histogram left", self.worst_case_as_histogram, True),
            ("exact, both directions", self.exact, False),
            ("published bound, one direction", self.published, False),
            ("published bound, classic conversion", self.published_classic, False),
            *at_votes,
        ]

    def sanitised_text(self) -> str:
        """The plan of a sanitised value, what its release costs, or why there is none."""
        plan, released = self.sanitised_plan, self.sanitised
        parts = [f"No sanitised value: {self.sanitised_refusal}"] if released is None else []
        if plan is not None:
            numbers = f"order {plan.order:g}, beta {plan.beta:.4g}, sigma_ss {plan.sigma_ss:.4g}"
            parts.append(f"Planned without these votes: {numbers}.")
        if released is not None:
            parts.append(f"The release costs {rounded_up(released.release_cost)}.")
        return " ".join(parts)

    def to_json(self) -> dict[str, Any]:
        """Plain values, strict JSON; what votes decide is under `secret`, whoever it is shown to."""
        public = ("queries", "classes", "teachers", "answers", "worst_case_of_labels", "worst_case_as_histogram")
        secret = ("exact", "answered", "published", "published_classic")
        table: dict[str, Any] = {
            "mechanism": str(self.mechanism),
            **{name: getattr(self, name) for name in public},
            "guarantee": self.guarantee.to_json(),
            "secret": _strict({name: getattr(self, name) for name in secret}),
        }
        if self.sanitised_plan is not None or self.sanitised_refusal is not None:
            plan = {} if self.sanitised_plan is None else asdict(self.sanitised_plan)
            table["sanitised"] = {"refused": self.sanitised_refusal, **plan}
        if (release := self.sanitised) is not None:
            values = {"released_rdp": release.released_rdp, "release_cost": release.release_cost}
            table["sanitised"] |= {"epsilon": release.guarantee.epsilon, **values}
        return _strict(table)

    @property
    def shape(self) -> str:
        """How the votes were read: a transposed array shows here."""
        return f"{self.teachers} teachers, {self.queries} queries, {self.classes} classes"

    def __repr__(self) -> str:
        worst = f"worst case {rounded_up(self.worst_case)}; exact, published: secret"
        return f"EpsilonResult({self.mechanism}, {self.shape}, delta {self.guarantee.delta:g}, {worst})"


def _strict(table: dict[str, Any]) -> dict[str, Any]:
    """Without infinity, as `Guarantee.to_json`."""
    infinite = [key for key, value in table.items() if isinstance(value, float) and math.isinf(value)]
    return {**table, **dict.fromkeys(infinite), **({"infinite": infinite} if infinite else {})}


def epsilon(
    votes: object,
    mechanism: Mechanism,
    delta: float = 1e-5,
    unit: Unit | str = Unit.PARTY,
    teachers_per_party: int = 1,
    *,
    neighbouring: Neighbouring | str = Neighbouring.REPLACE,
    noise: Noise | str = Noise.DISCRETE,
    answers: int | None = None,
    answered: object = None,
    predictions: object = None,
    sanitised: bool = False,
    public_votes: object = None,
) -> EpsilonResult:
    """What it costs to release labels for these votes.

    votes : signed integers (queries, classes), the count of each class; or the path of a .npy or .npz file of them.
    mechanism : `GNMax` or its like.
    unit, teachers_per_party, neighbouring : whose data may change, and how; see ``units.votes_moved``.
    noise : "discrete" as deployed, "continuous" as in the papers.
    answers : most labels that may leave, fixed before any vote was seen; all queries if None. It decides the worst case
        and nothing else.
    answered : bool (queries,), which queries got a label; if None, expected answers are charged, as in the papers.
    predictions : float64 (queries, classes), the student's public predictions, for `Interactive`.
    sanitised : also release a bound at the votes with noise from the operating system. Each call is one more release.
    public_votes : int64 (queries, classes), on which such a release is planned, instead of a made-up profile; asks for
        it too.

    Raises VotesError: counts that are no signed integers, rows of different sums, a file that holds no votes.
    EventError: an ``answered`` that does not fit, or marks more than ``answers``. ThresholdError: a threshold so far
    above the teachers that noise does not reach it either. DeltaError, NoiseError, UnitError: a number or a word out of
    range.

    >>> from consilium.accounting.mechanisms import GNMax
    >>> votes = [[90, 6, 4], [50, 30, 20], [100, 0, 0]]
    >>> found = epsilon(votes, GNMax(sigma=20), noise="continuous")
    >>> round(found.published or 0, 4), round(found.worst_case_as_histogram, 4), found.answered
    (0.4003, 0.4249, 3.0)
    """
    delta, mechanism = check_delta(delta), _mechanism(mechanism)
    histograms, teachers = as_histograms(votes)
    mechanism.check_reach(teachers)
    queries = len(histograms)
    cap = queries if answers is None else check_count(answers, "answers")
    event = mechanism.event(
        queries, unit=unit, neighbouring=neighbouring, teachers_per_party=teachers_per_party, noise=noise
    )
    promised = event.with_counts(queries, cap)
    given = _predictions(predictions)
    mask = None if answered is None else _mask(answered, queries, cap)
    weights = np.exp(event.log_p_answered(histograms, teachers, given)) if mask is None else mask.astype(np.float64)
    batch = VoteBatch(event, histograms, weights, given)
    published, labels, found = published_rdp(batch), worst_case([promised], delta), _exact(batch, delta)
    asked = sanitised or public_votes is not None
    plan, release, refusal = _sanitised(batch, mask, delta, public_votes) if asked else (None,) * 3
    left = [promised] if release is None else [promised, release.plan.event(promised)]
    return EpsilonResult(
        mechanism=mechanism,
        queries=queries,
        classes=histograms.shape[1],
        teachers=teachers,
        answers=cap,
        guarantee=labels if release is None else worst_case(left, delta),
        worst_case_of_labels=labels.epsilon,
        worst_case_as_histogram=worst_case_as_histogram(left, delta),
        # what holds for all votes holds for these; composed without Renyi curves it may be below
        exact=None if found is None else min(found, labels.epsilon),
        published=_converted(published, delta, "cks"),
        published_classic=_converted(published, delta, "classic"),
        sanitised_plan=plan,
        sanitised=release,
        sanitised_refusal=refusal,
        answered=float(weights.sum()),
    )


def _exact(batch: VoteBatch, delta: float) -> float | None:
    """Of these votes; None where it is not known, or takes longer than a few seconds."""
    event = batch.event
    if not event.votes_decide and any(step.leaves != "histogram" or step.shares is not None for step in event.steps):
        return None  # there is a bound, for all votes
    if (label := event.label) is not None:
        votes = batch.votes[batch.answered > 0]
        if not argmax.computed(votes, label.scale, event.noise, label.law, event.votes_moved).all():
            return None
        if argmax.work(votes, label.scale, event.noise, label.law, event.votes_moved) > argmax.MOST_WORK:
            return None
    found = rdp_to_epsilon(exact_rdp(batch), DEFAULT_ORDERS, delta).epsilon
    return found if math.isfinite(found) else None


def _converted(curve: np.ndarray | None, delta: float, method: Method) -> float | None:
    return None if curve is None else rdp_to_epsilon(curve, DEFAULT_ORDERS, delta, method).epsilon


def _mask(answered: object, queries: int, cap: int) -> np.ndarray:
    mask = np.asarray(answered)
    if mask.dtype != np.bool_ or mask.shape != (queries,):
        raise EventError(
            f"answered must be a bool mask of shape ({queries},), got {mask.dtype} {mask.shape}. For a cap on"
            " labels pass answers."
        )
    if mask.sum() > cap:
        raise EventError(
            f"answered marks {int(mask.sum())} labels, but at most {cap} may leave (answers). What was promised for"
            f" {cap} does not hold: raise answers to what was agreed before, or leave it out."
        )
    return mask


def _sanitised(
    batch: VoteBatch, mask: np.ndarray | None, delta: float, public_votes: object
) -> tuple[SanitisedPlan | None, SanitisedRelease | None, str | None]:
    """What is planned on public or made-up votes, and a release, or why there is none."""
    event, teachers = batch.event, batch.check()
    if public_votes is None:
        public = np.resize(typical_votes(teachers, batch.votes.shape[1]), batch.votes.shape)
    else:
        public, _ = as_histograms(public_votes, teachers)
    plan = None
    try:
        plan = forecast_sanitised(event, public, teachers, delta).plan
        if mask is None and not event.mechanism.answers_all:
            raise EventError(
                "a sanitised epsilon is one of the answers that were given. Pass answered, one bool for each query."
            )
        answered = np.ones(event.asked, dtype=np.bool_) if mask is None else mask
        counted = event.with_counts(event.asked, int(answered.sum()))
        return plan, sanitise([batch._replace(event=counted, answered=answered)], plan, delta, teachers), None
    except (CalibrationError, EventError, NoiseError) as error:
        return plan, None, str(error)


def _mechanism(mechanism: M) -> M:
    if getattr(type(mechanism), "closing", True):  # of its type, since a class without parameters is none either
        raise EventError(f"the mechanism is {mechanism!r}, no mechanism. Pass one as accounting.GNMax(sigma=40).")
    return mechanism


def guarantee(
    mechanism: Mechanism,
    asked: int,
    answered: int | None = None,
    delta: float = 1e-5,
    *,
    unit: Unit | str = Unit.PARTY,
    teachers_per_party: int = 1,
    neighbouring: Neighbouring | str = Neighbouring.REPLACE,
    noise: Noise | str = Noise.DISCRETE,
) -> Guarantee:
    """What may be promised for these numbers of queries before there are any votes: the worst case of what leaves.
    Arguments and errors as in ``calibrate``."""
    event = _mechanism(mechanism).event(
        asked, answered, unit=unit, neighbouring=neighbouring, teachers_per_party=teachers_per_party, noise=noise
    )
    return worst_case([event], check_delta(delta))


def calibrate(
    mechanism: M,
    epsilon: float = 1.0,
    delta: float = 1e-5,
    *,
    asked: int,
    answered: int | None = None,
    unit: Unit | str = Unit.PARTY,
    teachers_per_party: int = 1,
    neighbouring: Neighbouring | str = Neighbouring.REPLACE,
    noise: Noise | str = Noise.DISCRETE,
) -> M:
    """The mechanism with the least noise whose worst case is at most ``epsilon`` for these numbers of queries: with the
    threshold of the one that is given, and the ratio of its check's noise to its label's.

    asked : most queries. answered : most labels, all queries if None.

    Raises CalibrationError: no amount of noise keeps the target. EventError, DeltaError, UnitError: as in ``epsilon``.

    >>> from consilium.accounting.mechanisms import Histogram
    >>> calibrate(Histogram(sigma=1), epsilon=1.0, asked=100, noise="continuous")
    Histogram(sigma=52.78)
    """
    delta, mechanism = check_delta(delta), _mechanism(mechanism)
    given = mechanism.event(
        check_count(asked, "asked", 1), answered, unit=unit, neighbouring=neighbouring,
        teachers_per_party=teachers_per_party, noise=noise,
    )  # fmt: skip

    def released(amount: float) -> list[ReleaseEvent]:
        return [replace(given, mechanism=mechanism.with_noise(amount))]

    # the first bound takes no time and is never below the other, so what it needs is enough
    enough = least_noise(lambda amount: worst_case_as_histogram(released(amount), delta), epsilon)
    return mechanism.with_noise(
        least_noise(lambda amount: worst_case(released(amount), delta).epsilon, epsilon, enough)
    )
