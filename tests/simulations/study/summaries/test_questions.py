"""Paired differences: scipy's test where nothing is known of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
import polars as pl
import pytest
from scipy import stats

from consilium.simulations.metrics import holm
from consilium.simulations.study.summaries.questions import Likeness, MeanContrast, along_axis, compared, questions
from consilium.simulations.study.summaries.view import StudyView, study_view
from tests.simulations.study.made_up import NONE, ONE, MadeUp, Terms, figures

FIVE = {"pate": [0.70, 0.71, 0.69, 0.72, 0.705], "pooled": [0.74, 0.76, 0.75, 0.75, 0.751]}


ALIKE = {"pate": NONE, "pooled": NONE}


def contrasts(frame: pl.DataFrame, metric: str = "auc", reference: str = "pate") -> list[MeanContrast]:
    return compared(study_view(frame, {}), metric, reference)


def test_without_row_scores_it_is_the_paired_t_test_over_seeds() -> None:
    (found,) = contrasts(figures(FIVE, stated=ALIKE))
    steps = np.subtract(FIVE["pooled"], FIVE["pate"])
    assert (found.method, found.seeds, found.over) == ("pooled", 5, "seeds")
    assert found.difference == pytest.approx(steps.mean())
    assert found.p == pytest.approx(stats.ttest_rel(FIVE["pooled"], FIVE["pate"]).pvalue)
    assert (found.low, found.high) == pytest.approx(stats.t.interval(0.95, 4, steps.mean(), stats.sem(steps)))


def test_only_common_seeds_are_paired() -> None:
    found = contrasts(figures({**FIVE, "local": FIVE["pooled"][:3]}))
    assert {contrast.method: contrast.seeds for contrast in found} == {"local": 3, "pooled": 5}


def test_points_of_an_axis_are_compared_for_the_same_method() -> None:
    moved = {name: [value + 0.02 for value in values] for name, values in FIVE.items()}
    parts = [figures(values, axes={"division": name}) for name, values in (("natural", FIVE), ("iid", moved))]
    found = along_axis(study_view(pl.concat(parts), {}), "auc", "division", "natural")
    assert [(each.method, each.point, each.p) for each in found] == [
        (name, ("iid",), None) for name in ("pooled", "pate")
    ]
    assert [each.difference for each in found] == pytest.approx([0.02, 0.02])  # the same at every seed


SEEDS = range(5)
EIGHT: Terms = (8.0, 1e-5, "party", "replace")
RECORD: Terms = (1.0, 1e-5, "record", "replace")


def closed(values: list[float]) -> list[float]:
    """Holm's corrected p as the closed test of Bonferroni's: the largest over all sets of hypotheses with this one."""
    every = range(len(values))
    sets = [chosen for size in range(1, len(values) + 1) for chosen in combinations(every, size)]
    return [
        min(1.0, max(len(chosen) * min(values[each] for each in chosen) for chosen in sets if index in chosen))
        for index in every
    ]


@pytest.mark.parametrize("seed", range(8))
def test_holm_is_the_closed_test(seed: int) -> None:
    generator = np.random.default_rng(seed)
    values = (generator.random(generator.integers(1, 8)) ** 3).tolist()
    assert holm(values) == pytest.approx(closed(values))


def values(level: float, luck: int = 0) -> list[float]:
    """Of five seeds, near a level."""
    return (level + np.random.default_rng(luck).normal(0, 0.002, len(SEEDS))).tolist()


def at_point(each: Mapping[str, Sequence[float]], stated: Mapping[str, Terms], **axes: str) -> pl.DataFrame:
    """AUC of methods at a point of the axes, and student's epsilon there."""
    auc = figures(each, axes=axes, stated=stated)
    epsilon = stated.get("pate", NONE)[0]
    if epsilon is None or "pate" not in each:
        return auc
    costs = figures({"pate": [epsilon] * len(each["pate"])}, metric="epsilon", axes=axes, stated=stated)
    return pl.concat([auc, costs])


def view_of(*parts: pl.DataFrame, order: Mapping[str, Sequence[str]] | None = None) -> StudyView:
    return study_view(pl.concat(parts), order or {})


