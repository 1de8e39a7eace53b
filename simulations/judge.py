"""How good a method is: on the public test rows, and at each party's own held-out rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from consilium.models.evaluation import calibration, evaluate
from consilium.simulations.artifact import UNIT_SCORES, Arrays
from consilium.simulations.divide import Case
from consilium.simulations.methods.base import BY_CLASS, BY_ROW, TEST_DRAWS, Predicted
from consilium.simulations.metrics import (
    Interval,
    area_interval,
    auc_row_scores,
    balanced_interval,
    balanced_row_scores,
    brier_row_scores,
    drawn_intervals,
    mean_interval,
    ratio_interval,
    wilson,
)


class Row(NamedTuple):
    """One figure of one cell.

    method: the method that it is of; "division" for measures of the division alone, "teachers" for those of the
    teachers and their votes without noise. scope: "run", "class", "party" or "group"; name: which of them ("" for
    "run"). metric: such as "auc", "hellinger"; value; low and high: its interval within the cell, None where it has
    none. Intervals over seeds are the report's.
    """

    method: str
    scope: str
    name: str
    metric: str
    value: float
    low: float | None = None
    high: float | None = None


RUN, CLASS, PARTY = "run", "class", "party"
"""Scopes of rows."""


def judged(method: str, case: Case, predicted: Predicted) -> list[Row]:
    """Everything that is said of one method in one case; nothing of one that is absent.

    run: the method's own figures, infinite ones too. On the test rows accuracy, auc (see `student.evaluation`; not
        where they have one class), balanced_accuracy, brier and ece (`student.calibration`), with intervals over test
        rows, ece without one. Of a method whose luck was drawn several times (`TEST_DRAWS`) these are means over the
        draws, and the spread of the draws is in the intervals. At home, over all rows that parties hold out:
        home_rows, home_accuracy, home_brier, and home_auc of pairs of two rows of one party; intervals as if other
        parties might have been there.
    class: recall on the test rows, and figures of the method's own by true class of the pool, each with rows.
    party: on its own held-out rows rows, accuracy, brier, and auc where they have several classes.
    """
    if predicted.absent:
        return []
    rows = [Row(method, RUN, "", metric, value) for metric, value in predicted.figures.items()]
    rows += _own_by_class(method, case, predicted)
    if predicted.test is not None:
        rows += _on_test_rows(method, case, _drawn(predicted, predicted.test))
    if predicted.home is not None:
        rows += _at_home(method, case, predicted.home)
    return rows


def judged_row_scores(case: Case, predicted: Predicted) -> Arrays:
    """What units of test rows add to the figures of runs on test rows, see `study.row_scores`; nothing without any."""
    scores = {
        name.removeprefix(BY_ROW): array.astype(np.float64)
        for name, array in predicted.arrays.items()
        if name.startswith(BY_ROW)
    }
    if predicted.test is not None:
        scores = by_row(_drawn(predicted, predicted.test), case.test_y)
    return unit_arrays(case, scores) if scores else {}


def _drawn(predicted: Predicted, test: np.ndarray) -> list[np.ndarray]:
    """Probabilities float64 (test, classes) of each draw of a method's luck."""
    drawn = predicted.arrays.get(TEST_DRAWS)
    return [test] if drawn is None else [each.astype(np.float64) for each in drawn]


def _own_by_class(method: str, case: Case, predicted: Predicted) -> Iterator[Row]:
    for array, counts in predicted.arrays.items():
        if not array.startswith(BY_CLASS):
            continue
        metric = array.removeprefix(BY_CLASS)
        for name, (of_these, of) in zip(case.classes, counts.tolist(), strict=True):
            if of:
                yield Row(method, CLASS, name, metric, of_these / of, *wilson(of_these, of))


def _on_test_rows(method: str, case: Case, found: Sequence[np.ndarray]) -> Iterator[Row]:
    """`found`: probabilities float64 (test, classes) of each draw."""
    y, names = case.test_y, case.classes
    intervals = drawn_intervals(found, y, names)
    metrics = [evaluate(each, y, names) for each in found]
    yield _row(method, RUN, "", "accuracy", _mean([each["accuracy"] for each in metrics]), intervals["accuracy"])
    if intervals["auc"] is not None:
        yield _row(method, RUN, "", "auc", _mean([each["auc"] for each in metrics]), intervals["auc"])
    yield _row(method, RUN, "", "balanced_accuracy", *_balanced(found, y))
    yield _row(method, RUN, "", "brier", *_mean_over_rows(found, y, brier_row_scores))
    yield _row(method, RUN, "", "ece", _mean([calibration(each, y, names)["calibration_error"] for each in found]))
    counts = np.bincount(y, minlength=len(names))
    for name, count in zip(names, counts.tolist(), strict=True):
        if count:
            recall = _mean([each["recall_per_class"][name] for each in metrics])
            yield _row(method, CLASS, name, "recall", recall, intervals["recall_per_class"][name])
            yield _row(method, CLASS, name, "rows", count)


def _balanced(found: Sequence[np.ndarray], y: np.ndarray) -> tuple[float, Interval]:
    if len(found) > 1:
        return _mean_over_rows(found, y, balanced_row_scores)
    counts = np.bincount(y, minlength=found[0].shape[1])
    right = np.bincount(y[found[0].argmax(axis=1) == y], minlength=len(counts))
    return float(balanced_row_scores(found[0], y).mean()), balanced_interval(right, counts)


