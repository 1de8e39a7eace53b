"""Groups of rows that are judged apart: which rows are in one, figures by hand, and what is said of small groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from pydantic import ValidationError
from sklearn.metrics import roc_auc_score

from consilium.protocol.errors import ConfigError
from consilium.simulations.datasets.base import Dataset, Subgroups
from consilium.simulations.datasets.spec import MEMORY, SourceSpec
from consilium.simulations.datasets.table import TableSource
from consilium.simulations.divide import Case
from consilium.simulations.judge_subgroups import by_subgroup, subgroup_row_scores, subgroup_rows
from consilium.simulations.methods.base import TEST_DRAWS, Predicted
from consilium.simulations.population.specs import DataSpec
from consilium.simulations.population.subgroups import THIRDS, subgroups_of
from consilium.simulations.report.subgroups import subgroups_exhibit
from consilium.simulations.study.cache import StepCache
from consilium.simulations.study.report.build import render_study
from consilium.simulations.study.results import open_study
from consilium.simulations.study.row_scores import RowScores, write_row_scores
from consilium.simulations.study.run import run_study
from consilium.simulations.study.sources import source_digest
from consilium.simulations.study.spec import COLUMNS, load_study
from consilium.simulations.study.summaries.subgroups import cost_sentences, group_costs
from consilium.simulations.study.summaries.view import study_view
from tests.simulations.report import cases as report_cases
from tests.simulations.study.tiny import SCENARIO, STUDY, write_tiny
from tests.simulations.test_judge import HOME, TEST, guesses, made_up

AGES = [30, 40, 50, 60, 70, 80, None, 90]
SEXES = ["f", "m", "f", "m", "f", "m", "f", None]


def table(**keys: Any) -> tuple[DataSpec, TableSource]:
    frame = pl.DataFrame({"age": AGES, "sex": SEXES, "id": list("abcdefgh"), "x": range(8), "ill": ["y", "n"] * 4})
    described = {"set": MEMORY, "label": "ill", "classes": ["n", "y"], **keys}
    return DataSpec.model_validate(described), TableSource.of_frame(frame, SourceSpec.model_validate(described))


def divided(subgroups: Sequence[Any], public: Sequence[int] = range(8), **keys: Any) -> list[list[str]]:
    """Of each column the name of each row's group."""
    data, source = table(subgroups=subgroups, **keys)
    numbers = source.dataset(np.arange(8))
    found = subgroups_of(data, source, numbers, np.array(public))
    return [[column.names[place] for place in column.group] for column in found]


def test_numbers_are_cut_where_it_is_said() -> None:
    (ages,) = divided([{"column": "age", "cuts": [50, 80]}])
    assert ages == [
        "below 50", "below 50", *["50 to below 80"] * 3, "80 and more", "missing", "80 and more",
    ]  # fmt: skip


def test_else_at_the_thirds_of_the_public_rows_alone() -> None:
    (x,) = divided(["x"], public=range(7))  # thirds of 0 to 6 are 2 and 4, those of 0 to 7 are not
    assert x == ["lowest third"] * 2 + ["middle third"] * 2 + ["highest third"] * 4
    (few,) = divided(["x"], public=range(6))
    assert few == [f"{value}" for value in range(8)], "few different public numbers are codes"


def test_what_private_rows_write_does_not_decide_what_a_column_is() -> None:
    count = 10
    weights = ["1", "2", "3", "4", "5", "6", "7", "unknown", "8", "9"]
    frame = pl.DataFrame({"weight": weights, "x": range(count), "ill": ["y", "n"] * 5})
    described = {"set": MEMORY, "label": "ill", "classes": ["n", "y"], "subgroups": ["weight"], "drop": ["weight"]}
    source = TableSource.of_frame(frame, SourceSpec.model_validate(described))
    data = DataSpec.model_validate(described)
    (groups,) = subgroups_of(data, source, source.dataset(np.arange(count)), np.arange(7))
    assert groups.names[groups.group[7]] == "missing" and set(groups.names) == {*THIRDS, "missing"}


def test_categories_are_groups_whether_they_are_features_or_not() -> None:
    expected = [sex or "missing" for sex in SEXES]
    assert divided(["SEX"]) == [expected]
    assert divided(["sex"], drop=["sex", "id"]) == [expected]


