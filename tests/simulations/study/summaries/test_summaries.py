"""Results in few numbers: means over seeds, paired differences, and sentences that say what the numbers say."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations, product

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from consilium.simulations.metrics import holm
from consilium.simulations.study.summaries.questions import MeanContrast, answers_of, compared, questions
from consilium.simulations.study.summaries.view import METRICS, Mean, StudyView, metric, study_view
from tests.simulations.study.made_up import DIVISIONS, METHODS, NONE, ONE, MadeUp, Terms, figures

AT = {"division": list(DIVISIONS)}


def mean_of(values: Sequence[float], half: float | None = None, name: str = "joy") -> Mean:
    """Of a metric without ends, if no other is named."""
    return study_view(figures({"pate": values}, half, name), {}).means[(), "pate", name]


@given(
    st.sampled_from([*METRICS, "home_auc", "hellinger_mean_floor", "test_consensus"]),
    st.lists(st.floats(0, 1), min_size=1, max_size=6),
    st.lists(st.floats(0, 1), min_size=6, max_size=6),
    st.sampled_from([None, 0.001, 0.3, 2.0]),
)
def test_no_interval_ends_where_the_figure_cannot_be(
    name: str, first: list[float], second: list[float], half: float | None
) -> None:
    """Values from end to end of the metric, its means and its differences; two seeds have none at all."""
    low, high = metric(name).within
    least, most = (-3.0 if math.isinf(low) else low), (40.0 if math.isinf(high) else high)
    values = {
        "pate": [least + share * (most - least) for share in first],
        "pooled": [least + share * (most - least) for share in second[: len(first)]],
    }
    view = study_view(figures(values, half, name), {})
    for known in view.means.values():
        assert known.ends is None or low <= known.ends[0] <= known.ends[1] <= high
        assert len(first) != 2 or known.ends is None
    (difference,) = compared(view, name, "pate")
    if difference.low is not None and difference.high is not None:
        assert len(first) > 2 and low - high <= difference.low <= difference.high <= high - low
        assert (difference.low, difference.high) != (low - high, high - low)


@pytest.mark.parametrize(
    ("values", "half", "over"),
    [
        ([0.5, 0.501, 0.499], 0.05, "seeds and rows"),
        ([0.5, 0.51, 0.53], None, "seeds"),
        (np.linspace(0.2, 0.4, 12).tolist(), None, "seeds"),
        ([0.5, 0.501], 0.05, "none"),
        ([0.5], 0.05, "rows"),
        ([0.5], None, "none"),
    ],
)
def test_the_interval_is_students_and_what_seeds_may_share_is_added(
    values: list[float], half: float | None, over: str
) -> None:
    known = mean_of(values, half)
    assert (known.over, known.seeds, known.mean) == (over, len(values), pytest.approx(np.mean(values)))
    if over == "none":
        assert known.ends is None
        return
    own = stats.t.ppf(0.975, len(values) - 1) * stats.sem(values) if len(values) > 1 else 0.0
    both = math.hypot(own, half or 0.0)
    assert known.ends == pytest.approx((np.mean(values) - both, np.mean(values) + both))


def test_every_figure_counts_once_and_what_is_no_number_not() -> None:
    once = figures({"division": [0.1, 0.2]}, metric="hellinger_mean")
    twice = pl.concat([once, once.with_columns(cell=pl.lit("other"))])
    assert study_view(twice, {}).means == study_view(once, {}).means
    assert mean_of([0.5, math.nan]).seeds == 1
    assert mean_of([math.inf, math.inf], None, "epsilon") == (math.inf, None, None, 2, "none")


# -- differences ------------------------------------------------------------------------------------------------------

FIVE = {"pate": [0.70, 0.71, 0.69, 0.72, 0.705], "pooled": [0.74, 0.76, 0.75, 0.75, 0.751]}


def test_without_row_scores_it_is_the_paired_t_test_over_common_seeds() -> None:
    frame = figures({**FIVE, "local": FIVE["pooled"][:3]}, stated={"pate": NONE})
    local, found = compared(study_view(frame, {}), "auc", "pate")
    steps = np.subtract(FIVE["pooled"], FIVE["pate"])
    assert (found.method, found.seeds, found.over, local.seeds) == ("pooled", 5, "seeds", 3)
    assert found.difference == pytest.approx(steps.mean())
    assert found.p == pytest.approx(stats.ttest_rel(FIVE["pooled"], FIVE["pate"]).pvalue)
    assert (found.low, found.high) == pytest.approx(stats.t.interval(0.95, 4, steps.mean(), stats.sem(steps)))


@pytest.mark.parametrize("seed", range(8))
def test_holm_is_the_closed_test_of_bonferronis(seed: int) -> None:
    """The largest over all sets of hypotheses with this one."""
    generator = np.random.default_rng(seed)
    values = (generator.random(generator.integers(1, 8)) ** 3).tolist()
    every = range(len(values))
    sets = [chosen for size in range(1, len(values) + 1) for chosen in combinations(every, size)]
    closed = [max(len(some) * min(values[each] for each in some) for some in sets if index in some) for index in every]
    assert holm(values) == pytest.approx(np.minimum(closed, 1))


def values(level: float, luck: int = 0) -> list[float]:
    """Of five seeds, near a level."""
    return (level + np.random.default_rng(luck).normal(0, 0.002, 5)).tolist()


def at_point(each: Mapping[str, Sequence[float]], stated: Mapping[str, Terms], **axes: str) -> pl.DataFrame:
    """AUC of methods at a point of the axes, and student's epsilon there."""
    costs = {"pate": [stated["pate"][0] or 0.0] * len(each["pate"])}
    epsilon = figures(costs, metric="epsilon", axes=axes, stated=stated)
    return pl.concat([figures(each, axes=axes, stated=stated), epsilon])


