"""What labels of public rows say by themselves."""

from __future__ import annotations

import numpy as np
import pytest

from consilium.models.evaluation import area_under_curve
from consilium.models.keys import GraphCnnStudent, GraphStudent, LogisticRegressionStudent, TrainerKind
from consilium.student.config import StudentSpec
from consilium.student.public_labels import beside_labels, cross_validated, labels_alone
from tests.federation import make_config, make_rows


def table(rows: int, classes: int, told: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(rows, 6))
    y = (told * x[:, :classes] + generator.gumbel(size=(rows, classes))).argmax(axis=1)
    return x, y


@pytest.mark.parametrize("classes", [2, 4])
def test_cross_validation_is_near_what_new_rows_give_and_leaves_chance(classes: int) -> None:
    x, y = table(400, classes, 1.0)
    found = cross_validated(x, y, classes)
    assert (found.metric, found.rows) == ("auc" if classes == 2 else "accuracy", 400)
    assert found.leaves_chance
    low, high = found.interval
    assert low < found.value < high < found.value + 0.08


def test_labels_that_nothing_tells_seldom_leave_chance() -> None:
    """At 6 % more than 9 of 60 have a probability of .003."""
    assert sum(cross_validated(*table(60, 2, 0.0, seed), 2).leaves_chance for seed in range(60)) <= 9


def test_labels_of_one_class_and_two_rows_leave_no_chance() -> None:
    for y in ([0], [1, 1, 1], [0, 1]):
        found = cross_validated(np.arange(len(y) * 2.0).reshape(-1, 2), np.array(y), 2)
        assert not found.leaves_chance


SCHEMA = make_config().rows
X, Y = make_rows(300, 5)
KNOWN = np.where(np.arange(100) < 60, Y[:100], -1)
TEST = X[100:], Y[100:]


@pytest.mark.parametrize("kind", [LogisticRegressionStudent(), GraphStudent()])
def test_how_much_a_student_has_above_labels_is_paired(kind: TrainerKind) -> None:
    """The difference is that of two AUCs; of a student who is the labels' own model the interval has no width."""
    spec, noise = StudentSpec(trainer=kind), np.random.default_rng(1).normal(size=200)
    alone = labels_alone(spec, SCHEMA, X[:100], KNOWN, X[100:], 0)
    assert not isinstance(alone, str)
    student = np.stack([-Y[100:] - noise, Y[100:] + noise], axis=1)
    found = beside_labels(spec, SCHEMA, X[:100], KNOWN, TEST, student, 0)
    areas = [area_under_curve(scores[:, 1], Y[100:] == 1) for scores in (student, alone)]
    above, (low, high) = found["student_above"], found["intervals"]["auc"]
    assert (found["rows"], found["cross_validated"]["rows"], above["metric"]) == (60, 60, "auc")
    assert found["auc"] == pytest.approx(areas[1]) and low < areas[1] < high
    assert above["difference"] == pytest.approx(areas[0] - areas[1])
    assert above["interval"][0] < above["difference"] < above["interval"][1]
    same = beside_labels(spec, SCHEMA, X[:100], KNOWN, TEST, alone, 0)["student_above"]
    assert same["interval"] == [0.0, 0.0]


def test_labels_alone_are_of_the_rows_with_a_label() -> None:
    """What stands for the others is looked at by nobody."""
    others = np.where(KNOWN < 0, X[:100, 0] * 9 + 3, X[:100, 0])
    changed = np.column_stack([others, X[:100, 1:]]).astype(np.float32)
    first, second = (labels_alone(StudentSpec(), SCHEMA, rows, KNOWN, X[100:], 0) for rows in (X[:100], changed))
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize(
    ("kind", "labels", "why"),
    [
        (LogisticRegressionStudent(), np.full(100, -1), "no public row has a label"),
        (GraphCnnStudent(), KNOWN, "a student of the kind graph_cnn takes too long to be trained again"),
    ],
)
def test_why_there_are_no_labels_alone(kind: TrainerKind, labels: np.ndarray, why: str) -> None:
    found = beside_labels(StudentSpec(trainer=kind), SCHEMA, X[:100], labels, TEST, np.eye(2)[Y[100:]], 0)
    assert found["absent"] == why and "student_above" not in found
