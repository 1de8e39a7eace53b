"""How methods, a student, and it against parties' own models are judged: against scikit-learn, on made-up rows. And
intervals of metrics: published values, coverage, and the ends of the scale."""

from __future__ import annotations

import doctest
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, brier_score_loss, roc_auc_score

from consilium.models.base import softmax
from consilium.models.evaluation import Metric, area_interval, evaluate, leading_metric, row_scores
from consilium.models.keys import MlpSpec
from consilium.protocol.schema import Schema
from consilium.simulations import analysis, metrics
from consilium.simulations.analysis import LEAST_ROWS, chosen, folds_of, on_own_rows
from consilium.simulations.datasets.base import Dataset
from consilium.simulations.divide import Case
from consilium.simulations.judge import Row, calibration_curve, judged, judged_row_scores
from consilium.simulations.methods.base import Predicted
from consilium.simulations.metrics import drawn_intervals, metric_intervals, ratio_interval, wilson
from consilium.simulations.population.partition import Partition
from tests.federation import FEATURES, make_config
from tests.simulations.methods.cases import few

TEST = 400
HOME = {"a": 40, "b": 1, "d": 25, "e": 30}
"""Rows that each party holds out; those of d are of one class, and party c has none."""
PARTIES = ("a", "b", "c", "d", "e")
NONE = np.zeros(0, dtype=np.int64)
TWO_AND_THREE = pytest.mark.parametrize("classes", [2, 3])


def case_of(x: np.ndarray, y: np.ndarray, classes: int, partition: Partition, home: Mapping[str, np.ndarray]) -> Case:
    """A case of which nothing is used but its rows, and where they are."""
    names = ("well", "ill") if classes == 2 else tuple(f"kind {index}" for index in range(classes))
    owner = np.zeros(len(y), dtype=np.int64)
    texts = {"name": "made up", "title": "", "attribution": "", "owner_label": "ward"}
    data = Dataset(**texts, features=FEATURES, classes=names, x=x.astype(np.float32), y=y, owner=owner)
    config = make_config(rows=Schema.from_public_rows(FEATURES, names, x.astype(np.float64)))
    return Case(few(), 0, config, data, partition, dict(home))


def made_up(classes: int) -> Case:
    generator, count = np.random.default_rng(classes), TEST + sum(HOME.values())
    x, y = generator.normal(size=(count, 3)), generator.integers(classes, size=count)
    ends = TEST + np.cumsum([0, *HOME.values()])
    home = {name: np.arange(start, end) for name, start, end in zip(HOME, ends[:-1], ends[1:], strict=True)}
    y[home["d"]] = 1
    return case_of(x, y, classes, Partition(dict.fromkeys(PARTIES, NONE), NONE, np.arange(TEST)), home)


def guesses(case: Case, seed: int = 0) -> np.ndarray:
    """Probabilities of all rows, which know something: float64 (rows, classes)."""
    scores = np.random.default_rng(seed).normal(size=(len(case.dataset.y), len(case.classes)))
    scores[np.arange(len(scores)), case.dataset.y] += 1
    return np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)


def brier(y: np.ndarray, found: np.ndarray) -> float:
    if found.shape[1] == 2:
        return brier_score_loss(y, found[:, 1])
    return brier_score_loss(y, found, labels=list(range(found.shape[1])), scale_by_half=False)


def auc(y: np.ndarray, found: np.ndarray, weights: np.ndarray | None = None) -> float:
    return roc_auc_score(y, found[:, 1] if found.shape[1] == 2 else found, multi_class="ovr", sample_weight=weights)


def values(rows: list[Row], scope: str, name: str = "") -> dict[str, float]:
    return {row.metric: row.value for row in rows if (row.scope, row.name) == (scope, name)}