def asked(view: StudyView, axis: str, method: str) -> list[MeanContrast]:
    """Along an axis for a method; with "" of the method against the reference."""
    return [each for each in questions(view) if (each.axis, each.method) == (axis, method)]


@pytest.mark.parametrize(
    ("other", "tested"),
    [
        (ONE, True),
        ((1.0004, 1e-5, "party", "replace"), True),  # noise that was calibrated to the same
        ((1.01, 1e-5, "party", "replace"), False),
        ((1.0, 1e-6, "party", "replace"), False),
        ((1.0, 1e-5, "record", "replace"), False),
        ((1.0, 1e-5, "party", "add_or_remove"), False),
        (NONE, False),
    ],
    ids=str,
)
def test_only_equal_guarantees_are_tested(other: Terms, tested: bool) -> None:
    """The difference is the same, and clear, in all cases; what is not tested has no p, and no star anywhere."""
    two = {"pate": values(0.8), "fedavg": values(0.7, 1)}
    view = study_view(at_point(two, {"pate": ONE, "fedavg": other}), {})
    (contrast,) = asked(view, "", "fedavg")
    assert contrast.alike is tested and contrast.difference == pytest.approx(-0.1, abs=0.01)
    assert contrast.low is not None and contrast.high is not None and contrast.high < 0
    assert (contrast.p is not None, contrast.p_holm is not None, contrast.significant) == (tested, tested, tested)
    assert contrast.comparisons == tested


def test_what_a_mechanism_does_not_change_is_compared_once() -> None:
    """The plurality, which no mechanism changes, and student, under three mechanisms and two divisions."""
    parts = []
    for luck, mechanism in enumerate(("lnmax", "gnmax", "histogram")):
        for place, (division, add) in enumerate({"natural": 0.0, "iid": 0.02}.items()):
            student = values(0.75 + add + 0.01 * luck, 20 + 2 * luck + place)
            both = {"pate": student, "plurality": values(0.78 + add, 10 + place)}
            parts.append(at_point(both, {"pate": ONE}, division=division, mechanism=mechanism))
    view = study_view(pl.concat(parts), {"mechanism": ["lnmax", "gnmax", "histogram"]})
    plurality, pate = (asked(view, "division", name) for name in ("plurality", "pate"))
    assert [each.comparisons for each in (*plurality, *pate)] == [1, 3, 3, 3]
    assert plurality[0].p_holm == plurality[0].p


def test_along_epsilon_nothing_is_tested() -> None:
    eight: Terms = (8.0, 1e-5, "party", "replace")
    parts = [
        at_point({"pate": values(level, index)}, {"pate": own}, epsilon=str(own[0]))
        for index, (level, own) in enumerate(((0.7, ONE), (0.8, eight)))
    ]
    (contrast,) = asked(study_view(pl.concat(parts), {}), "epsilon", "pate")
    assert (contrast.alike, contrast.p) == (False, None)
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


# -- sentences --------------------------------------------------------------------------------------------------------


def answers(frame: pl.DataFrame, order: Mapping[str, Sequence[str]] | None = None) -> list[str]:
    view = study_view(frame, order or (AT if "division" in frame.columns else {}))
    return answers_of(view, questions(view))


@pytest.mark.parametrize("study", range(12))
def test_a_planted_largest_change_is_the_first_sentence(study: int) -> None:
    """A method, with or without a guarantee, at one point changes by .12 to .3 either way; all else by .05 at most."""
    generator = np.random.default_rng([62, study])
    seeds, axes = (2, 3, 5)[study % 3], {**AT, "teachers": ["many", "few"]}
    if study % 2:
        axes.pop("teachers")
    points = list(product(*axes.values()))
    where, method = points[generator.integers(1, len(points))], list(METHODS)[generator.integers(len(METHODS))]
    planted = generator.uniform(0.12, 0.3) * generator.choice([-1, 1])
    parts = []
    for point in points:
        moved = dict.fromkeys(METHODS, 0.0) | ({method: planted} if point == where else {})
        levels = {name: 0.6 + moved[name] + generator.uniform(-0.02, 0.02) for name in METHODS}
        values = {name: (level + generator.normal(0, 0.004, seeds)).tolist() for name, level in levels.items()}
        at = dict(zip(axes, point, strict=True))
        parts += [figures(values, 0.03, axes=at), figures({"pate": [1.0] * seeds}, metric="epsilon", axes=at)]
    view = study_view(pl.concat(parts), axes)
    contrasts = questions(view)
    largest = max((each for each in contrasts if each.axis), key=lambda each: abs(each.difference))
    first = answers_of(view, contrasts)[0]
    assert largest.method == method and first.startswith("The largest change: ")
    # "few in place of many, at iid": of two axes the planted point is changed from, or changed to
    assert all(value in (*largest.point, largest.against) and value in first for value in where)
    sign = "+" if (planted > 0) == (where == largest.point) else "−"
    assert f" AUC, {sign}" in first
    assert ("no interval and no test: 2 seeds are too few" in first) == (seeds == 2)
    assert seeds == 2 or f"significant over {seeds} seeds" in first


