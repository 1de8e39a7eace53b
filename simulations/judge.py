"""How good a method is: on the public test rows, and at each party's own held-out rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from consilium.models.evaluation import Interval, area_interval, evaluate, mean_interval
from consilium.simulations.divide import Case
from consilium.simulations.methods.base import Predicted
from consilium.simulations.metrics import auc_row_scores, brier_row_scores, drawn_intervals, ratio_interval, wilson


class Row(NamedTuple):
    """One figure of one cell. method: that it is of; "division" for measures of the division alone, "teachers" for
    those of the teachers and their votes without noise. scope: "run" or "party"; name: which of them ("" for "run").
    metric: such as "auc", "hellinger"; low and high: its interval within the cell, None where it has none. Intervals
    over seeds are the report's."""

    method: str
    scope: str
    name: str
    metric: str
    value: float
    low: float | None = None
    high: float | None = None


RUN, PARTY = "run", "party"  # scopes of rows


def judged(method: str, case: Case, predicted: Predicted) -> list[Row]:
    """Everything that is said of one method in one case; nothing of one that is absent.

    run: the method's own figures, infinite ones too. On the test rows accuracy, auc (not where they have one class) and
        brier, with intervals over test rows; of several draws of a method's luck means, with the draws' spread in the
        intervals. At home, over all rows that parties hold out: home_rows, home_accuracy, and home_auc of pairs of two
        rows of one party; intervals as if other parties might have been there.
    party: on its own held-out rows rows, accuracy, and auc where they have several classes.
    """
    if predicted.absent:
        return []
    rows = [Row(method, RUN, "", metric, value) for metric, value in predicted.figures.items()]
    if predicted.test is not None:
        rows += _on_test_rows(method, case, drawn_test(predicted))
    if predicted.home is not None:
        rows += _at_home(method, case, predicted.home)
    return rows


def judged_row_scores(case: Case, predicted: Predicted) -> dict[str, Any]:
    """What units of test rows add to the figures of runs on test rows, see `inference.UnitScores`, as plain values;
    nothing without any. Of several draws of a method's luck their mean."""
    scores = {name: [array.astype(np.float64)] for name, array in predicted.by_row.items()}
    if drawn := drawn_test(predicted):
        y = case.test_y
        scores = {
            "accuracy": [(draw.argmax(axis=1) == y).astype(np.float64) for draw in drawn],
            "auc": [area for area in (auc_row_scores(draw, y) for draw in drawn) if area is not None],
            "brier": [brier_row_scores(draw, y) for draw in drawn],
        }
    if not scores:
        return {}
    unit, which = _units(case)
    ids, place, rows = np.unique(which, return_inverse=True, return_counts=True)
    found: dict[str, Any] = {"unit": unit, "ids": ids.tolist(), "rows": rows.tolist()}
    for metric, of_draws in scores.items():
        if of_draws:
            mean = np.mean(of_draws, axis=0)
            off = np.bincount(place, weights=mean - mean.mean(), minlength=len(ids))
            found[metric] = (off / len(which)).astype(np.float32).tolist()
    return found


def drawn_test(predicted: Predicted) -> list[np.ndarray]:
    """Probabilities float64 (test, classes) of each draw of a method's luck, none where it has no test rows."""
    if predicted.drawn is None:
        return [] if predicted.test is None else [predicted.test]
    return [draw.astype(np.float64) for draw in predicted.drawn]


def _on_test_rows(method: str, case: Case, drawn: Sequence[np.ndarray]) -> Iterator[Row]:
    """`drawn`: probabilities float64 (test, classes) of each draw."""
    y, names = case.test_y, case.classes
    intervals, metrics = drawn_intervals(drawn, y, names), [evaluate(draw, y, names) for draw in drawn]
    for metric in ("accuracy", *(["auc"] if intervals["auc"] is not None else [])):
        yield _row(method, RUN, "", metric, np.mean([draw[metric] for draw in metrics]), intervals[metric])
    scores = np.stack([brier_row_scores(draw, y) for draw in drawn])
    values = scores.mean(axis=1)
    spread = float(values.std(ddof=1)) / np.sqrt(len(values)) if len(values) > 1 else 0.0
    interval, most = mean_interval(scores.mean(axis=0), spread), 1.0 if len(names) == 2 else 2.0
    yield _row(method, RUN, "", "brier", values.mean(), interval, most)


