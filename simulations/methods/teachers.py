"""What the parties' teachers give: each party's alone, all of their votes without noise, and PATE; and the baseline of
simulations alone, one model on the rows of all parties together."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field
from scipy.linalg import solve

from consilium.coordinator.privacy import published_epsilon
from consilium.data.private_rows import Rows
from consilium.models.evaluation import leading_metric, one_against_rest
from consilium.models.keys import GradientBoostingSpec, NetworkSpec, OwnCode, RandomForestSpec, RidgeSpec, TeacherKind
from consilium.models.linear import LogisticTeacher, RidgeTeacher
from consilium.models.table import fit_teacher
from consilium.protocol.errors import ConfigError, NotEnoughParties
from consilium.protocol.label_source import Outcome
from consilium.protocol.schema import Schema
from consilium.protocol.strict_json import number
from consilium.simulations.divide import Case
from consilium.simulations.methods.base import Predicted, PromisedMethod, StudyMethod, needed
from consilium.simulations.metrics import over_parties
from consilium.simulations.release import check_can_run, replay
from consilium.simulations.said import class_probabilities
from consilium.simulations.vote import Ensemble, plurality_shares


class LocalOnly(StudyMethod):
    """What each party has by itself (`said.model_alone`). At home it is judged on what it has not seen. On the public
    test rows there is no one model: figures accuracy and, of two classes, auc are means over the parties, with the 10th
    and 90th percentile of the parties (accuracy_p10 ...)."""

    needs_ensemble: ClassVar[bool] = True

    name: Literal["local"] = "local"

    def predict(self, case: Case, ensemble: Ensemble | None) -> Predicted:
        voted, y = needed(ensemble, self.name), case.test_y
        figures: dict[str, float | None] = {}
        by_row: dict[str, np.ndarray] = {}
        if len(y):
            figures.update(over_parties("accuracy", voted.test_right.tolist()))
            by_row["accuracy"] = voted.right_rows
        if leading_metric(y, len(case.classes)) == "auc":
            areas = [one_against_rest(scores, y == 1) for scores in voted.test_scores.astype(np.float64)]
            figures.update(over_parties("auc", [float(area.mean()) for area in areas]))
            by_row["auc"] = np.mean(areas, axis=0).astype(np.float32)
        home = voted.own_home.astype(np.float64) if len(case.home_y) else None
        known = {name: value for name, value in figures.items() if value is not None}
        return Predicted(home=home, figures=known, by_row=by_row)


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


_BLOCK = 2000
_ROWS_SEEN = 200_000
"""Of a network, over all epochs: on many rows a few epochs are enough, and minutes are not worth the last promille."""


def pooled_probabilities(
    schema: Schema, teacher: TeacherKind, x: np.ndarray, y: np.ndarray, test: np.ndarray
) -> np.ndarray:
    """Trained on bare rows `x` (n, features) with `y` int64 (n,) -> probabilities (m, classes) of the inputs `test`. A
    model of the teachers' kind. Networks see `_ROWS_SEEN` rows at most, in whole epochs. Gradient boosting is
    scikit-learn's histogram one, which is faster on many rows."""
    classes = len(schema.classes)
    if (y == y[0]).all():  # nothing to fit: what every party says, all of them together say
        return np.eye(classes)[np.full(len(test), y[0])]
    if isinstance(teacher, RidgeSpec) and len(x) >= test.shape[1]:
        return _ridge(teacher, schema, x, y, test)
    inputs = schema.inputs(x)
    if isinstance(teacher, OwnCode | RandomForestSpec):
        # as a teacher is; where one's own cannot be trained on so many rows, their most frequent class
        return class_probabilities(fit_teacher(teacher, Rows(inputs, y), 0), test, classes)
    model: Any = LogisticTeacher(iterations=2000)
    if isinstance(teacher, RidgeSpec):
        model = RidgeTeacher(teacher.alpha)
    elif isinstance(teacher, GradientBoostingSpec):
        from sklearn.ensemble import HistGradientBoostingClassifier

        model = HistGradientBoostingClassifier(
            max_iter=teacher.trees,
            max_depth=teacher.depth,
            learning_rate=teacher.learning_rate,
            class_weight=None if teacher.class_weight == "none" else teacher.class_weight,
            early_stopping=False,  # pyright: ignore[reportArgumentType]
            random_state=0,
        )
    elif isinstance(teacher, NetworkSpec):
        from consilium.models.torch_classifier import NetworkTeacher  # torch takes two seconds to import

        epochs = max(1, min(teacher.epochs, _ROWS_SEEN // len(x)))
        model = NetworkTeacher(teacher.model_copy(update={"epochs": epochs}), seed=0)
    return class_probabilities(model.fit(inputs, y), test, classes)


def _ridge(teacher: RidgeSpec, schema: Schema, x: np.ndarray, y: np.ndarray, test: np.ndarray) -> np.ndarray:
    """Rows are never all in memory, only sums over them, 4 inputs^2 bytes. They are solved in float64, where fewer are
    nearly singular; where they are singular all the same, with their rounding as a further penalty."""
    width, classes = test.shape[1], len(schema.classes)
    gram, cross = np.zeros((width, width), dtype=np.float32), np.zeros((width, classes), dtype=np.float32)
    total, counts = np.zeros(width), np.bincount(y, minlength=classes)
    for start in range(0, len(x), _BLOCK):
        inputs = schema.inputs(x[start : start + _BLOCK]).astype(np.float32)
        gram += inputs.T @ inputs
        cross += inputs.T @ np.eye(classes, dtype=np.float32)[y[start : start + _BLOCK]]
        total += inputs.sum(axis=0)
    mean = (total / len(x)).astype(np.float32)
    largest = float(np.trace(gram))  # sums are rounded by a share of this, whatever is taken off them
    gram -= np.outer(mean, mean) * np.float32(len(x))
    gram[np.diag_indices_from(gram)] += np.float32(teacher.alpha)
    right = (cross - np.outer(mean, counts.astype(np.float32))).astype(np.float64)
    penalised = gram.astype(np.float64)
    try:
        weights = solve(penalised, right, assume_a="pos")
    except np.linalg.LinAlgError:
        penalised[np.diag_indices_from(penalised)] += float(np.finfo(np.float32).eps) * largest
        weights = solve(penalised, right, assume_a="pos", overwrite_a=True)
    scores = np.maximum((test - mean) @ weights + counts / len(x), 0)
    return scores / scores.sum(axis=1, keepdims=True)


BOOSTED = GradientBoostingSpec(trees=100, depth=4)  # of one size for all data: chosen on none of them


class PooledModel(StudyMethod):
    """One model on all that the parties train on, without any guarantee."""

    needs_ensemble: ClassVar[bool] = False

    name: Literal["pooled"] = "pooled"
    kind: Literal["teacher", "boosted"] = Field(
        default="teacher",
        description="`teacher`: a model of the teachers' kind; `boosted`: gradient boosting, whatever the teachers are,"
        " which says what there is to learn",
    )

    def predict(self, case: Case, ensemble: Ensemble | None) -> Predicted:
        rows = np.concatenate([case.partition.parties[party] for party in case.parties])
        schema, tested, data = case.config.rows, len(case.test_y), case.dataset
        judging = schema.inputs(np.concatenate([case.test_x, case.home_x]))
        own = case.scenario.simulation.own_teacher or case.config.teacher
        kind = BOOSTED if self.kind == "boosted" else own
        probabilities = pooled_probabilities(schema, kind, data.x[rows], data.y[rows], judging)
        return Predicted(
            test=probabilities[:tested] if tested else None,
            home=probabilities[tested:] if len(case.home_y) else None,
            figures={"rows": float(len(rows))},
        )
