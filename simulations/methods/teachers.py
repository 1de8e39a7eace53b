"""What the parties' teachers give: each party's alone, all of their votes without noise, and PATE."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Literal

import numpy as np

from consilium.coordinator.privacy import published_epsilon
from consilium.models.evaluation import leading_metric, one_against_rest
from consilium.protocol.errors import ConfigError, NotEnoughParties
from consilium.protocol.label_source import Outcome
from consilium.protocol.strict_json import number
from consilium.simulations.divide import Case
from consilium.simulations.methods.base import BY_ROW, Arrays, Predicted, PromisedMethod, StudyMethod, needed
from consilium.simulations.metrics import over_parties
from consilium.simulations.release import check_can_run, replay
from consilium.simulations.vote import Ensemble, plurality_shares


class LocalOnly(StudyMethod):
    """What each party has by itself (`said.model_alone`). At home it is judged on what it has not seen. On the public
    test rows there is no one model: figures accuracy and, of two classes, auc are means over the parties, with the 10th
    and 90th percentile of the parties (accuracy_p10 ...). arrays: what each test row adds to either (`BY_ROW`)."""

    needs_ensemble: ClassVar[bool] = True

    name: Literal["local"] = "local"

    def predict(self, case: Case, ensemble: Ensemble | None) -> Predicted:
        voted, y = needed(ensemble, self.name), case.test_y
        figures: dict[str, float | None] = {}
        arrays: Arrays = {}
        if len(y):
            figures.update(over_parties("accuracy", voted.test_right.tolist()))
            arrays |= _by_row("accuracy", _rights(voted, y), figures["accuracy"])
        if leading_metric(y, len(case.classes)) == "auc":
            areas = [one_against_rest(scores, y == 1) for scores in voted.test_scores.astype(np.float64)]
            figures.update(over_parties("auc", [float(area.mean()) for area in areas]))
            arrays |= _by_row("auc", [np.mean(areas, axis=0)], figures["auc"])
        home = voted.own_home.astype(np.float64) if len(case.home_y) else None
        known = {name: value for name, value in figures.items() if value is not None}
        return Predicted(home=home, figures=known, arrays=arrays)


def _rights(voted: Ensemble, y: np.ndarray) -> Iterator[np.ndarray]:
    """Share of teachers that are right on each test row, float64 (test,): by their votes, by their mean probability.
    Under the relative voting rule a vote is not the likeliest class, and several teachers are not their mean."""
    yield (voted.test.cast == y).mean(axis=(0, 1))
    if voted.test_scores.shape[1]:
        yield ((voted.test_scores > 0.5) == (y == 1)).mean(axis=0)


def _by_row(metric: str, candidates: Iterable[np.ndarray], figure: float | None) -> Arrays:
    """The first whose mean is the figure; nothing where none is."""
    for scores in candidates:
        if figure is not None and abs(float(scores.mean()) - figure) < 1e-6:
            return {BY_ROW + metric: scores.astype(np.float32)}
    return {}


_NO_FEDERATION = "plurality"  # in place of a federation's digest in the lots that decide equal scores


class Plurality(StudyMethod):
    """All teachers vote on every row, without noise; a class's probability is its share of the votes. Equal scores
    (under the relative voting rule) are decided by lots of their own, so that it is the same whatever the federation
    around the teachers is; a run's own plurality differs from it by these lots alone."""

    needs_ensemble: ClassVar[bool] = True

    name: Literal["plurality"] = "plurality"

    def predict(self, case: Case, ensemble: Ensemble | None) -> Predicted:
        voted = needed(ensemble, self.name)
        return Predicted(
            test=plurality_shares(case, voted.test, case.test_x, _NO_FEDERATION) if len(case.test_y) else None,
            home=plurality_shares(case, voted.home, case.home_x, _NO_FEDERATION) if len(case.home_y) else None,
        )


class Pate(PromisedMethod):
    """Noisy votes, charged and released one query after the other, and the student that learns from them.

    figures: asked, answered, reinforced; parties, teachers; epsilon (promised, from the query budget alone),
    epsilon_spent (of the counts that came out), epsilon_data_dependent (at the votes at hand, exact where that is
    known), epsilon_published (at the votes, by the papers' bounds), epsilon_sanitised, delta; labels_right (share of
    the answered). Only the first epsilon, the sanitised one, and what the student was told could be published."""

    needs_ensemble: ClassVar[bool] = True

    name: Literal["pate"] = "pate"

    def depends_on(self, case: Case) -> dict[str, Any]:
        """Votes hang on the whole federation where scores are equal."""
        return {"federation": case.config.digest(), "student": case.scenario.student.model_dump(mode="json")}

    def predict(self, case: Case, ensemble: Ensemble | None) -> Predicted:
        """A federation that its parties are too few for is absent."""
        try:
            check_can_run(case)
        except (NotEnoughParties, ConfigError) as error:
            return Predicted(absent=error.what)
        config, replayed = case.config, replay(case, needed(ensemble, self.name).pool)
        answered, sanitised = replayed.outcomes == Outcome.ANSWERED, replayed.sanitised
        right = (case.pool_y[replayed.rows] == replayed.labels)[answered]
        known: dict[str, float | None] = {
            "asked": float((replayed.outcomes != Outcome.NOT_ASKED).sum()),
            "answered": float(answered.sum()),
            "reinforced": float((replayed.outcomes == Outcome.REINFORCED).sum()),
            "parties": float(len(case.parties)),
            "teachers": float(len(case.parties) * config.teachers_per_party),
            "epsilon": replayed.promised.epsilon,
            "epsilon_spent": replayed.spent["spent"].epsilon,
            "epsilon_data_dependent": replayed.spent["data_dependent"].epsilon,
            "epsilon_published": published_epsilon(config, replayed.batches, closed=sanitised is not None),
            "epsilon_sanitised": None if sanitised is None else number(sanitised["guarantee"], "epsilon"),
            "delta": config.privacy.delta,
            "labels_right": float(right.mean()) if len(right) else None,
        }
        return Predicted(
            test=replayed.student.predict_proba(case.test_x) if len(case.test_y) else None,
            home=replayed.student.predict_proba(case.home_x) if len(case.home_y) else None,
            figures={name: value for name, value in known.items() if value is not None},
        )
