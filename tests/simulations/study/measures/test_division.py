"""How parties differ: sizes, labels and features by hand and beside chance; which kind of difference there is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import bootstrap

from consilium.protocol.errors import DataError
from consilium.simulations.judge import Row
from consilium.simulations.population.partition import deal_by_class
from consilium.simulations.study.measures.between import capped
from consilium.simulations.study.measures.figures import DISTANCES, gini, hellinger, ratio, shares
from consilium.simulations.study.measures.shift import WhichShift, division_rows, shift_of, told_apart, which_shift
from tests.simulations.study.measures.made import made_case, made_rows

SIZES = [30, 8, 50, 4, 16, 90, 25, 12, 40, 6]
LABELS = ("hellinger", "js")


def figures(rows: list[Row], scope: str = "run") -> dict[tuple[str, str], Row]:
    return {(row.name, row.metric): row for row in rows if row.scope == scope}


def run(rows: list[Row]) -> dict[str, float]:
    return {metric: row.value for (_, metric), row in figures(rows).items()}


def test_sizes_classes_and_distances_by_hand() -> None:
    case = made_case(made_rows(SIZES, 3, skew=0.5))
    rows = division_rows(case)
    mine = [case.dataset.y[case.dataset.owner == int(name.removeprefix("site-"))] for name in case.parties]
    sizes, all_y = sorted(map(len, mine)), np.concatenate(mine)
    found, by_party, classes = run(rows), figures(rows, "party"), figures(rows, "class")
    assert (found["parties"], found["rows_median"]) == (len(mine), np.median(sizes))
    assert (found["rows"], found["rows_least"], found["rows_most"]) == (sum(sizes), sizes[0], sizes[-1])
    for index, name in enumerate(case.classes):
        assert classes[name, "share"].value == pytest.approx((all_y == index).mean())
        assert classes[name, "parties"].value == sum((y == index).any() for y in mine)
    pooled = shares(np.bincount(all_y, minlength=3))
    each = [float(hellinger(shares(np.bincount(y, minlength=3)), pooled)) for y in mine]
    assert [by_party[name, "hellinger"].value for name in case.parties] == pytest.approx(each)
    assert found["hellinger_mean"] == pytest.approx(np.mean(each))
    assert found["hellinger_p90"] == pytest.approx(np.percentile(each, 90))


def test_labels_by_lot_are_within_the_floor_and_skewed_ones_above() -> None:
    """95 % each, of 20 divisions: fewer than 14 within has probability below 1e-4."""
    within = dict.fromkeys(LABELS, 0)
    for seed in range(20):
        found = figures(division_rows(made_case(made_rows(SIZES, 3, seed=seed), seed=seed)))
        for name in LABELS:
            floor = found["", f"{name}_mean_floor"]
            assert floor.low is not None and floor.high is not None
            within[name] += floor.low <= found["", f"{name}_mean"].value <= floor.high
    assert min(within.values()) >= 14
    found = figures(division_rows(made_case(made_rows([3 * size for size in SIZES], 3, skew=0.6))))
    for name in LABELS:
        high = found["", f"{name}_mean_floor"].high
        assert high is not None and found["", f"{name}_mean"].value > high


def test_shifted_parties_are_told_apart() -> None:
    found = figures(division_rows(made_case(made_rows(SIZES, far=1.0))))
    low = found["", "c2st_auc_mean"].low
    assert low is not None and low > 0.5


@pytest.mark.parametrize(("apart", "low", "high"), [(0.0, 0.42, 0.58), (1.0, 0.7, 0.82), (9.0, 0.999, 1.0)])
def test_a_classifier_tells_shifted_rows(apart: float, low: float, high: float) -> None:
    """A shift by d along one axis has area Phi(d / sqrt 2): .5, .760, 1."""
    generator = np.random.default_rng(0)
    x, own = generator.normal(size=(900, 3)), np.arange(900) < 300
    x[own, 0] += apart
    assert low <= told_apart(x, own, np.arange(900), generator) <= high


def test_rows_of_one_patient_do_not_give_it_away() -> None:
    """30 patients with 30 equal rows each: with each patient in one fold there is nothing to tell."""
    generator = np.random.default_rng(0)
    x = np.repeat(generator.normal(size=(30, 40)), 30, axis=0)
    own, patient = np.arange(900) < 300, np.repeat(np.arange(30), 30)
    assert told_apart(x, own, np.arange(900), generator) > 0.9
    assert told_apart(x, own, patient, generator) < 0.75


@pytest.mark.parametrize("values", [[0, 0], [2, 2, 2], [0, 0, 7], [3, 1, 4, 1, 5]])
def test_gini_is_the_sum_over_all_pairs(values: list[int]) -> None:
    sizes = np.array(values)
    differences = np.abs(sizes[:, None] - sizes[None, :]).sum()
    assert gini(sizes) == pytest.approx(differences / max(2 * (len(sizes) - 1) * sizes.sum(), 1))


DRAWN = shares(np.random.default_rng(0).integers(0, 9, size=(12, 5)))
COUNTS = st.lists(st.integers(0, 50), min_size=3, max_size=3).filter(any)


@pytest.mark.parametrize("name", DISTANCES)
@given(first=COUNTS, second=COUNTS)
def test_a_distance(name: str, first: list[int], second: list[int]) -> None:
    distance, p, q = DISTANCES[name], shares(np.array(first)), shares(np.array(second))
    assert float(distance(p, p)) == 0.0
    assert float(distance(p, q)) == pytest.approx(float(distance(q, p)), abs=1e-12)
    assert 0 <= float(distance(p, q)) <= 1 + 1e-12


def test_a_ratio_is_scipys_bootstrap_of_it() -> None:
    generator = np.random.default_rng(0)
    points, of = generator.normal(1, 1, 40), generator.integers(1, 50, 40).astype(float)

    def statistic(a: np.ndarray, b: np.ndarray, axis: int) -> np.ndarray:
        return a.sum(axis=axis) / b.sum(axis=axis)

    scipys = bootstrap((points, of), statistic, paired=True, method="percentile", n_resamples=20_000, rng=1)
    value, low, high = ratio(points, of, generator)
    assert value == pytest.approx(points.sum() / of.sum())
    width = scipys.confidence_interval.high - scipys.confidence_interval.low
    assert (low, high) == pytest.approx(tuple(scipys.confidence_interval), abs=0.1 * width)


OWNERS, EACH = 20, 80
Parts = dict[str, Any]


def by_lot(seed: int = 0, owners: int = OWNERS, each: int = EACH) -> Parts:
    """Six columns, two of which tell the label; owners differ in nothing."""
    generator, rows = np.random.default_rng(seed), owners * each
    x = generator.normal(size=(rows, 6))
    x[:, 4] = generator.random(rows) < 0.4
    x[:, 5] = np.exp(x[:, 5])
    y = (generator.random(rows) < 1 / (1 + np.exp(-2 * x[:, 0] - 1.5 * x[:, 1]))).astype(int)
    return {"x": x, "y": y, "owners": np.repeat(np.arange(owners), each)}


def label(parts: Parts, generator: np.random.Generator) -> Parts:
    stays = generator.random(len(parts["y"])) < np.where(parts["y"] == parts["owners"] % 2, 0.9, 0.4)
    return {name: values[stays] for name, values in parts.items()}


def covariate(parts: Parts, generator: np.random.Generator) -> Parts:
    stays = generator.random(len(parts["y"])) < np.where((parts["x"][:, 2] > 0) == parts["owners"] % 2, 0.9, 0.4)
    return {name: values[stays] for name, values in parts.items()}


def concept(parts: Parts, generator: np.random.Generator) -> Parts:
    return parts | {"y": np.where(parts["owners"] < 6, 1 - parts["y"], parts["y"])}


def coefficient(parts: Parts, generator: np.random.Generator) -> Parts:
    """One feature means the opposite at some owners."""
    x = parts["x"]
    along = 2 * x[:, 0] + np.where(parts["owners"] < 8, -1.5, 1.5) * x[:, 1]
    return parts | {"y": (generator.random(len(x)) < 1 / (1 + np.exp(-along))).astype(int)}


def quantity(parts: Parts, generator: np.random.Generator) -> Parts:
    stays = generator.random(len(parts["y"])) < (1 + parts["owners"]) / OWNERS
    return {name: values[stays] for name, values in parts.items()}


PLANTED = {
    label: "label", covariate: "covariate", concept: "concept", coefficient: "concept", quantity: "quantity",
}  # fmt: skip


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_one_kind_is_named_and_no_other(plant: Any) -> None:
    """With other seeds another kind is named besides in one case of forty, as `ERROR` says."""
    found = which_shift(**plant(by_lot(), np.random.default_rng(1)))
    assert found.named == (PLANTED[plant],)
    part = next(part for part in found.parts if part.named)
    assert part.strength > part.floor and part.low <= part.strength <= part.high
    parts = by_lot()
    parts["x"][parts["owners"] < 5, 3] = np.nan  # a column that some owners have no value of is none that is judged
    assert "concept" not in which_shift(**parts).named


def test_nothing_is_named_where_rows_are_dealt_by_lot() -> None:
    """4 or more of 24 with probability .003 where `ERROR` holds."""
    alarms = [which_shift(**by_lot(seed, 10, 40), seed=seed).named for seed in range(24)]
    assert sum(named != () for named in alarms) <= 3


@pytest.mark.parametrize("pathological", [False, True])
def test_label_skew_is_no_shift_of_features_or_of_what_they_mean(pathological: bool) -> None:
    """Dirichlet .1, and owners of a single class."""
    parts = by_lot(3)
    y, owners = parts["y"], np.empty(OWNERS * EACH, dtype=np.int64)
    if pathological:
        owners[np.argsort(y, kind="stable")] = parts["owners"]
    else:
        for owner, rows in enumerate(deal_by_class(y, OWNERS, 0.1, 0.0, 0)):
            owners[rows] = owner
    found = which_shift(parts["x"], y, owners)
    assert "label" in found.named and not {"covariate", "concept"} & {*found.named}


def test_kinds_that_come_together_are_both_named() -> None:
    generator = np.random.default_rng(1)
    assert {"covariate", "concept"} <= {*which_shift(**concept(covariate(by_lot(), generator), generator)).named}


def test_classes_may_be_many_and_names_anything() -> None:
    parts = by_lot(1)
    names = np.array(["low", "middle", "high"])
    y = names[np.digitize(parts["x"][:, 0] + parts["x"][:, 1] + np.random.default_rng(0).normal(size=1600), [-1, 1])]
    owners = np.array([f"site {owner}" for owner in parts["owners"]])
    assert which_shift(parts["x"], y, owners).named == ()
    swapped = np.where(parts["owners"] < 6, np.where(y == "low", "high", np.where(y == "high", "low", y)), y)
    assert which_shift(parts["x"], swapped, owners).named == ("concept",)
    assert which_shift(parts["x"], np.full(1600, "all"), owners).named == ()


def test_rows_of_one_patient_count_once() -> None:
    parts = by_lot(0, 10, 20)
    again = np.repeat(np.arange(200), 10)
    many = {name: values[again] for name, values in parts.items()}
    assert which_shift(**many).named != ()
    assert which_shift(**many, unit=again).named == ()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": np.zeros(3)}, "with 3 labels"),
        ({"owners": np.zeros(800)}, "rows of 1 owner"),
        ({"x": np.full((800, 2), np.inf)}, "infinite"),
    ],
)
def test_what_does_not_fit(change: Parts, message: str) -> None:
    with pytest.raises(DataError, match=message):
        which_shift(**(by_lot(0, 10, 80) | change))


def test_a_study_measures_it_of_all_rows_of_the_parties() -> None:
    case = made_case(made_rows([60] * 12, skew=0.6, seed=1))
    found: WhichShift = shift_of(case)
    assert "label" in found.named and found.rows == 60 * found.owners
    rows = {row.metric: row.value for row in division_rows(case) if row.scope == "run"}
    part = next(part for part in found.parts if part.kind == "label")
    told = [rows[f"shift_label{end}"] for end in ("", "_floor", "_p", "_named")]
    assert told == [part.strength, part.floor, part.p, 1]


def test_of_many_rows_each_owner_gives_as_many_as_fit() -> None:
    party = np.repeat(np.arange(4), [90, 10, 3, 60])
    taken = capped(party, np.random.default_rng(0), 100)
    assert np.bincount(party[taken]).tolist() == [43, 10, 3, 43]
    assert (np.diff(taken) > 0).all()
