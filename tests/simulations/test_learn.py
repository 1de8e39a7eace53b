"""Learning curves: by labels from what was released, by epsilon from the same votes with other noise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from consilium.coordinator.config import FederationConfig
from consilium.coordinator.privacy import promised
from consilium.models.keys import GraphCnnStudent, GraphStudent, LogisticRegressionStudent
from consilium.protocol.label_source import NO_LABEL, Answers, Outcome
from consilium.simulations.learn import NOISES, CurveLearner, by_epsilon, by_labels, learning_curves
from consilium.simulations.methods.manual_labels import PublicTruth
from consilium.student.ask import Asked
from consilium.student.config import StudentSpec
from tests.simulations.methods.public import made_up

SPEC = StudentSpec(trainer=LogisticRegressionStudent(C=1.0))
VOTERS, ASKED = 60, 120
ROWS = np.random.default_rng(4).permutation(600)[:ASKED]


def votes_on(public: PublicTruth) -> np.ndarray:
    """int64 (asked, classes): three quarters of the voters know the truth."""
    classes = len(public.schema.classes)
    shares = np.full((ASKED, classes), 0.25 / (classes - 1))
    shares[np.arange(ASKED), public.labels[ROWS]] = 0.75
    return np.random.default_rng(5).multinomial(VOTERS, shares)


def federation(public: PublicTruth, mechanism: dict) -> FederationConfig:
    answers = ASKED if mechanism["name"] in ("gnmax", "histogram", "lnmax") else 40
    return FederationConfig.model_validate(
        {
            "name": "made up", "minimum_parties": 2, "collection": "plaintext", "rows": public.schema.model_dump(),
            "privacy": {"unit": "party", "delta": 1e-5}, "query_budget": {"queries": ASKED, "answers": answers},
            "mechanism": mechanism, "simulation": True,
        }
    )  # fmt: skip


def record_of(rows: np.ndarray, labels: np.ndarray, classes: int = 2) -> Asked:
    """Plain labels, NO_LABEL where the parties abstained."""
    record, outcomes = Asked(classes), np.where(labels == NO_LABEL, Outcome.ABSTAINED, Outcome.ANSWERED)
    record.add(rows, Answers(outcomes.astype(np.int64), labels), np.zeros((len(rows), classes)))
    return record


@pytest.mark.parametrize("classes", [2, 3])
def test_more_labels_teach_more(classes: int) -> None:
    public = made_up(classes=classes)
    labels = public.labels[ROWS].copy()
    labels[::4] = NO_LABEL
    curve = by_labels(CurveLearner(public, SPEC, 0), record_of(ROWS, labels, classes))
    assert [point["labels"] for point in curve["points"]] == [6, 11, 22, 45, 90]
    values = [point["value"] for point in curve["points"]]
    assert values[-1] > values[0] + 0.05
    assert all(point["interval"][0] < point["value"] < point["interval"][1] for point in curve["points"])
    assert curve["metric"] == ("auc" if classes == 2 else "accuracy")


def test_the_last_point_is_the_student_itself() -> None:
    public, learner = made_up(), CurveLearner(made_up(), SPEC, 0)
    labels = public.labels[ROWS].copy()
    labels[:100:2] = NO_LABEL
    kept = labels != NO_LABEL
    whole = learner.scores(record_of(ROWS[kept], labels[kept]))
    assert by_labels(learner, record_of(ROWS, labels))["points"][-1]["value"] == pytest.approx(whole.mean(), abs=1e-12)


def test_nothing_answered_has_no_points() -> None:
    learner = CurveLearner(made_up(), SPEC, 0)
    for record in (Asked(2), record_of(ROWS, np.full(ASKED, NO_LABEL))):
        assert by_labels(learner, record)["points"] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "mechanism",
    [{"name": "histogram", "sigma": 60.0}, {"name": "confident", "threshold": 35, "sigma1": 20.0, "sigma2": 15.0}],
)
def test_a_larger_epsilon_is_less_noise_and_a_better_student(mechanism: dict) -> None:
    public = made_up()
    config = federation(public, mechanism)
    curve = by_epsilon(CurveLearner(public, SPEC, 0), config, promised(config).epsilon, ROWS, votes_on(public), 3, 0)
    epsilons = [point["epsilon"] for point in curve["points"]]
    assert epsilons == sorted(epsilons) and len(epsilons) == len(NOISES)
    assert [point["times"] for point in curve["points"]] == list(NOISES)
    assert epsilons[NOISES.index(1.0)] == promised(config).epsilon
    values = [point["value"] for point in curve["points"]]
    assert values[-1] > values[0] + 0.02
    again = by_epsilon(CurveLearner(public, SPEC, 0), config, promised(config).epsilon, ROWS, votes_on(public), 3, 0)
    assert again == curve


@pytest.mark.parametrize(
    ("trainer", "mode", "why"),
    [
        (LogisticRegressionStudent(C=1.0), "quick", None),
        (LogisticRegressionStudent(C=1.0), "none", "manual_labels is none"),
        (GraphStudent(), "quick", "takes long"),
        (GraphCnnStudent(), "full", "takes long"),
    ],
)
def test_curves_are_drawn_where_that_is_cheap(trainer: Any, mode: Any, why: str | None) -> None:
    public = made_up()
    config = federation(public, {"name": "histogram", "sigma": 60.0})
    answered = record_of(ROWS, public.labels[ROWS])
    spec = StudentSpec(trainer=trainer)
    curves = learning_curves(public, spec, 0, mode, config, 1.0, answered, votes_on(public), None)
    for curve in curves:
        assert why in curve["absent"] if why else len(curve["points"]) == 5


def test_why_there_is_no_curve() -> None:
    public = made_up()
    learner, votes = CurveLearner(public, SPEC, 0), votes_on(public)
    none = np.zeros(0, dtype=np.int64)
    config = federation(public, {"name": "gnmax", "sigma": 40.0})
    assert "nothing was asked" in by_epsilon(learner, config, 1.0, none, votes[:0], 1, 0)["absent"]
    interactive = {"name": "interactive", "threshold": 35, "sigma1": 20.0, "sigma2": 15.0, "confidence": 1.0}
    broken = federation(public, interactive)
    assert "what the student thought" in by_epsilon(learner, broken, 1.0, ROWS, votes, 1, 0)["absent"]