@TWO_AND_THREE
def test_metrics_on_test_rows_are_scikit_learns(classes: int) -> None:
    case = made_up(classes)
    y, found = case.test_y, guesses(case)[:TEST]
    rows, top = judged("pooled", case, Predicted(test=found)), found.argmax(axis=1)
    expected = {"accuracy": accuracy_score(y, top), "auc": auc(y, found), "brier": brier(y, found)}
    assert values(rows, "run") == pytest.approx(expected, abs=1e-12)
    assert all(row.low is not None and row.low < row.value < (row.high or 0) for row in rows if row.metric in expected)
    assert {row.method for row in rows} == {"pooled"}


@TWO_AND_THREE
def test_no_interval_ends_where_a_brier_score_cannot_be(classes: int) -> None:
    """Risks that are right but for one row, and that are wrong but for one, in each party and on the test rows."""
    case = made_up(classes)
    y, most = case.dataset.y, 1.0 if classes == 2 else 2.0
    for wrong in (np.arange(len(y)) % 20 == 1, np.arange(len(y)) % 20 != 1):
        found = np.eye(classes)[(y + wrong) % classes]
        rows = judged("pate", case, Predicted(test=found[:TEST], home=found[TEST:]))
        (row,) = (row for row in rows if row.metric == "brier")
        assert row.low is not None and row.high is not None and 0 <= row.low <= row.value <= row.high <= most


@TWO_AND_THREE
def test_scores_of_units_are_the_figures_to_first_order(classes: int) -> None:
    """They add up to 0, and say what a figure becomes when a unit's rows count a thousandth more."""
    case = made_up(classes)
    y, found, patient = case.test_y, guesses(case)[:TEST], np.arange(len(case.dataset.y)) % 37
    arrays = judged_row_scores(replace(case, dataset=replace(case.dataset, patient=patient)), Predicted(test=found))
    assert arrays["unit"] == "patient" and arrays["ids"] == list(range(37))
    assert arrays["rows"] == np.bincount(patient[:TEST]).tolist()
    for metric in ("accuracy", "auc"):
        scores = np.array(arrays[metric])
        assert scores.sum() == pytest.approx(0, abs=1e-6)
        for unit in (0, 20, 36):
            weights = np.ones(TEST), 1 + 1e-3 * (patient[:TEST] == unit)
            if metric == "auc":
                plain, more = (auc(y, found, each) for each in weights)
            else:
                plain, more = (accuracy_score(y, found.argmax(axis=1), sample_weight=each) for each in weights)
            assert scores[unit] == pytest.approx((more - plain) / 1e-3, rel=0.02, abs=2e-5)


def test_units_are_owners_where_whole_owners_are_held_out() -> None:
    case = made_up(2)
    found, rows = guesses(case)[:TEST], np.arange(len(case.dataset.y))
    owner = np.where(rows < TEST, rows % 7, 9)
    for owners, expected in (
        (owner, ("ward", 7)),
        (np.where(owner == 9, 3, owner), ("row", TEST)),  # a party has rows of one of them
        (np.where(owner == 9, 9, 0), ("row", TEST)),  # of a single owner nothing is known
        (np.where(owner == 9, 9, owner % 2), ("row", TEST)),  # nor of two
        (np.where(owner == 9, 9, (owner == 1) + 2 * (owner == 2)), ("row", TEST)),  # nor where one has most
    ):
        of = replace(case, dataset=replace(case.dataset, owner=owners))
        arrays = judged_row_scores(of, Predicted(test=found))
        assert (arrays["unit"], len(arrays["ids"])) == expected


@TWO_AND_THREE
def test_at_home_every_party_is_judged_on_its_own_rows(classes: int) -> None:
    case = made_up(classes)
    found, whose = guesses(case)[TEST:], case.home_party
    rows = judged("pate", case, Predicted(home=found))
    in_order, pairs = 0.0, 0.0
    for index, party in enumerate(PARTIES):
        own, y = found[whose == index], case.home_y[whose == index]
        if party == "c":
            assert values(rows, "party", party) == {}
            continue
        expected = {"rows": HOME[party], "accuracy": accuracy_score(y, own.argmax(axis=1))}
        if len(np.unique(y)) == classes:
            expected["auc"] = auc(y, own)
            both = (y == 0).sum() * (y == 1).sum()
            in_order, pairs = in_order + expected["auc"] * both, pairs + both
        assert values(rows, "party", party) == pytest.approx(expected, abs=1e-12)
    y, top = case.home_y, found.argmax(axis=1)
    whole = {"home_rows": len(y), "home_accuracy": accuracy_score(y, top)}
    whole |= {"home_auc": in_order / pairs} if classes == 2 else {}
    assert values(rows, "run") == pytest.approx(whole, abs=1e-12)
    one_class = {row.metric: (row.low, row.high) for row in rows if row.name == "d"}
    assert "auc" not in one_class and None not in one_class["accuracy"]