def _at_home(method: str, case: Case, home: np.ndarray) -> Iterator[Row]:
    """`home`: probabilities float64 (home, classes)."""
    truth = case.home_y
    right = (home.argmax(axis=1) == truth).astype(np.float64)
    party, first = np.unique(case.home_party, return_index=True)
    rows = np.diff(np.r_[first, len(truth)])
    in_order, pairs = np.zeros((2, len(party)))
    for place, index in enumerate(party.tolist()):
        name, mine, count = case.parties[index], slice(first[place], first[place] + rows[place]), int(rows[place])
        correct, y = right[mine].sum(), truth[mine]
        yield _row(method, PARTY, name, "rows", count)
        yield _row(method, PARTY, name, "accuracy", correct / count, wilson(correct, count))
        areas = auc_row_scores(home[mine], y)
        if areas is not None:
            of_class = np.bincount(y)
            interval = area_interval(areas, int(of_class[of_class > 0].min()))
            yield _row(method, PARTY, name, "auc", areas.mean(), interval)
            pairs[place] = of_class.prod()
            in_order[place] = float(areas.mean()) * pairs[place]
    yield _row(method, RUN, "", "home_rows", len(truth))
    interval = ratio_interval(np.add.reduceat(right, first), rows)
    yield _row(method, RUN, "", "home_accuracy", right.mean(), interval)
    if len(case.classes) == 2 and (both := pairs > 0).any():
        interval = ratio_interval(in_order[both], pairs[both])
        yield _row(method, RUN, "", "home_auc", in_order.sum() / pairs.sum(), interval)


def _row(
    method: str, scope: str, name: str, metric: str, value: Any, interval: Interval | None = None, most: float = 1.0
) -> Row:
    """No interval ends below 0 or above the most that there can be."""
    low, high = (None, None) if interval is None else (max(0.0, interval[0]), min(most, interval[1]))
    return Row(method, scope, name, metric, float(value), low, high)


LEAST_UNITS = 3
"""Owners, or patients, of test rows, as many of equal size as tell as much; of fewer the rows are the units, and the
population that is spoken of is these owners' rows: two owners do not tell how much others differ."""


def _units(case: Case) -> tuple[str, np.ndarray]:
    """What the units are called, and the id int64 (test,) of each test row's."""
    data, test = case.dataset, case.partition.test
    held_out, units = data.owner[test], list[tuple[str, np.ndarray]]()
    private = np.concatenate([rows for rows in (*case.partition.parties.values(), *case.home.values())])
    if not np.isin(held_out, data.owner[private]).any():
        units.append((data.owner_label, held_out))
    if data.patient is not None:
        units.append(("patient", data.patient[test]))
    for name, which in units:
        rows = np.unique(which, return_counts=True)[1].astype(np.float64)
        if len(which) ** 2 / float((rows**2).sum()) >= LEAST_UNITS:
            return name, which
    return "row", test


BINS = 10  # of the calibration curve, with equally many rows each


def calibration_curve(probabilities: np.ndarray, y: np.ndarray) -> list[dict[str, Any]]:
    """How often it is so where the student says so: bins of equally many rows by its probability, of two classes that
    of the second, of more that of the class it calls. mean: of the probabilities; rate: of what was so, with its
    interval; rows."""
    if probabilities.shape[1] == 2:
        scores, so = probabilities[:, 1], y == 1
    else:
        scores, so = probabilities.max(axis=1), probabilities.argmax(axis=1) == y
    parts = np.array_split(np.argsort(scores, kind="stable"), min(BINS, len(scores)))
    return [
        {
            "mean": float(scores[part].mean()),
            "rate": float(so[part].mean()),
            "interval": wilson(int(so[part].sum()), len(part)),
            "rows": len(part),
        }
        for part in parts
    ]
