"""PATE: the cell's own federation, on the votes of its teachers."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np

from consilium.coordinator.privacy import promised, published_epsilon
from consilium.protocol.errors import ConfigError, NotEnoughParties
from consilium.protocol.label_source import Outcome
from consilium.protocol.strict_json import number
from consilium.simulations.divide import Case
from consilium.simulations.methods.base import BY_CLASS, Predicted, StatedGuarantee, StudyMethod, needed
from consilium.simulations.release import Replayed, check_can_run, replay
from consilium.simulations.vote import Ensemble


class Pate(StudyMethod):
    """Noisy votes, charged and released one query after the other, and the student that learns from them.

    figures: asked, answered, reinforced; parties, teachers; epsilon (promised, from the query budget alone),
    epsilon_spent (of the counts that came out), epsilon_data_dependent (at the votes at hand, exact where that is
    known), epsilon_published (at the votes, by the papers' bounds), epsilon_sanitised, delta; labels_right (share of
    the answered). Only the first epsilon, the sanitised one, and what the student was told could be published.
    arrays: by class (of how many, `base.BY_CLASS`): labels_right, abstained, answered.
    """

    private: ClassVar[bool] = True
    needs_ensemble: ClassVar[bool] = True

    name: Literal["pate"] = "pate"

    def guarantee(self, case: Case) -> StatedGuarantee | None:
        """See `StudyMethod.guarantee`: what the query budget allows, towards the student."""
        return StatedGuarantee.of(promised(case.config))

    def depends_on(self, case: Case) -> dict[str, Any]:
        """See `StudyMethod.depends_on`. Votes hang on the whole federation where scores are equal."""
        return {"federation": case.config.digest(), "student": case.scenario.student.model_dump(mode="json")}

    def predict(self, case: Case, ensemble: Ensemble | None) -> Predicted:
        """See `StudyMethod.predict`. A federation that its parties are too few for is absent."""
        try:
            check_can_run(case)
        except (NotEnoughParties, ConfigError) as error:
            return Predicted(absent=error.what)
        replayed = replay(case, needed(ensemble, self.name).pool)
        return Predicted(
            test=replayed.student.predict_proba(case.test_x) if len(case.test_y) else None,
            home=replayed.student.predict_proba(case.home_x) if len(case.home_y) else None,
            figures=_figures(case, replayed),
            arrays=_arrays(case, replayed),
        )


def _figures(case: Case, replayed: Replayed) -> dict[str, float]:
    config = case.config
    answered = replayed.outcomes == Outcome.ANSWERED
    count = int(answered.sum())
    right = (case.pool_y[replayed.rows] == replayed.labels)[answered]
    published = published_epsilon(config, replayed.batches, closed=replayed.sanitised is not None)
    known: dict[str, float | None] = {
        "asked": float(_queried(replayed).sum()),
        "answered": float(count),
        "reinforced": float((replayed.outcomes == Outcome.REINFORCED).sum()),
        "parties": float(len(case.parties)),
        "teachers": float(len(case.parties) * config.teachers_per_party),
        "epsilon": replayed.promised.epsilon,
        "epsilon_spent": replayed.spent["spent"].epsilon,
        "epsilon_data_dependent": replayed.spent["data_dependent"].epsilon,
        "epsilon_published": published,
        "epsilon_sanitised": None if replayed.sanitised is None else number(replayed.sanitised["guarantee"], "epsilon"),
        "delta": config.privacy.delta,
        "labels_right": float(right.mean()) if count else None,
    }
    return {name: value for name, value in known.items() if value is not None}


def _arrays(case: Case, replayed: Replayed) -> dict[str, np.ndarray]:
    queried, answered = _queried(replayed), replayed.outcomes == Outcome.ANSWERED
    truth = case.pool_y[replayed.rows]

    def by_class(which: np.ndarray, among: np.ndarray) -> np.ndarray:
        """int64 (classes, 2): of each true class how many are `which`, of how many `among`."""
        return np.stack([np.bincount(truth[rows], minlength=len(case.classes)) for rows in (which, among)], axis=1)

    return {
        BY_CLASS + "labels_right": by_class(answered & (replayed.labels == truth), answered),
        BY_CLASS + "abstained": by_class(replayed.outcomes == Outcome.ABSTAINED, queried),
        BY_CLASS + "answered": by_class(answered, queried),
    }


def _queried(replayed: Replayed) -> np.ndarray:
    return replayed.outcomes != Outcome.NOT_ASKED