def test_of_several_draws_the_mean_is_judged_and_their_spread_is_in_the_interval() -> None:
    case = made_up(2)
    y, drawn = case.test_y, np.stack([guesses(case, seed)[:TEST] for seed in range(6)]).astype(np.float32)
    drawn[3:] = drawn[3:, :, ::-1]  # three of them are wrong where they would have been right
    predicted = Predicted(test=drawn[0], drawn=drawn)
    several, one = (
        {row.metric: row for row in judged("noisy_average", case, of) if row.scope == "run"}
        for of in (predicted, Predicted(test=drawn[0]))
    )
    units, each = judged_row_scores(case, predicted), [judged_row_scores(case, Predicted(test=of)) for of in drawn]
    for name, score in (("accuracy", lambda of: accuracy_score(y, of.argmax(axis=1))), ("auc", None), ("brier", None)):
        score = score or (lambda of, name=name: (auc if name == "auc" else brier)(y, of.astype(np.float64)))
        assert several[name].value == pytest.approx(np.mean([score(of) for of in drawn]), abs=1e-6)
        wide, narrow = ((row.high or 0) - (row.low or 0) for row in (several[name], one[name]))
        assert wide > 2 * narrow > 0
        assert units[name] == pytest.approx(np.mean([of[name] for of in each], axis=0), abs=1e-7)
    assert judged_row_scores(case, Predicted(home=guesses(case)[TEST:])) == {}


def test_nothing_is_said_of_what_is_absent_and_no_auc_of_one_class() -> None:
    case = made_up(2)
    assert judged("noisy_average", case, Predicted(absent="teachers are not linear")) == []
    figures = {"epsilon": float("inf"), "asked": 9.0}
    assert values(judged("pate", case, Predicted(figures=figures)), "run") == figures
    case.dataset.y[:TEST] = 1
    assert values(judged("pooled", case, Predicted(test=guesses(case)[:TEST])), "run").keys() == {"accuracy", "brier"}


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("classes", [2, 3, 10])
def test_calibration_counts_every_row_once(classes: int, ties: bool) -> None:
    generator, names = np.random.default_rng(0), tuple("abcdefghij"[:classes])
    y = generator.integers(classes, size=403)
    scores = generator.gumbel(size=(403, classes)) + np.eye(classes)[y]
    probabilities = np.exp(np.round(scores) if ties else scores)
    bins = calibration_curve(probabilities, y)
    assert sum(point["rows"] for point in bins) == 403
    so = (y == 1).mean() if classes == 2 else evaluate(probabilities, y, names)["accuracy"]
    assert sum(point["rows"] * point["rate"] for point in bins) / 403 == pytest.approx(so)
    assert all(point["interval"][0] <= point["rate"] <= point["interval"][1] for point in bins)
    assert [point["mean"] for point in bins] == sorted(point["mean"] for point in bins)


def test_calibration_of_one_row() -> None:
    assert len(calibration_curve(np.array([[0.4, 0.6]]), np.array([1]))) == 1


def with_parties(sizes: list[int], classes: int = 2, one_class: tuple[int, ...] = ()) -> Case:
    """Parties of these sizes, whose rows tell their classes; those at these places have one class."""
    generator, ends = np.random.default_rng(0), np.cumsum([0, *sizes])
    parties = {f"p{at}": np.arange(ends[at], ends[at + 1]) for at in range(len(sizes))}
    y = generator.integers(classes, size=ends[-1])
    for at in one_class:
        y[parties[f"p{at}"]] = 0
    x = generator.normal(size=(len(y), 3)) + np.eye(3)[y]
    return case_of(x, y, classes, Partition(parties, NONE, NONE), {})


