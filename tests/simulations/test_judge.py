"""How methods are judged: against scikit-learn, on made-up probabilities and labels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, brier_score_loss, recall_score, roc_auc_score

from consilium.protocol.schema import Schema
from consilium.simulations.datasets.base import Dataset
from consilium.simulations.divide import Case
from consilium.simulations.judge import Row, judged, judged_row_scores
from consilium.simulations.methods.base import TEST_DRAWS, Predicted
from consilium.simulations.population.partition import Partition
from tests.federation import FEATURES, make_config
from tests.simulations.methods.cases import few

TEST = 400
HOME = {"a": 40, "b": 1, "d": 25, "e": 30}
"""Rows that each party holds out; those of d are of one class, and party c has none."""
PARTIES = ("a", "b", "c", "d", "e")


def made_up(classes: int) -> Case:
    """A case of which nothing is used but its labels, and where they are."""
    generator = np.random.default_rng(classes)
    count = TEST + sum(HOME.values())
    names = ("well", "ill") if classes == 2 else tuple(f"kind {index}" for index in range(classes))
    x, y = generator.normal(size=(count, 3)), generator.integers(classes, size=count)
    ends = TEST + np.cumsum([0, *HOME.values()])
    home = {name: np.arange(start, end) for name, start, end in zip(HOME, ends[:-1], ends[1:], strict=True)}
    y[home["d"]] = 1
    data = Dataset(
        name="made up",
        title="",
        attribution="",
        features=FEATURES,
        classes=names,
        owner_label="ward",
        x=x.astype(np.float32),
        y=y,
        owner=np.zeros(count, dtype=np.int64),
    )
    parties = dict.fromkeys(PARTIES, np.zeros(0, dtype=np.int64))
    partition = Partition(parties, np.zeros(0, dtype=np.int64), np.arange(TEST))
    config = make_config(rows=Schema.from_public_rows(FEATURES, names, x))
    return Case(few(), 0, config, data, partition, home)


def guesses(case: Case, seed: int = 0) -> np.ndarray:
    """Probabilities of all rows, which know something: float64 (rows, classes)."""
    generator = np.random.default_rng(seed)
    scores = generator.normal(size=(len(case.dataset.y), len(case.classes)))
    scores[np.arange(len(scores)), case.dataset.y] += 1
    return np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)


def brier(y: np.ndarray, found: np.ndarray) -> float:
    if found.shape[1] == 2:
        return brier_score_loss(y, found[:, 1])
    return brier_score_loss(y, found, labels=list(range(found.shape[1])), scale_by_half=False)


def auc(y: np.ndarray, found: np.ndarray) -> float:
    return roc_auc_score(y, found[:, 1]) if found.shape[1] == 2 else roc_auc_score(y, found, multi_class="ovr")


def values(rows: list[Row], scope: str, name: str = "") -> dict[str, float]:
    return {row.metric: row.value for row in rows if (row.scope, row.name) == (scope, name)}


@pytest.mark.parametrize("classes", [2, 3])
def test_metrics_on_test_rows_are_scikit_learns(classes: int) -> None:
    case = made_up(classes)
    y, found = case.test_y, guesses(case)[:TEST]
    rows = judged("pooled", case, Predicted(test=found))
    top = found.argmax(axis=1)
    expected = {"accuracy": accuracy_score(y, top), "auc": auc(y, found), "brier": brier(y, found)}
    assert values(rows, "run") == pytest.approx(expected, abs=1e-12)
    for label, recall in enumerate(recall_score(y, top, average=None)):
        assert values(rows, "class", case.classes[label]) == pytest.approx(
            {"recall": recall, "rows": (y == label).sum()}, abs=1e-12
        )
    assert all(row.low is not None and row.low < row.value < (row.high or 0) for row in rows if row.metric in expected)
    assert {row.method for row in rows} == {"pooled"}


@pytest.mark.parametrize("classes", [2, 3])
def test_no_interval_ends_where_a_brier_score_cannot_be(classes: int) -> None:
    """Risks that are right but for one row, and that are wrong but for one, in each party and on the test rows."""
    case = made_up(classes)
    y, most = case.dataset.y, 1.0 if classes == 2 else 2.0
    for wrong in (np.arange(len(y)) % 20 == 1, np.arange(len(y)) % 20 != 1):
        found = np.eye(classes)[(y + wrong) % classes]
        rows = judged("pate", case, Predicted(test=found[:TEST], home=found[TEST:]))
        scores = [row for row in rows if row.metric.endswith("brier")]
        assert len(scores) > 2
        for row in scores:
            assert row.low is None or row.high is None or 0 <= row.low <= row.value <= row.high <= most


@pytest.mark.parametrize("classes", [2, 3])
def test_scores_of_units_are_the_figures_to_first_order(classes: int) -> None:
    """They add up to 0, and say what a figure becomes when a unit's rows count a thousandth more."""
    case = made_up(classes)
    y, found, patient = case.test_y, guesses(case)[:TEST], np.arange(len(case.dataset.y)) % 37
    arrays = judged_row_scores(replace(case, dataset=replace(case.dataset, patient=patient)), Predicted(test=found))
    assert arrays["unit"] == "patient" and arrays["ids"] == list(range(37))
    assert arrays["rows"] == np.bincount(patient[:TEST]).tolist()
    of_metric = {
        "accuracy": lambda weights: accuracy_score(y, found.argmax(axis=1), sample_weight=weights),
        "auc": lambda weights: roc_auc_score(
            y, found[:, 1] if classes == 2 else found, multi_class="ovr", sample_weight=weights
        ),
    }
    for metric, value in of_metric.items():
        scores = np.array(arrays[metric])
        assert scores.sum() == pytest.approx(0, abs=1e-6)
        for unit in (0, 20, 36):
            more = value(1 + 1e-3 * (patient[:TEST] == unit)) - value(np.ones(TEST))
            assert scores[unit] == pytest.approx(more / 1e-3, rel=0.02, abs=2e-5)