def test_features_that_encode_a_column_are_one() -> None:
    x = np.array([[0, 1, 0], [1, 0, 1], [0, 0, 1]], dtype=np.float32)
    none = np.zeros(3, dtype=np.int64)
    data = Dataset("d", "", "", ("a=one", "a=two", "SEX=M"), ("n", "y"), "site", x, none, none)
    spec = DataSpec.model_validate({"set": "stroke", "subgroups": ["a", "sex"]})
    one, sex = subgroups_of(spec, data, data, none)
    assert [one.names[place] for place in one.group] == ["two", "one", "other"]
    assert [sex.names[place] for place in sex.group] == ["not M", "M", "M"]


@pytest.mark.parametrize(
    ("subgroups", "said"),
    [
        (["weight"], "there is no column 'weight'"),
        ([{"column": "x", "cuts": [200]}], "one group"),
        ([{"column": "sex", "cuts": [1]}], "holds categories"),
        ([{"column": "x", "cuts": list(range(1, 15))}], None),
    ],
)
def test_what_cannot_be_a_subgroup_is_refused_in_a_line(subgroups: list[Any], said: str | None) -> None:
    if said is None:
        assert len(set(divided(subgroups)[0])) == 8
        return
    with pytest.raises(ConfigError, match=said):
        divided(subgroups)


def test_a_column_of_many_values_is_refused() -> None:
    count = 40
    frame = pl.DataFrame({"id": [f"p{row}" for row in range(count)], "x": range(count), "ill": ["y", "n"] * 20})
    described = {"set": MEMORY, "label": "ill", "classes": ["n", "y"], "subgroups": ["id"], "drop": ["id"]}
    source = TableSource.of_frame(frame, SourceSpec.model_validate(described))
    with pytest.raises(ConfigError, match="40 different values, at most 12"):
        subgroups_of(DataSpec.model_validate(described), source, source.dataset(np.arange(count)), np.arange(count))


@pytest.mark.parametrize("wrong", [["age", "AGE"], [{"column": "age", "cuts": [3, 2]}], [{"column": ""}]])
def test_a_key_that_says_nothing_is_refused(wrong: list[Any]) -> None:
    with pytest.raises(ValidationError):
        DataSpec.model_validate({"set": "heart", "subgroups": wrong})


def test_without_subgroups_nothing_is_written_and_with_them_their_rows_are_in_the_digest() -> None:
    assert "subgroups" not in DataSpec.model_validate({"set": "heart"}).model_dump(mode="json")
    plain = source_digest(table(drop=["sex", "id"])[1])
    assert plain != source_digest(table(drop=["sex", "id"], subgroups=["sex"])[1])
    assert plain == source_digest(table(drop=["sex", "id"], subgroups=["age"])[1])  # a feature, hashed already


def with_groups(classes: int = 2) -> Case:
    case = made_up(classes)
    group = np.random.default_rng(3).integers(3, size=len(case.dataset.y))
    group[group == 2] = 0
    columns = (Subgroups("sex", ("female", "male"), group),)
    parties = {name: np.arange(place, 40, 5) for place, name in enumerate(case.partition.parties)}
    return replace(
        case, dataset=replace(case.dataset, subgroups=columns), partition=replace(case.partition, parties=parties)
    )


def figures(case: Case, name: str, predicted: Predicted) -> dict[str, Any]:
    rows = subgroup_rows("pate", case, predicted)
    return {row.metric: row for row in rows if row.name == name}


