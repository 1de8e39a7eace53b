"""What every method is: keys in a file, what it depends on and guarantees, and from a case to predictions."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, get_args

import numpy as np

from consilium.accounting.curves.gdp import sigma_needed
from consilium.accounting.guarantees import Guarantee
from consilium.accounting.units import Neighbouring, Unit
from consilium.coordinator.privacy import promised
from consilium.models.base import softmax
from consilium.protocol.models import Frozen
from consilium.simulations.divide import Case
from consilium.simulations.vote import Ensemble


def linear_probabilities(x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Of `x` float (rows, inputs) and weights (inputs + 1, classes), the intercept last: float64 (rows, classes)."""
    return softmax(x @ weights[:-1] + weights[-1])


@dataclass(frozen=True)
class StatedGuarantee:
    """`epsilon` at `delta`, finite and above 0, for each `unit` under the relation, towards whoever gets the result."""

    epsilon: float
    delta: float
    unit: Unit
    neighbouring: Neighbouring

    @classmethod
    def of(cls, guarantee: Guarantee) -> StatedGuarantee | None:
        """None where there is no finite epsilon, and so no guarantee."""
        if not math.isfinite(guarantee.epsilon):
            return None
        return cls(guarantee.epsilon, guarantee.delta, guarantee.unit, guarantee.neighbouring)

    def noise_multiplier(self, rounds: int) -> float:
        """z: the least noise at which so many noisy sums cost this at most. In each a unit has length C at most, and
        the noise has deviation z C.

        A unit that is replaced moves a sum by 2 C, one that gives nothing, 0 in its place, by C: a round is
        mu-Gaussian-DP with mu = 2 / z or 1 / z, and rounds compose exactly (`accounting.curves.gdp`).

        >>> round(StatedGuarantee(1.0, 1e-5, Unit.RECORD, Neighbouring.REPLACE).noise_multiplier(10), 2)
        23.59
        """
        moved = 2 if self.neighbouring is Neighbouring.REPLACE else 1
        return sigma_needed(rounds, self.epsilon, self.delta, moved, scalar=True)


@dataclass(frozen=True)
class Predicted:
    """What a method says to the rows it is judged on; secret where the method is not private. test: float64 (test,
    classes), probabilities; None for a method that has no one model for public rows. home: float64 (home, classes), of
    `Case.home_rows`, each by what its own party would use; None as for test. figures: further numbers by name (epsilon,
    delta, answered ...), as the results give them. NaN is not allowed: a figure that there is none of is left out.
    drawn: float32 (draws, test, classes), of a method whose luck is drawn several times: it is judged by the means over
    them. by_row: of a method without `test`, float32 (test,) by figure, whose mean it is, at least to first order.
    absent: why there is none of it, in words for the report; then the rest is empty."""

    test: np.ndarray | None = field(default=None, repr=False)
    home: np.ndarray | None = field(default=None, repr=False)
    figures: dict[str, float] = field(default_factory=dict)
    drawn: np.ndarray | None = field(default=None, repr=False)
    by_row: dict[str, np.ndarray] = field(default_factory=dict, repr=False)
    absent: str = ""


class StudyMethod(Frozen):
    """One method with its keys. A kind is a subclass with `name: Literal["..."]` in a module of this package."""

    kinds: ClassVar[dict[str, type[StudyMethod]]] = {}
    name: str

    needs_ensemble: ClassVar[bool]
    """Whether `predict` is given the teachers' votes; else it may be None."""

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        cls.kinds.update(dict.fromkeys(get_args(cls.model_fields["name"].annotation), cls))

    @property
    def label(self) -> str:
        """The name, with the keys that are not at their defaults: "pooled kind=boosted". What tables call it."""
        keys = {key: field.default for key, field in type(self).model_fields.items() if key != "name"}
        changed = {key: getattr(self, key) for key, default in keys.items() if getattr(self, key) != default}
        return " ".join([self.name, *(f"{key}={value}" for key, value in changed.items())])

    def guarantee(self, case: Case) -> StatedGuarantee | None:
        """What it promises whoever gets its result, before it is computed, and its figures then have as `epsilon` and
        `delta`; None where there is no guarantee. A study compares only methods with an equal one."""
        return None

    def depends_on(self, case: Case) -> dict[str, Any]:
        """Plain data: everything of the scenario beyond division, teachers and seed that decides `predict`. Two cases
        of equal division, teachers and seed (`study.spec`) with an equal answer here share one result of a method. Its
        own keys decide too, and need not be told. Here: what it guarantees."""
        guarantee = self.guarantee(case)
        return {} if guarantee is None else asdict(guarantee)

    def predict(self, case: Case, ensemble: Ensemble | None) -> Predicted:
        """Everything that it takes, from training to predictions. Deterministic in the case. Raises ConsiliumError: it
        cannot be done with this case because of a mistake. What does not apply is `absent`."""
        raise NotImplementedError


class PromisedMethod(StudyMethod):
    """A private method at the federation's own epsilon, delta, unit and relation."""

    def guarantee(self, case: Case) -> StatedGuarantee | None:
        return StatedGuarantee.of(promised(case.config))


def needed(ensemble: Ensemble | None, name: str) -> Ensemble:
    """The ensemble of a method with `needs_ensemble`. ValueError if it was left out, which is a caller's mistake."""
    if ensemble is None:
        raise ValueError(f"method {name} needs what the teachers said")
    return ensemble