def gains(case: Case, student: Any = None) -> dict[str, Any]:
    """A student that knows the features which made the classes, if no other is given."""
    return on_own_rows(case, student or (lambda x: softmax(x[:, : len(case.classes)])), case.parties)


def test_on_own_rows_small_parties_gain_and_large_ones_hardly() -> None:
    result = gains(with_parties([12] * 12 + [400] * 4))
    small, large = (np.mean([more for rows, more in result["by_party"] if rows == size]) for size in (12, 400))
    assert small > 0.05 > abs(large)
    assert (result["metric"], result["judged"], result["parties"]) == ("auc", 16, 16)
    whole = gains(with_parties([200] * 6), lambda x: np.full((len(x), 2), 0.5))["all"]
    assert whole["student"] == 0.5 and whole["interval"][1] < 0


@TWO_AND_THREE
def test_on_own_rows_every_party_is_judged_from_small_to_large(classes: int) -> None:
    sizes = [7, 9, 30, 31, 60, 100, 100]
    result = gains(with_parties(sizes[::-1], classes))
    assert [rows for rows, _ in result["by_party"]] == sizes
    assert result["metric"] == ("auc" if classes == 2 else "accuracy")


def test_no_row_is_in_its_own_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """And rows of one patient are held out together."""
    seen: list[np.ndarray] = []
    real = analysis.fit_teachers
    monkeypatch.setattr(analysis, "fit_teachers", lambda *given: (seen.append(given[2][0]), real(*given))[1])
    gains(with_parties([25]))
    left_out = np.concatenate([np.setdiff1d(np.arange(25), part) for part in seen])
    assert len(seen) == analysis.FOLDS and sorted(left_out.tolist()) == list(range(25))
    owner = np.repeat(np.arange(10), 3)
    folds = folds_of(owner, 0)
    for fold in folds:
        assert not set(owner[fold]) & set(owner[np.setdiff1d(np.arange(30), fold)])
    assert sorted(np.concatenate(folds).tolist()) == list(range(30))


def test_parties_of_one_class_and_tiny_ones_are_counted_and_do_no_harm() -> None:
    result = gains(with_parties([40, 40, 40, 40, 1, LEAST_ROWS - 1], one_class=(3,)))
    assert (result["judged"], result["too_small"], result["parties"]) == (3, 2, 6)
    assert "two classes" in gains(with_parties([10], one_class=(0,)))["absent"]
    assert "no 6 rows" in gains(with_parties([2, 5]))["absent"]
    assert chosen({"a": 9, "b": 2, "c": 30, "d": 20, "e": 10}, 2) == ["a", "c"]
    slow = with_parties([100])
    slow = replace(slow, config=make_config(rows=slow.config.rows, teacher=MlpSpec()))
    assert "take long to train again" in gains(slow)["absent"]


NAMES = ("a", "b", "c")


def test_examples_in_the_text_are_true() -> None:
    assert doctest.testmod(metrics).failed == 0


def test_wilson_is_the_published_one() -> None:
    """Newcombe 1998, table I, method 3."""
    for (right, count), expected in {
        (81, 263): (0.2553, 0.3662),
        (0, 20): (0, 0.1611),
        (1, 29): (0.0061, 0.1718),
    }.items():
        assert wilson(right, count) == pytest.approx(expected, abs=5e-5)


def scores_of(classes: int, rows: int, generator: np.random.Generator, strength: float = 1.0) -> tuple:
    y = generator.integers(classes, size=rows)
    probabilities = np.exp(generator.gumbel(size=(rows, classes)) + strength * np.eye(classes)[y])
    return probabilities / probabilities.sum(axis=1, keepdims=True), y


