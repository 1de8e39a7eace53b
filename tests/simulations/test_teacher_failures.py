"""Teachers that are as good as none are counted, with the reason."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from consilium.models.own_model import OwnClassifier
from consilium.models.teachers import ConstantTeacher, RidgeTeacher
from consilium.report.warnings import StudentFacts, warnings_of
from consilium.simulations.analysis import counted_failures
from consilium.simulations.said import failure
from tests.party.teachers.test_own_code import own_teachers, rows_of, stranger

X, Y = np.arange(8.0).reshape(4, 2), np.array([0, 1, 0, 1])
ROWS, ODD = rows_of(), stranger("Raises", error="Odd", method="predict_proba", marked=True)


@pytest.mark.parametrize(
    ("teacher", "reason"),
    [
        (RidgeTeacher(1.0).fit(X, np.array([0, 0, 1, 1])), ""),
        (RidgeTeacher(1.0).fit(np.zeros((4, 2)), Y), "it says the same of every test row"),
        (ConstantTeacher.most_frequent(Y[:1]), "its rows have one class"),
        (ConstantTeacher.most_frequent(Y, "ValueError: few"), "ValueError: few"),
        (own_teachers(stranger("Raises"), ROWS)[0], "RuntimeError: PRIVATE"),
        (
            own_teachers(stranger("Raises", error="Odd", method="predict_proba", marked=True), ROWS)[0],
            "asked, it gives Odd",
        ),
    ],
)
def test_each_kind_has_its_reason(teacher: Any, reason: str) -> None:
    x = np.full((3, 3), 100.0) if isinstance(teacher, OwnClassifier) else X
    assert failure(teacher, teacher.predict_proba(x)).startswith(reason)


def test_errors_come_first_and_silence_is_told_where_it_is_half() -> None:
    one_class = "its rows have one class"
    assert counted_failures(Counter({one_class: 4, "E": 1}), 9) == {"E": 1}
    assert list(counted_failures(Counter({one_class: 5, "E": 1}), 9).items()) == [("E", 1), (one_class, 5)]
    student = StudentFacts(constant=False, metrics={}, teachers=9, failures={str(n): 1 for n in range(7)})
    (warning,) = warnings_of(student)
    assert "7 of 9 teachers" in warning["text"] and "4 and 2 more" in warning["text"]
