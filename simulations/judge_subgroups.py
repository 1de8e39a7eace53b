"""How a method serves groups of rows, such as sex and age: on test rows and at home, each group beside all other rows.

Where a scenario names subgroups, the true classes are groups too ("class"): Bagdasaryan, Poursaeed, Shmatikov 2019
(Differential privacy has disparate impact on model accuracy) found most of it in classes and groups with few rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from consilium.simulations.artifact import AGAINST_REST, SUBGROUP, Arrays, in_subgroup
from consilium.simulations.divide import Case
from consilium.simulations.home_scores import PartyRows, area_scores
from consilium.simulations.judge import Row, drawn_test, unit_arrays
from consilium.simulations.methods.base import Predicted
from consilium.simulations.metrics import (
    LEAST_OF_A_CLASS,
    Interval,
    area_interval,
    auc_row_scores,
    brier_row_scores,
    normal_interval,
)

CLASS_COLUMN = "class"
LEAST_ROWS = 10
"""Of a group, and of the rest, to be judged."""


class _Group(NamedTuple):
    """name: as "sex: female". member: bool (rows of the data set,)."""

    name: str
    member: np.ndarray


def _groups(case: Case) -> list[_Group]:
    columns = [*case.dataset.subgroups]
    groups = [
        _Group(f"{column.column}: {name}", column.group == place)
        for column in columns
        for place, name in enumerate(column.names)
    ]
    if columns:
        y = case.dataset.y
        groups += [_Group(f"{CLASS_COLUMN}: {name}", y == place) for place, name in enumerate(case.classes)]
    return groups


def subgroup_rows(method: str, case: Case, predicted: Predicted) -> list[Row]:
    """Figures of one method for each group; none where the scenario names no subgroups.

    train_rows and train_share: of the parties' training rows; rows, home_rows: test rows, and those held out at home.
    On test rows accuracy, brier, auc (with `LEAST_OF_A_CLASS` rows of either class) and of two classes
    observed_less_predicted (calibration in the large, in risk: the rate of the second class less the mean of its
    probability); METRIC_against_rest: what the group has more than all other rows. home_METRIC likewise, the auc of
    pairs of two rows of one party; intervals as if other parties might have been there. Of groups with fewer than
    `LEAST_ROWS` rows there is no figure but these numbers.
    """
    rows: list[Row] = []
    trained = np.concatenate([*case.partition.parties.values()])
    for group in case.once("subgroups", lambda: _groups(case)):
        name, training = group.name, int(group.member[trained].sum())
        rows += [
            Row(method, SUBGROUP, name, "train_rows", training),
            Row(method, SUBGROUP, name, "train_share", training / len(trained)),
        ]
        if predicted.test is not None:
            rows += _on_test_rows(method, case, predicted, group)
        if predicted.home is not None:
            rows += _at_home(method, case, predicted.home, group)
    return rows


def by_subgroup(case: Case, test: np.ndarray) -> list[dict[str, Any]]:
    """Of a published model, probabilities float64 (test, classes): name, rows, and metric -> [value, low, high] of each
    group of public test rows. Classes are told elsewhere, and nothing here looks at a private row."""
    groups: dict[str, dict[str, Any]] = {}
    for row in subgroup_rows("student", case, Predicted(test=test)):
        if row.metric == "rows" and row.value and not row.name.startswith(f"{CLASS_COLUMN}: "):
            groups[row.name] = {"name": row.name, "rows": int(row.value), "figures": {}}
        elif row.name in groups and row.low is not None:
            groups[row.name]["figures"][row.metric] = [row.value, row.low, row.high]
    return list(groups.values())


def subgroup_row_scores(case: Case, predicted: Predicted) -> Arrays:
    """`judged_row_scores` of each group, and of its difference to the rest."""
    arrays: Arrays = {}
    if predicted.test is None:
        return arrays
    drawn = drawn_test(predicted)
    for group in case.once("subgroups", lambda: _groups(case)):
        inside = group.member[case.partition.test]
        both = _both(drawn, case.test_y, inside)
        mine = {metric: scores.mean(axis=0) for metric, scores in both.mine.items()}
        if mine:
            arrays |= in_subgroup(group.name, False, unit_arrays(case, mine, np.flatnonzero(inside)))
        off = {metric: _off(mine[metric], rest.mean(axis=0), inside) for metric, rest in both.rest.items()}
        if off:
            arrays |= in_subgroup(group.name, True, unit_arrays(case, off))
    return arrays


class _Both(NamedTuple):
    """By metric, float64 (draws, rows) whose mean over rows it is: of the group, and of the rest where that has it."""

    mine: Mapping[str, np.ndarray]
    rest: Mapping[str, np.ndarray]


def _both(drawn: Sequence[np.ndarray], y: np.ndarray, inside: np.ndarray) -> _Both:
    mine = _scores([draw[inside] for draw in drawn], y[inside])
    rest = _scores([draw[~inside] for draw in drawn], y[~inside])
    return _Both(mine, {metric: scores for metric, scores in rest.items() if metric in mine})


def _scores(drawn: Sequence[np.ndarray], y: np.ndarray) -> dict[str, np.ndarray]:
    if len(y) < LEAST_ROWS:
        return {}
    scores = {
        "accuracy": [(draw.argmax(axis=1) == y).astype(np.float64) for draw in drawn],
        "brier": [brier_row_scores(draw, y) for draw in drawn],
    }
    if drawn[0].shape[1] == 2:
        scores["observed_less_predicted"] = [(y == 1) - draw[:, 1].astype(np.float64) for draw in drawn]
    counts = np.unique(y, return_counts=True)[1]
    if len(counts) > 1 and counts.min() >= LEAST_OF_A_CLASS:
        areas = [auc_row_scores(draw, y) for draw in drawn]
        scores["auc"] = [area for area in areas if area is not None]
    return {metric: np.stack(of_draws) for metric, of_draws in scores.items()}


def _off(mine: np.ndarray, rest: np.ndarray, inside: np.ndarray) -> np.ndarray:
    """float64 (rows,) of mean 0: the difference of both means moves by the mean of these over rows drawn anew."""
    off = np.empty(len(inside))
    off[inside] = (mine - mine.mean()) / len(mine)
    off[~inside] = -(rest - rest.mean()) / len(rest)
    return off * len(inside)


def _on_test_rows(method: str, case: Case, predicted: Predicted, group: _Group) -> Iterator[Row]:
    y, inside = case.test_y, group.member[case.partition.test]
    yield Row(method, SUBGROUP, group.name, "rows", int(inside.sum()))
    both = _both(drawn_test(predicted), y, inside)
    for metric, scores in both.mine.items():
        value, error = float(scores.mean()), _error(scores)
        if metric == "auc":
            counts = np.unique(y[inside], return_counts=True)[1]
            extra = float(scores.mean(axis=1).std(ddof=1)) / np.sqrt(len(scores)) if len(scores) > 1 else 0.0
            ends = area_interval(scores.mean(axis=0), int(counts.min()), extra)
        else:
            ends = normal_interval(value, error)
        yield Row(method, SUBGROUP, group.name, metric, value, *ends)
        if metric in both.rest:
            difference = value - float(both.rest[metric].mean())
            ends = normal_interval(difference, float(np.hypot(error, _error(both.rest[metric]))))
            yield Row(method, SUBGROUP, group.name, metric + AGAINST_REST, difference, *ends)


def _error(scores: np.ndarray) -> float:
    """Standard error of the mean of float64 (draws, rows), over rows and over draws."""
    over_rows = float(scores.mean(axis=0).std()) / np.sqrt(scores.shape[1])
    over_draws = float(scores.mean(axis=1).std(ddof=1)) / np.sqrt(len(scores)) if len(scores) > 1 else 0.0
    return float(np.hypot(over_rows, over_draws))


class _Sums(NamedTuple):
    """Points float64 (parties,) of how many: their ratio over all parties is a figure at home."""

    points: np.ndarray
    of: np.ndarray

    @property
    def value(self) -> float:
        return float(self.points.sum() / self.of.sum())

    @property
    def off(self) -> np.ndarray:
        """float64 (parties,), by how much each moves the figure (Cochran 1977, section 6.4)."""
        return (self.points - self.value * self.of) / self.of.sum()


def _at_home(method: str, case: Case, home: np.ndarray, group: _Group) -> Iterator[Row]:
    """home: probabilities float64 (home, classes)."""
    inside = group.member[case.home_rows]
    yield Row(method, SUBGROUP, group.name, "home_rows", int(inside.sum()))
    mine, rest = _home_sums(case, home, inside), _home_sums(case, home, ~inside)
    for metric, sums in mine.items():
        yield Row(method, SUBGROUP, group.name, f"home_{metric}", sums.value, *_ends(sums.value, sums.off))
        if metric in rest:
            difference = sums.value - rest[metric].value
            ends = _ends(difference, sums.off - rest[metric].off)
            yield Row(method, SUBGROUP, group.name, f"home_{metric}{AGAINST_REST}", difference, *ends)


def _ends(value: float, off: np.ndarray) -> Interval | tuple[None, None]:
    """What is over parties, of which the others have no rows of the group."""
    parties = len(off)
    if parties < 2:
        return None, None
    return normal_interval(value, float(np.sqrt(parties / (parties - 1) * (off**2).sum())))


def _home_sums(case: Case, home: np.ndarray, chosen: np.ndarray) -> dict[str, _Sums]:
    """By metric, of the chosen bool (home,) of the rows that are held out."""
    probabilities, y, party = home[chosen], case.home_y[chosen], case.home_party[chosen]
    if len(y) < LEAST_ROWS:
        return {}
    parties = len(case.parties)
    values = {
        "accuracy": (probabilities.argmax(axis=1) == y).astype(np.float64),
        "brier": brier_row_scores(probabilities, y),
    }
    if len(case.classes) == 2:
        values["observed_less_predicted"] = (y == 1) - probabilities[:, 1].astype(np.float64)
    count = np.bincount(party, minlength=parties).astype(np.float64)
    sums = {
        metric: _Sums(np.bincount(party, weights=points, minlength=parties), count) for metric, points in values.items()
    }
    if len(case.classes) == 2:
        rows = PartyRows.of(party)
        pairs = rows.counts(y, 2).prod(axis=1).astype(np.float64)
        both = pairs > 0
        if min(np.bincount(y, minlength=2)) >= LEAST_OF_A_CLASS and both.any():
            points, of = np.zeros(parties), np.zeros(parties)
            of[rows.party[both]] = pairs[both]
            points[rows.party[both]] = rows.means(area_scores(rows, probabilities, y))[both] * pairs[both]
            sums["auc"] = _Sums(points, of)
    return sums
