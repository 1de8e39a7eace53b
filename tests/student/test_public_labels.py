"""What labels of public rows say by themselves."""

from __future__ import annotations

import numpy as np
import pytest

from consilium.models.evaluation import area_under_curve
from consilium.student.public_labels import above_labels, cross_validated


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


def test_how_much_the_student_is_above_labels_is_paired() -> None:
    """The difference is that of two AUCs; of a student who is equal the interval has no width."""
    generator, y = np.random.default_rng(1), np.repeat([0, 1], 50)
    student, alone = (np.stack([-s, s], axis=1) for s in generator.normal(size=(2, 100)) + np.outer([2.0, 1.0], y))
    found = above_labels(student, alone, y, ("well", "ill"))["student_above"]
    areas = [area_under_curve(scores[:, 1], y == 1) for scores in (student, alone)]
    assert found["difference"] == pytest.approx(areas[0] - areas[1])
    assert found["interval"][0] < found["difference"] < found["interval"][1]
    assert above_labels(alone, alone, y, ("well", "ill"))["student_above"]["interval"] == [0.0, 0.0]
