"""Everything that is worth knowing about the cost of one set of votes, for a researcher who holds them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from consilium.accounting.curves.conversion import DEFAULT_ORDERS, EpsilonBound, Method, rdp_to_epsilon
from consilium.accounting.errors import AccountingError, CalibrationError, ConditionError, NoiseError
from consilium.accounting.events import ConfidentEvent, GNMaxEvent, LNMaxEvent, ReleaseEvent
from consilium.accounting.guarantee import Guarantee
from consilium.accounting.label_costs import VoteBatch, exact_rdp, published_rdp, worst_case, worst_case_as_histogram
from consilium.accounting.planning.calibration import profile_votes
from consilium.accounting.sanitise.labels import sensitivity_known
from consilium.accounting.sanitise.release import (
    Answered,
    SanitisedRelease,
    forecast_sanitised,
    sanitise,
    secret_smoothness,
)
from consilium.accounting.units import Neighbouring, Noise, Towards, Unit


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """What releasing labels for these votes costs. The data-dependent fields are secret.

    expected_answered : mean number of answers. sampled_answered : of one simulated run.
    spent_at_sampled : worst case for the sampled number of answers, no promise. worst_case_if_all_answered : for a cap
        equal to the queries, which is what ``guarantee`` states. as_histogram_if_all_answered : the same if the whole
        noisy histogram left, which is what the papers charge.
    data_dependent_expected : over expected answers, as the papers compute it. data_dependent_sampled : over sampled
        ones. exact_expected : over expected answers, computed instead of bounded, in both directions.
    sanitised : one simulated release, with its noise; None if the conditions of the theorem fail (see
        sanitised_refusal).
    sanitised_noise_std : standard deviation of that noise; secret.
    """

    mechanism: str
    parameters: dict[str, float]
    queries: int
    classes: int
    teachers: int
    noise: Noise
    delta: float
    method: Method
    expected_answered: float
    sampled_answered: int
    spent_at_sampled: EpsilonBound
    worst_case_if_all_answered: EpsilonBound
    as_histogram_if_all_answered: EpsilonBound
    data_dependent_expected: EpsilonBound
    data_dependent_sampled: EpsilonBound
    exact_expected: EpsilonBound
    sanitised: SanitisedRelease | None
    sanitised_noise_std: float | None
    sanitised_refusal: str | None
    guarantee: Guarantee

    def __repr__(self) -> str:
        return f"Assessment({self.mechanism}, {self.queries} queries, <secret>)"

    def rows(self) -> list[tuple[str, EpsilonBound, str]]:
        """(name, bound, whether it may be published) in reading order."""
        rows = [
            ("worst case, if every query is answered", self.worst_case_if_all_answered, "yes"),
            ("the same as if the histogram left", self.as_histogram_if_all_answered, "yes"),
            ("spent at sampled answers", self.spent_at_sampled, "no, no promise"),
            ("published bound, expected answers", self.data_dependent_expected, "no, secret"),
            ("published bound, sampled answers", self.data_dependent_sampled, "no, secret"),
            ("exact, expected answers", self.exact_expected, "no, secret"),
        ]
        if self.sanitised is not None:
            bound = EpsilonBound(self.sanitised.guarantee.epsilon, self.sanitised.plan.order)
            rows.append(("sanitised, sampled answers and noise", bound, "yes"))
        return rows

    def sanitised_text(self) -> str:
        """One line about the sanitised value, or why there is none."""
        if self.sanitised is None:
            return f"No sanitised value: {self.sanitised_refusal}"
        plan = self.sanitised.plan
        return (
            f"Sanitised with beta {plan.beta:.4g} and sigma_ss {plan.sigma_ss:.4g}, planned without these votes; the "
            f"release costs {self.sanitised.release_cost:.4f}; noise std {self.sanitised_noise_std:.4f} (secret)."
        )

    def to_json(self) -> dict[str, Any]:
        """Plain values, strict JSON."""

        def bound(value: EpsilonBound) -> dict[str, Any]:
            order = None if math.isnan(value.order) else value.order
            if math.isinf(value.epsilon):
                return {"epsilon": None, "order": order, "infinite": ["epsilon"]}  # as `Guarantee.to_json`
            return {"epsilon": value.epsilon, "order": order}

        sanitised: dict[str, Any]
        if self.sanitised is None:
            sanitised = {"refused": self.sanitised_refusal}
        else:
            sanitised = {
                "epsilon": self.sanitised.guarantee.epsilon,
                "order": self.sanitised.plan.order,
                "beta": self.sanitised.plan.beta,
                "sigma_ss": self.sanitised.plan.sigma_ss,
                "released_rdp": self.sanitised.released_rdp,
                "release_cost": self.sanitised.release_cost,
                "noise_std_secret": self.sanitised_noise_std,
            }
        return {
            "mechanism": self.mechanism,
            "parameters": self.parameters,
            "queries": self.queries,
            "classes": self.classes,
            "teachers": self.teachers,
            "noise": self.noise.value,
            "delta": self.delta,
            "conversion": self.method,
            "expected_answered": self.expected_answered,
            "sampled_answered": self.sampled_answered,
            "spent_at_sampled": bound(self.spent_at_sampled),
            "worst_case_if_all_answered": bound(self.worst_case_if_all_answered),
            "as_histogram_if_all_answered": bound(self.as_histogram_if_all_answered),
            "data_dependent_secret": {
                "expected_answers": bound(self.data_dependent_expected),
                "sampled_answers": bound(self.data_dependent_sampled),
                "exact_expected_answers": bound(self.exact_expected),
            },
            "sanitised": sanitised,
            "guarantee": self.guarantee.to_json(),
        }


def _event(mechanism: str, parameters: dict[str, Any], common: dict[str, Any]) -> ReleaseEvent:
    classes = {"gnmax": GNMaxEvent, "lnmax": LNMaxEvent, "confident": ConfidentEvent}
    if mechanism not in classes:
        raise AccountingError(f"mechanism must be one of {', '.join(classes)}, got {mechanism!r}.")
    return classes[mechanism](**common, **parameters)


def assess(
    votes: np.ndarray,
    teachers: int,
    mechanism: str,
    parameters: dict[str, float],
    delta: float,
    *,
    unit: Unit,
    neighbouring: Neighbouring,
    teachers_per_party: int,
    noise: Noise = Noise.DISCRETE,
    method: Method = "cks",
    plan_votes: np.ndarray | None = None,
    rng: np.random.Generator,
    orders: np.ndarray = DEFAULT_ORDERS,
) -> Assessment:
    """Assess one mechanism on votes int64 (queries, classes).

    The sanitised release is planned on ``plan_votes`` (public), or on a made-up profile: never on ``votes``. Its noise
    and the sampled answers come from ``rng``, because this is a look at what would happen, not a release.

    Raises
    ------
    AccountingError : any parameter or histogram that no bound can use.
    """
    queries, classes = votes.shape
    common = {
        "unit": unit,
        "neighbouring": neighbouring,
        "teachers_per_party": teachers_per_party,
        "towards": Towards.STUDENT,
        "noise": noise,
    }
    full = _event(mechanism, parameters, common | {"asked": queries, "answered": queries})
    answered = np.exp(full.log_p_answered(votes, teachers))
    mask = rng.random(queries) < answered
    event = full.with_counts(queries, int(mask.sum()))

    def convert(curve: np.ndarray) -> EpsilonBound:
        return rdp_to_epsilon(curve, orders, delta, method)

    def published(weights: np.ndarray) -> EpsilonBound:
        curve = published_rdp(full, VoteBatch(votes, teachers, weights), orders)
        return convert(full.worst_case_rdp(orders) if curve is None else curve)

    guarantee, sampled = worst_case(full, delta, method), worst_case(event, delta, method)
    release, std, refusal = None, None, None
    if sensitivity_known(full):
        try:
            public = profile_votes("typical", teachers, classes) if plan_votes is None else plan_votes
            public = np.resize(public, (queries, classes)) if plan_votes is None else public
            plan = forecast_sanitised(full, public, teachers, delta, method=method).plan
            batch = Answered(event, votes, mask)
            release = sanitise([batch], plan, delta, teachers, lambda: float(rng.normal()), method)
            std = secret_smoothness([batch], plan, teachers).smooth * plan.sigma_ss
        except (ConditionError, CalibrationError, NoiseError) as error:
            refusal = str(error)
    else:
        refusal = f"there is no bound on the sensitivity of the {mechanism} cost here; publish the worst case."
    return Assessment(
        mechanism=mechanism,
        parameters=parameters,
        queries=queries,
        classes=classes,
        teachers=teachers,
        noise=noise,
        delta=delta,
        method=method,
        expected_answered=float(answered.sum()),
        sampled_answered=int(mask.sum()),
        spent_at_sampled=EpsilonBound(sampled.epsilon, sampled.order),
        worst_case_if_all_answered=EpsilonBound(guarantee.epsilon, guarantee.order),
        as_histogram_if_all_answered=worst_case_as_histogram(full, delta, method),
        data_dependent_expected=published(answered),
        data_dependent_sampled=published(mask.astype(np.float64)),
        exact_expected=convert(exact_rdp(full, VoteBatch(votes, teachers, answered), orders)),
        sanitised=release,
        sanitised_noise_std=std,
        sanitised_refusal=refusal,
        guarantee=guarantee,
    )