def test_figures_of_a_group_are_those_of_its_rows_alone() -> None:
    case = with_groups()
    found, male = guesses(case), case.dataset.subgroups[0].group == 1
    test, y = found[:TEST], case.test_y
    inside = male[:TEST]
    mine = figures(case, "sex: male", Predicted(test=test, home=found[TEST:]))
    assert mine["rows"].value == inside.sum() and mine["train_share"].value == male[:40].mean()
    areas = [roc_auc_score(y[part], test[part, 1]) for part in (inside, ~inside)]
    assert mine["auc"].value == pytest.approx(areas[0], abs=1e-12)
    assert mine["auc_against_rest"].value == pytest.approx(areas[0] - areas[1], abs=1e-12)
    off = y - test[:, 1]
    assert mine["observed_less_predicted"].value == pytest.approx(off[inside].mean(), abs=1e-12)
    assert mine["brier_against_rest"].value == pytest.approx(
        (off[inside] ** 2).mean() - (off[~inside] ** 2).mean(), abs=1e-12
    )
    deviation = np.sqrt(off[inside].var() / inside.sum() + off[~inside].var() / (~inside).sum())
    row = mine["observed_less_predicted_against_rest"]
    assert row.high - row.low == pytest.approx(2 * 1.959964 * deviation, rel=1e-6)


def test_at_home_each_row_counts_with_its_own_party() -> None:
    case = with_groups()
    found, male = guesses(case), case.dataset.subgroups[0].group == 1
    home, y, inside = found[TEST:], case.home_y, male[TEST:]
    mine = figures(case, "sex: male", Predicted(home=home))
    assert mine["home_rows"].value == inside.sum()
    pairs = right = 0
    start = 0
    for count in HOME.values():
        part = np.arange(start, start + count)[inside[start : start + count]]
        start += count
        for one in part[y[part] == 1]:
            for other in part[y[part] == 0]:
                pairs += 1
                right += float(home[one, 1] > home[other, 1])
    assert mine["home_auc"].value == pytest.approx(right / pairs, abs=1e-12)
    assert mine["home_accuracy"].value == pytest.approx((home.argmax(axis=1) == y)[inside].mean(), abs=1e-12)


def test_classes_are_groups_too_and_few_rows_have_no_figures() -> None:
    case = with_groups(3)
    found = guesses(case)
    mine = figures(case, "class: kind 2", Predicted(test=found[:TEST]))
    y = case.test_y
    assert mine["accuracy"].value == pytest.approx((found[:TEST].argmax(axis=1) == y)[y == 2].mean(), abs=1e-12)
    assert "auc" not in mine and "observed_less_predicted" not in mine
    rare = replace(case.dataset.subgroups[0], group=(np.arange(len(case.dataset.y)) < 9).astype(np.int64))
    small = replace(case, dataset=replace(case.dataset, subgroups=(rare,)))
    assert figures(small, "sex: male", Predicted(test=found[:TEST])).keys() == {"train_rows", "train_share", "rows"}


def test_row_scores_of_a_group_are_read_again_and_add_up_to_nothing(tmp_path: Path) -> None:
    case = with_groups()
    draws = np.stack([guesses(case, seed)[:TEST] for seed in range(2)])
    predicted = Predicted(test=draws.mean(axis=0), arrays={TEST_DRAWS: draws})
    write_row_scores(tmp_path, {"cell": ("d" * 64, subgroup_row_scores(case, predicted))})
    scores = RowScores.read(tmp_path)
    assert scores is not None and scores.of("cell", "brier") is None
    inside = case.dataset.subgroups[0].group[:TEST] == 1
    mine, beside = (scores.of("cell", metric, "sex: male") for metric in ("brier", "brier_against_rest"))
    assert mine is not None and beside is not None
    assert mine.ids.tolist() == np.flatnonzero(inside).tolist() and len(beside.ids) == TEST
    assert abs(mine.scores.sum()) < 1e-6 and abs(beside.scores.sum()) < 1e-6
    off = np.mean([(case.test_y - draw[:, 1]) ** 2 for draw in draws], axis=0)
    assert mine.scores == pytest.approx((off[inside] - off[inside].mean()) / inside.sum(), abs=1e-7)
    assert (beside.scores**2).sum() == pytest.approx(
        off[inside].var() / inside.sum() + off[~inside].var() / (~inside).sum(), rel=1e-4
    )


