"""What a division is: by hand on small ones, beside what chance alone gives."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from consilium.simulations.judge import Row
from consilium.simulations.study.measures.division import division_rows
from consilium.simulations.study.measures.figures import hellinger, shares
from tests.simulations.study.measures.made import made_case, made_rows

SIZES = [30, 8, 50, 4, 16, 90, 25, 12, 40, 6]
LABELS = ("hellinger", "js")


def figures(rows: list[Row], scope: str = "run") -> dict[tuple[str, str], Row]:
    return {(row.name, row.metric): row for row in rows if row.scope == scope}


def run(rows: list[Row]) -> dict[str, float]:
    return {metric: row.value for (_, metric), row in figures(rows).items()}


def test_sizes_and_classes_by_hand() -> None:
    case = made_case(made_rows(SIZES, 3))
    names = {int(name.removeprefix("site-")) for name in case.parties}
    sizes = sorted(SIZES[index] for index in names)
    found = run(division_rows(case))
    assert found["parties"] == len(names)
    assert (found["rows"], found["rows_least"], found["rows_most"]) == (sum(sizes), sizes[0], sizes[-1])
    assert found["rows_median"] == np.median(sizes)
    classes = figures(division_rows(case), "class")
    mine = np.isin(case.dataset.owner, list(names))
    for index, name in enumerate(case.classes):
        assert classes[name, "share"].value == pytest.approx((case.dataset.y[mine] == index).mean())
        having = {owner for owner in names if (case.dataset.y[case.dataset.owner == owner] == index).any()}
        assert classes[name, "parties"].value == len(having)


def test_distances_by_hand() -> None:
    case = made_case(made_rows(SIZES, 3, skew=0.5))
    rows = division_rows(case)
    mine = [case.dataset.y[case.dataset.owner == int(name.removeprefix("site-"))] for name in case.parties]
    pooled = shares(np.bincount(np.concatenate(mine), minlength=3))
    each = [float(hellinger(shares(np.bincount(y, minlength=3)), pooled)) for y in mine]
    found, by_party = run(rows), figures(rows, "party")
    assert [by_party[name, "hellinger"].value for name in case.parties] == pytest.approx(each)
    assert found["hellinger_mean"] == pytest.approx(np.mean(each))
    assert found["hellinger_p90"] == pytest.approx(np.percentile(each, 90))
    assert found["hellinger_weighted"] == pytest.approx(np.average(each, weights=[len(y) for y in mine]))
    pairs = [
        float(hellinger(shares(np.bincount(a, minlength=3)), shares(np.bincount(b, minlength=3))))
        for at, a in enumerate(mine)
        for b in mine[:at]
    ]
    assert found["hellinger_pairwise"] == pytest.approx(np.mean(pairs))


@pytest.mark.slow
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
    for name in (*(f"{label}_mean" for label in LABELS), "hellinger_weighted", "hellinger_pairwise"):
        high = found["", f"{name}_floor"].high
        assert high is not None and found["", name].value > high


def test_the_floor_is_above_zero_and_falls_with_more_rows() -> None:
    small, large = (run(division_rows(made_case(made_rows([size] * 10)))) for size in (10, 200))
    assert small["hellinger_mean_floor"] > 3 * large["hellinger_mean_floor"] > 0


def test_two_parties_and_a_party_with_one_class() -> None:
    rows = made_rows([20, 20, 20])
    y = np.where(rows.owner == 0, 0, 1)
    case = made_case(replace(rows, y=y, x=rows.x), data={"public_share": 0.3})
    found = run(division_rows(case))
    assert found["one_class_parties"] == 1.0
    assert found["parties"] == 2