def test_a_study_of_partitions_ends_in_five_sentences() -> None:
    told = answers(MadeUp().frame())
    assert len(told) == 5 and not any("nan" in each.lower() or "None" in each for each in told)
    assert told[1].startswith("Of the methods with the guarantee of the student, by AUC, the student did best at ")
    assert told[1].endswith(" of 4 comparisons.")
    assert told[2].startswith("In place of one model of all rows, the student costs from ")
    assert told[2].endswith(" That is AUC, pooled less student, at 4 points; it is not tested.")
    assert told[2].count(" to ") == 3
    assert told[3].startswith("What differs between parties beyond chance, in most seeds: natural and iid and ma")
    assert told[4].startswith("The student serves 9 of 24 parties worse than they serve themselves")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (
            {"noisy_average": [0.7], "pate": [0.8]},
            "at all, from 0.800 to 0.700 AUC, −0.100; no interval and no test: 1",
        ),
        ({"noisy_average": [0.7, 0.6], "pate": [0.8, 0.9]}, "no interval and no test: 2 seeds are too few."),
        ({"noisy_average": [0.7, 0.8, 0.75], "pate": [0.75, 0.74, 0.76]}, "; not significant over 3 seeds."),
        ({"noisy_average": [0.7, 0.71, 0.72], "pate": [0.8, 0.811, 0.819]}, "); significant over 3 seeds."),
        ({"local": [0.7, 0.8, 0.8], "pate": [0.8, 0.9, 0.91]}, "; not tested: the guarantees differ."),
    ],
)
def test_without_an_axis_the_largest_difference_of_methods_is_first(values: dict[str, list[float]], said: str) -> None:
    """Of the same guarantee, where there are two: pooled differs more."""
    if "noisy_average" in values:
        values = values | {"pooled": [0.99] * len(values["pate"])}
    frame = pl.concat([figures(values), figures({"pate": [1.0] * len(values["pate"])}, metric="epsilon")])
    told = answers(frame)
    rival = "noisy average" if "noisy_average" in values else "one party alone"
    assert told[0].startswith(f"The largest difference between methods: {rival} in place of the student, ")
    assert said in told[0]
    assert ("No other method has the guarantee of the student" in told[1]) == ("local" in values)


def test_data_sets_are_not_compared_with_each_other() -> None:
    told = answers(MadeUp(axes={"set": {"a": 0.0, "b": 0.3}}, sets="set").frame())
    assert told[0].startswith("The largest difference between methods: noisy average in place of the student, at ")


def test_points_that_tell_nothing_by_themselves_are_told_with_their_axis() -> None:
    """Two axes have "none" and "skew"; every other cell of a third failed; all seeds differ by as much."""
    axes = {"labels": ["none", "skew"], "student.calibrate": ["false", "true"], "rows": ["none", "skew"]}
    parts = []
    for point in product(*axes.values()):
        level = 0.9 if point == ("skew", "true", "none") else 0.6
        values = {"pooled": [level] * 3} if point[1] == "true" else {"local": [0.5] * 3}
        parts.append(figures(values, metric="accuracy", axes=dict(zip(axes, point, strict=True))))
    told = answers(pl.concat(parts), axes)[0]
    assert told == (
        "The largest change: labels skew in place of none, at calibrate true, rows none, takes pooled from 0.600 to"
        " 0.900 accuracy, +0.300; not tested: the same at every seed."
    )


def test_the_largest_change_of_equal_methods_is_seldom_called_significant() -> None:
    """60 studies of 10 seeds in which nothing changes: 3 are meant, 8 or more come by chance in 1 of 100. Corrected
    over its own family only, one in four is."""
    axes, called = {**AT, "teachers": ["many", "few"]}, 0
    for study in range(60):
        generator = np.random.default_rng([63, study])
        parts = []
        for point in product(*axes.values()):
            levels = {name: generator.normal(0.7, 0.01, 10).tolist() for name in METHODS}
            parts.append(figures(levels, axes=dict(zip(axes, point, strict=True))))
        called += "; significant" in answers(pl.concat(parts), axes)[0]
    assert called < 8