def costly(step: float, seeds: int = 5) -> pl.DataFrame:
    """A study in which student's Brier score is worse by .01, and in the smallest group by `step` more."""
    generator = np.random.default_rng(0)
    rows = []
    for seed in range(seeds):
        for method, worse in (("plurality", 0.0), ("pate", 0.01)):
            for name, share in (("sex: female", 0.2), ("sex: male", 0.8)):
                more = worse + (step if method == "pate" and share < 0.5 else 0.0) + generator.normal(0, 1e-3)
                sign = 1 if share < 0.5 else -1
                against = sign * (step if method == "pate" else 0.0) + generator.normal(0, 1e-3)
                for metric, value in {
                    "brier": 0.2 + more, "brier_against_rest": against, "train_share": share, "rows": 100 * share,
                }.items():  # fmt: skip
                    rows.append((f"{method} {seed}", seed, method, "subgroup", name, metric, value, None, None))
            rows.append((f"{method} {seed}", seed, method, "run", "", "auc", 0.8, None, None))
    types = {name: pl.Float64 for name in ("value", "low", "high")} | {"seed": pl.Int64}
    return pl.DataFrame(rows, schema={name: types.get(name, pl.String) for name in COLUMNS}, orient="row")


def test_a_loss_that_small_groups_bear_is_said_and_an_equal_one_is_not() -> None:
    view = study_view(costly(0.05), {}, reference="pate")
    (sentence,) = cost_sentences(view)
    assert "is significantly larger than that of all other rows in 1 of 1 groups" in sentence
    assert "sex: female" in sentence and "0.2" in sentence and "+0.05" in sentence
    cost = group_costs(view, "pate", "plurality")[0]
    assert (cost.name, cost.share) == ("sex: female", 0.2) and cost.difference == pytest.approx(0.06, abs=2e-3)
    (none,) = cost_sentences(study_view(costly(0.0), {}, reference="pate"))
    assert "in none of 1 groups" in none
    assert cost_sentences(study_view(costly(0.05, seeds=1), {}, reference="pate")) == []


@pytest.mark.slow
def test_a_study_with_subgroups_has_a_part_for_them(tmp_path: Path) -> None:
    base = {**SCENARIO, "data": {**SCENARIO["data"], "subgroups": [{"column": "age", "cuts": [55]}]}}
    study = {**STUDY["study"], "seeds": 2, "methods": ["local", "pooled", "plurality", "pate"]}
    path = write_tiny(tmp_path, study=study, base=base, axis=STUDY["axis"][:1])
    summary = run_study(load_study(str(path)), tmp_path / "out", StepCache(tmp_path / "cache"))
    assert summary["failed"] == []
    files = open_study(tmp_path / "out")
    names = set(files.results.filter(pl.col("scope") == "subgroup")["name"])
    assert names == {"age: below 55", "age: 55 and more", "class: no", "class: yes"}
    page = render_study(files, "tiny")
    assert "Subgroups and classes" in page and "What the student costs small groups, against pooled" in page
    base["data"]["subgroups"] = ["height"]
    path = write_tiny(tmp_path, study=study, base=base, axis=STUDY["axis"][:1])
    with pytest.raises(ConfigError, match="no column 'height'"):
        run_study(load_study(str(path)), tmp_path / "other", StepCache(tmp_path / "cache"))


def test_what_a_run_says_of_its_student_looks_at_test_rows_alone() -> None:
    case = with_groups()
    nobody = Subgroups("site", ("here", "elsewhere"), (np.arange(len(case.dataset.y)) >= TEST).astype(np.int64))
    columns = (*case.dataset.subgroups, nobody)
    case = replace(case, dataset=replace(case.dataset, subgroups=columns))
    groups = by_subgroup(case, guesses(case)[:TEST])
    assert [group["name"] for group in groups] == ["sex: female", "sex: male", "site: here"]
    mine = groups[1]
    rows = {row.metric: row for row in subgroup_rows("student", case, Predicted(test=guesses(case)[:TEST]))
            if row.name == "sex: male"}  # fmt: skip
    assert mine["rows"] == rows["rows"].value
    assert mine["figures"]["auc"] == [rows["auc"].value, rows["auc"].low, rows["auc"].high]
    assert not any(metric.startswith("train") for metric in mine["figures"])
    data = replace(report_cases.run(), open_figures={"subgroups": groups})
    exhibit = subgroups_exhibit(data)
    assert exhibit is not None and exhibit.table is not None and not exhibit.secret
    assert [line.name for line in exhibit.table.lines] == ["sex: female", "sex: male", "site: here"]
    assert subgroups_exhibit(replace(data, open_figures={})) is None