def test_units_are_owners_where_whole_owners_are_held_out() -> None:
    case = made_up(2)
    owner = np.where(np.arange(len(case.dataset.y)) < TEST, np.arange(len(case.dataset.y)) % 7, 9)

    def unit(owner: np.ndarray) -> tuple[str, int]:
        arrays = judged_row_scores(replace(case, dataset=replace(case.dataset, owner=owner)), Predicted(test=found))
        return arrays["unit"], len(arrays["ids"])

    found = guesses(case)[:TEST]
    assert unit(owner) == ("ward", 7)
    assert unit(np.where(owner == 9, 3, owner)) == ("row", TEST)  # a party has rows of one of them
    assert unit(np.where(owner == 9, 9, 0)) == ("row", TEST)  # of a single owner nothing is known
    assert unit(np.where(owner == 9, 9, owner % 2)) == ("row", TEST)  # nor of two
    assert unit(np.where(owner == 9, 9, (owner == 1) + 2 * (owner == 2))) == ("row", TEST)  # nor where one has most


def test_of_several_draws_units_have_the_mean_and_of_no_test_rows_there_is_nothing() -> None:
    case = made_up(2)
    drawn = np.stack([guesses(case, seed)[:TEST] for seed in range(3)]).astype(np.float32)
    several = judged_row_scores(case, Predicted(test=drawn[0], arrays={TEST_DRAWS: drawn}))
    each = [judged_row_scores(case, Predicted(test=one.astype(np.float64))) for one in drawn]
    for metric in ("accuracy", "auc", "brier"):
        assert several[metric] == pytest.approx(np.mean([one[metric] for one in each], axis=0), abs=1e-7)
    assert judged_row_scores(case, Predicted(home=guesses(case)[TEST:])) == {}


@pytest.mark.parametrize("classes", [2, 3])
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
        expected["brier"] = (
            np.mean([brier(y[[at]], own[[at]]) for at in range(len(y))]) if classes == 2 else brier(y, own)
        )
        if len(np.unique(y)) == classes:
            expected["auc"] = auc(y, own)
            both = (y == 0).sum() * (y == 1).sum()
            in_order, pairs = in_order + expected["auc"] * both, pairs + both
        assert values(rows, "party", party) == pytest.approx(expected, abs=1e-12)
    y, top = case.home_y, found.argmax(axis=1)
    whole = {"home_rows": len(y), "home_accuracy": accuracy_score(y, top), "home_brier": brier(y, found)}
    if classes == 2:
        whole["home_auc"] = in_order / pairs
    assert values(rows, "run") == pytest.approx(whole, abs=1e-12)
    one_class = {row.metric: (row.low, row.high) for row in rows if row.name == "d"}
    assert "auc" not in one_class and None not in one_class["accuracy"]
    assert next(row for row in rows if (row.name, row.metric) == ("b", "brier")).low is None  # of a single row


def test_of_several_draws_the_mean_is_judged_and_their_spread_is_in_the_interval() -> None:
    case = made_up(2)
    y, drawn = case.test_y, np.stack([guesses(case, seed)[:TEST] for seed in range(6)])
    drawn[3:] = drawn[3:, :, ::-1]  # three of them are wrong where they would have been right
    predicted = Predicted(test=drawn[0], arrays={TEST_DRAWS: drawn.astype(np.float32)})
    several = {row.metric: row for row in judged("noisy_average", case, predicted) if row.scope == "run"}
    one = {row.metric: row for row in judged("noisy_average", case, Predicted(test=drawn[0])) if row.scope == "run"}
    expected = {
        "accuracy": np.mean([accuracy_score(y, each.argmax(axis=1)) for each in drawn]),
        "auc": np.mean([auc(y, each) for each in drawn]),
        "brier": np.mean([brier(y, each) for each in drawn]),
    }
    assert {name: several[name].value for name in expected} == pytest.approx(expected, abs=1e-6)
    for name in expected:
        assert width(several[name]) > 2 * width(one[name])


def width(row: Row) -> float:
    assert row.low is not None and row.high is not None
    return row.high - row.low


def test_nothing_is_said_of_what_is_absent_and_no_auc_of_one_class() -> None:
    case = made_up(2)
    assert judged("noisy_average", case, Predicted(absent="teachers are not linear")) == []
    figures = {"epsilon": float("inf"), "asked": 9.0}
    assert values(judged("pate", case, Predicted(figures=figures)), "run") == figures
    case.dataset.y[:TEST] = 1
    metrics = {row.metric for row in judged("pooled", case, Predicted(test=guesses(case)[:TEST])) if row.scope == "run"}
    assert metrics == {"accuracy", "brier"}