def _mean_over_rows(
    found: Sequence[np.ndarray], y: np.ndarray, scores_of: Callable[[np.ndarray, np.ndarray], np.ndarray]
) -> tuple[float, Interval]:
    scores = np.stack([scores_of(each, y) for each in found])
    values = scores.mean(axis=1)
    spread = float(values.std(ddof=1)) / np.sqrt(len(values)) if len(values) > 1 else 0.0
    low, high = mean_interval(scores.mean(axis=0), spread)
    return float(values.mean()), [max(0.0, low), high]


def _at_home(method: str, case: Case, home: np.ndarray) -> Iterator[Row]:
    """`home`: probabilities float64 (home, classes)."""
    whose, truth = case.home_party, case.home_y
    right, brier = home.argmax(axis=1) == truth, brier_row_scores(home, truth)
    sums = {"accuracy": (right, np.ones(len(truth))), "brier": (brier, np.ones(len(truth)))}
    in_order, pairs = np.zeros(len(case.parties)), np.zeros(len(case.parties))
    for index in np.unique(whose).tolist():
        own, name = whose == index, case.parties[index]
        y, count = truth[own], int(own.sum())
        yield _row(method, PARTY, name, "rows", count)
        yield _row(method, PARTY, name, "accuracy", right[own].mean(), wilson(int(right[own].sum()), count))
        yield _row(method, PARTY, name, "brier", brier[own].mean(), mean_interval(brier[own]) if count > 1 else None)
        areas = auc_row_scores(home[own], y)
        if areas is not None:
            classes = np.bincount(y)
            yield _row(method, PARTY, name, "auc", areas.mean(), area_interval(areas, int(classes[classes > 0].min())))
            if len(case.classes) == 2:
                pairs[index] = float(classes[0]) * float(classes[1])
                in_order[index] = areas.mean() * pairs[index]
    yield _row(method, RUN, "", "home_rows", len(truth))
    for metric, (points, of) in sums.items():
        totals = [np.bincount(whose, weights=each, minlength=len(case.parties)) for each in (points, of)]
        yield _row(method, RUN, "", f"home_{metric}", points.mean(), _clipped(ratio_interval(*_there(*totals))))
    if pairs.any():
        value = float(in_order.sum() / pairs.sum())
        yield _row(method, RUN, "", "home_auc", value, _clipped(ratio_interval(*_there(in_order, pairs))))


def _there(points: np.ndarray, of: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Parties that hold something out."""
    return points[of > 0], of[of > 0]


def _clipped(interval: Interval | None) -> Interval | None:
    return None if interval is None else [max(0.0, interval[0]), min(1.0, interval[1])]


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))


def _row(method: str, scope: str, name: str, metric: str, value: float, interval: Sequence[float] | None = None) -> Row:
    low, high = (None, None) if interval is None else interval
    return Row(method, scope, name, metric, float(value), low, high)


LEAST_OWNERS = 2
"""Of test rows; of fewer the rows are the units, and the population that is spoken of is these owners' rows."""


def by_row(found: Sequence[np.ndarray], y: np.ndarray) -> dict[str, np.ndarray]:
    """Row scores float64 (test,) of each figure, whose mean it is.

    found: probabilities float64 (test, classes) of each draw of a method's luck. y: int64 (test,).
    """
    areas = [each for each in (auc_row_scores(each, y) for each in found) if each is not None]
    scores = {
        "accuracy": [(each.argmax(axis=1) == y).astype(np.float64) for each in found],
        "auc": areas,
        "balanced_accuracy": [balanced_row_scores(each, y) for each in found],
        "brier": [brier_row_scores(each, y) for each in found],
    }
    return {metric: np.mean(each, axis=0) for metric, each in scores.items() if each}


def unit_arrays(case: Case, scores: Mapping[str, np.ndarray]) -> Arrays:
    """For an artifact. scores: see `by_row`; there are test rows."""
    unit, which = _units(case)
    ids, place, rows = np.unique(which, return_inverse=True, return_counts=True)
    arrays: Arrays = {"unit": np.array(unit), "ids": ids, "rows": rows.astype(np.int32)}
    for metric, each in scores.items():
        off = np.bincount(place, weights=each - each.mean(), minlength=len(ids))
        arrays[metric] = (off / len(which)).astype(np.float32)
    return {UNIT_SCORES + name: array for name, array in arrays.items()}


def _units(case: Case) -> tuple[str, np.ndarray]:
    """What the units are called, and the id int64 (test,) of each test row's."""
    data, test = case.dataset, case.partition.test
    held_out = data.owner[test]
    private = np.concatenate([rows for rows in (*case.partition.parties.values(), *case.home.values())])
    if len(np.unique(held_out)) >= LEAST_OWNERS and not np.isin(held_out, data.owner[private]).any():
        return data.owner_label, held_out
    return ("row", test) if data.patient is None else ("patient", data.patient[test])


def unit_arrays_in(matrices: Mapping[str, np.ndarray]) -> Arrays:
    """Those of `unit_arrays` among the matrices of an artifact."""
    return {name: array for name, array in matrices.items() if name.startswith(UNIT_SCORES)}
