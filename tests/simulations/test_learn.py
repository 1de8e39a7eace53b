"""The learning curve: what was released, and public rows with their true labels."""

from __future__ import annotations

import numpy as np
import pytest

from consilium.models.keys import GraphCnnStudent, LogisticRegressionStudent
from consilium.protocol.label_source import NO_LABEL, Answers, Outcome
from consilium.simulations.learn import CurveLearner, learning_curve
from consilium.student.ask import Asked
from consilium.student.config import StudentSpec
from tests.simulations.methods.cases import made_up

SPEC = StudentSpec(trainer=LogisticRegressionStudent(C=1.0))
ASKED = 120
ROWS = np.random.default_rng(4).permutation(600)[:ASKED]


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
    curve = learning_curve(public, SPEC, 0, record_of(ROWS, labels, classes))
    assert [point["labels"] for point in curve["points"]] == [6, 11, 22, 45, 90]
    values = [point["value"] for point in curve["points"]]
    assert values[-1] > values[0] + 0.05
    assert all(point["interval"][0] < point["value"] < point["interval"][1] for point in curve["points"])
    assert curve["metric"] == ("auc" if classes == 2 else "accuracy")


def test_the_last_point_is_the_student_itself() -> None:
    public = made_up()
    labels = public.labels[ROWS].copy()
    labels[:100:2] = NO_LABEL
    kept = labels != NO_LABEL
    whole = CurveLearner(public, SPEC, 0).scores(record_of(ROWS[kept], labels[kept]))
    curve = learning_curve(public, SPEC, 0, record_of(ROWS, labels))
    assert curve["points"][-1]["value"] == pytest.approx(whole.mean(), abs=1e-12)


def test_nothing_answered_has_no_points() -> None:
    for record in (Asked(2), record_of(ROWS, np.full(ASKED, NO_LABEL))):
        assert learning_curve(made_up(), SPEC, 0, record)["points"] == []


def test_a_slow_student_has_no_curve() -> None:
    public = made_up()
    curve = learning_curve(public, StudentSpec(trainer=GraphCnnStudent()), 0, record_of(ROWS, public.labels[ROWS]))
    assert "takes long" in curve["absent"]