@pytest.mark.parametrize("classes", [2, 3])
def test_they_hold_the_metric_and_cover_the_truth(classes: int) -> None:
    """Of 200 draws 95% cover, by binomial chance at least 180 (one in 10,000 would fail); the seed is fixed."""
    generator, names = np.random.default_rng(0), NAMES[:classes]
    truth = evaluate(*scores_of(classes, 200_000, generator), names)
    covered = {"accuracy": 0, "auc": 0}
    for _ in range(200):
        probabilities, y = scores_of(classes, 150, generator)
        found, reached = metric_intervals(probabilities, y, names), evaluate(probabilities, y, names)
        for metric in covered:
            low, high = found[metric]
            assert low < reached[metric] < high
            covered[metric] += low <= truth[metric] <= high
    assert min(covered.values()) >= 180


def test_where_there_is_no_mistake_no_row_and_one_class() -> None:
    y = np.array([0] * 10 + [1] * 5)
    found = metric_intervals(np.eye(2)[y], y, NAMES[:2])
    assert found["auc"] == pytest.approx(wilson(5, 5)) and found["auc"][0] < 0.6
    assert area_interval(np.zeros(9), 4)[0] == 0.0
    probabilities, y = scores_of(3, 40, np.random.default_rng(1))
    found = metric_intervals(probabilities, np.minimum(y, 1), NAMES)
    assert found["recall_per_class"]["c"] is None and found["auc"] is not None
    assert metric_intervals(probabilities, np.zeros(40, dtype=int), NAMES)["auc"] is None


def test_an_interval_of_one_draw_is_wider_than_that_of_their_mean() -> None:
    generator = np.random.default_rng(2)
    y = generator.integers(2, size=300)
    scores = [generator.gumbel(size=(300, 2)) + generator.uniform(0, 3) * np.eye(2)[y] for _ in range(12)]
    drawn = [np.exp(each) / np.exp(each).sum(axis=1, keepdims=True) for each in scores]  # models of different worth
    mean, one = drawn_intervals(drawn, y, NAMES[:2]), drawn_intervals(drawn, y, NAMES[:2], one=True)
    for metric in ("accuracy", "auc"):
        assert one[metric][0] < mean[metric][0] < mean[metric][1] < one[metric][1]
    assert drawn_intervals(drawn[:1], y, NAMES[:2]) == metric_intervals(drawn[0], y, NAMES[:2])


def test_an_interval_of_a_ratio_covers_that_of_all_parties() -> None:
    """Parties of very different sizes, whose shares differ: 95% of 400 draws cover the ratio of all parties, less a
    little since 30 are few; fewer than 350 by chance in less than one of 10,000. The seed is fixed."""
    generator = np.random.default_rng(1)
    of = np.ceil(generator.lognormal(3, 0.8, size=100_000))
    points = of * np.clip(generator.normal(0.6, 0.15, size=of.size), 0, 1)
    truth, covered = points.sum() / of.sum(), 0
    for _ in range(400):
        drawn = generator.integers(of.size, size=30)
        interval = ratio_interval(points[drawn], of[drawn])
        assert interval is not None and interval[0] < points[drawn].sum() / of[drawn].sum() < interval[1]
        covered += interval[0] <= truth <= interval[1]
    assert covered >= 350
    assert ratio_interval(points[:1], of[:1]) is None
    assert ratio_interval(np.full(5, 3.0), np.full(5, 4.0)) == [0.75, 0.75]


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("metric", ["auc", "accuracy"])
def test_the_mean_of_row_scores_is_the_metric(metric: Metric, ties: bool) -> None:
    probabilities, y = scores_of(2, 500, np.random.default_rng(3))
    risk = np.round(probabilities[:, 1], 1) if ties else probabilities[:, 1]
    probabilities = np.stack([1 - risk, risk], axis=1)
    expected = evaluate(probabilities, y, NAMES[:2])[metric]
    assert row_scores(probabilities, y, metric).mean() == pytest.approx(expected, abs=1e-12)


def test_what_is_compared() -> None:
    cases = [([0, 1, 1], 2), ([1, 1], 2), ([0, 1, 2], 3), ([0, 1], 3)]
    assert [leading_metric(np.array(y), classes) for y, classes in cases] == ["auc"] + ["accuracy"] * 3