def asked(view: StudyView, axis: str, method: str) -> list[MeanContrast]:
    """Along an axis for a method; with "" of the method against the reference."""
    return [each for each in questions(view) if (each.axis, each.method) == (axis, method)]


TWO = {"pate": values(0.8), "fedavg": values(0.7, 1)}


@pytest.mark.parametrize(
    ("other", "standing"),
    [
        (ONE, Likeness.TESTED),
        ((1.0004, 1e-5, "party", "replace"), Likeness.TESTED),  # noise that was calibrated to the same
        ((1.01, 1e-5, "party", "replace"), Likeness.NOT_ALIKE),
        ((1.0, 1e-6, "party", "replace"), Likeness.NOT_ALIKE),
        (RECORD, Likeness.NOT_ALIKE),
        ((1.0, 1e-5, "party", "add_or_remove"), Likeness.NOT_ALIKE),
        (NONE, Likeness.NOT_ALIKE),
    ],
    ids=str,
)
def test_only_equal_guarantees_are_tested(other: Terms, standing: Likeness) -> None:
    """The difference is the same, and clear, in all cases; what is not tested has no p, and no star anywhere."""
    view = view_of(at_point(TWO, {"pate": ONE, "fedavg": other}))
    (contrast,) = asked(view, "", "fedavg")
    assert contrast.standing is standing and contrast.difference == pytest.approx(-0.1, abs=0.01)
    assert contrast.low is not None and contrast.high is not None and contrast.high < 0
    tested = standing is Likeness.TESTED
    assert (contrast.p is not None, contrast.p_holm is not None, contrast.significant) == (tested, tested, tested)
    assert contrast.comparisons == tested


def mechanisms() -> list[pl.DataFrame]:
    """The plurality, which no mechanism changes, and student, under three mechanisms and two divisions."""
    return [
        at_point(
            {
                "pate": values(0.75 + add + 0.01 * luck, 20 + 2 * luck + place),
                "plurality": values(0.78 + add, 10 + place),
            },
            {"pate": ONE},
            division=division,
            mechanism=mechanism,
        )
        for luck, mechanism in enumerate(("lnmax", "gnmax", "histogram"))
        for place, (division, add) in enumerate({"natural": 0.0, "iid": 0.02}.items())
    ]


def test_what_a_mechanism_does_not_change_is_compared_once() -> None:
    view = view_of(*mechanisms(), order={"mechanism": ["lnmax", "gnmax", "histogram"]})
    plurality, pate = (asked(view, "division", name) for name in ("plurality", "pate"))
    assert [each.standing for each in plurality] == [Likeness.TESTED, *[Likeness.REPEATED] * 2]
    assert [each.comparisons for each in (*plurality, *pate)] == [1, 1, 1, 3, 3, 3]
    assert plurality[0].p_holm == plurality[0].p and all(each.p is None for each in plurality[1:])
    assert plurality[0].family == "other points of “division” in place of natural, plurality (1 comparison)"
    assert pate[0].family.endswith("student (3 comparisons)")


def test_along_epsilon_nothing_is_tested() -> None:
    parts = [
        at_point({"pate": values(level, index)}, {"pate": own}, epsilon=str(own[0]))
        for index, (level, own) in enumerate(((0.7, ONE), (0.8, EIGHT)))
    ]
    (contrast,) = asked(view_of(*parts), "epsilon", "pate")
    assert (contrast.standing, contrast.p) == (Likeness.NOT_ALIKE, None)
    assert contrast.low is not None and contrast.low > 0.05


def test_each_family_is_corrected_by_itself() -> None:
    families: dict[str, list[MeanContrast]] = {}
    for each in questions(study_view(MadeUp(parties=3).frame(), {})):
        families.setdefault(each.family, []).append(each)
    for family in families.values():
        tested = [each for each in family if each.p is not None]
        assert [each.p_holm for each in tested] == pytest.approx(holm([each.p or 0.0 for each in tested]))
        assert {each.comparisons for each in family} == {len(tested)}
    along = "other points of “division” in place of natural, "
    assert next(iter(families)) == "methods of the same guarantee against student (4 comparisons)"
    assert {name.removeprefix(along).removesuffix(" (3 comparisons)") for name in list(families)[1:]} == {
        "one party alone", "pooled", "plurality", "FedAvg rounds=20", "noisy average", "student"
    }  # fmt: skip
