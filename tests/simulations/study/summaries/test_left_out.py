"""Each hospital left out in turn: the points of the axis, folds of whole owners, and means over places."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from pydantic import ValidationError
from scipy.special import expit, logit

from consilium.protocol.errors import ConfigError
from consilium.simulations.datasets.embedded import load_stroke, open_heart
from consilium.simulations.datasets.spec import PublicSpec
from consilium.simulations.metrics import pooled_effect, prediction_interval
from consilium.simulations.population.partition import public_part
from consilium.simulations.study.cells import plots
from consilium.simulations.study.report.build import render_study
from consilium.simulations.study.results import StudyFiles
from consilium.simulations.study.spec import COLUMNS, StudyAxis, changed, load_study, points_of
from consilium.simulations.study.summaries.left_out import forests, left_out_sentences
from consilium.simulations.study.summaries.view import study_view
from tests.simulations.study.made_up import with_facts
from tests.simulations.study.tiny import SCENARIO, write_tiny


def test_folds_are_whole_owners_of_equal_rows_the_same_for_every_seed() -> None:
    source = load_stroke("country")
    folds = [public_part(source, PublicSpec(fold=(fold, 5)), 1, seed=3) for fold in range(1, 6)]
    owners = np.concatenate([fold.owners for fold in folds])
    assert sorted(owners.tolist()) == np.unique(source.owner).tolist()
    sizes = [len(fold.queries) + len(fold.test) for fold in folds]
    assert sum(sizes) == len(source.y)
    largest = np.bincount(source.owner).max()
    assert max(sizes) - min(sizes) < largest
    again = public_part(source, PublicSpec(fold=(2, 5)), 1, seed=4)
    assert again.owners.tolist() == folds[1].owners.tolist()
    assert again.test.tolist() != folds[1].test.tolist()


def test_as_many_folds_as_owners_leave_one_out() -> None:
    heart = open_heart()
    held = [public_part(heart, PublicSpec(fold=(fold, 4)), 1, 0).owners.tolist() for fold in range(1, 5)]
    assert held == [[0], [1], [2], [3]]  # the largest first
    with pytest.raises(ConfigError, match="5 folds of 4 hospitals"):
        public_part(heart, PublicSpec(fold=(1, 5)), 1, 0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"fold": [0, 5]},
        {"fold": [6, 5]},
        {"fold": [1, 1]},
        {"fold": [1, 5], "share": 0.3},
        {"by": "share", "fold": [1, 2]},
    ],
)
def test_a_fold_that_is_none_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        PublicSpec.model_validate(wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "left out", "leave_out": 1},
        {"name": "left out", "leave_out": ["a"]},
        {"leave_out": 3},
        {"name": "left out", "leave_out": 3, "values": [1]},
        {"name": "left out", "leave_out": 3, "key": "data.alpha"},
    ],
)
def test_an_axis_that_leaves_nothing_out_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        StudyAxis.model_validate(wrong)


def test_two_axes_that_leave_out_are_refused(tmp_path: Path) -> None:
    axis = [{"name": name, "leave_out": 3} for name in ("left out", "also")]
    with pytest.raises(ConfigError, match="two axes leave owners out"):
        load_study(str(write_tiny(tmp_path, axis=axis)))


def test_an_owner_named_twice_is_refused() -> None:
    with pytest.raises(ConfigError, match="twice"):
        points_of(StudyAxis(name="left out", leave_out=("a", "a")))


def test_the_axis_says_anew_which_rows_are_public(tmp_path: Path) -> None:
    base = {**SCENARIO, "data": {**SCENARIO["data"], "public": {"by": "share", "share": 0.3}}}
    axis = [{"name": "left out", "leave_out": ["clinic 1", "clinic 2"]}]
    cases = plots(load_study(str(write_tiny(tmp_path, base=base, axis=axis))))
    public = {plot.axes["left out"]: plot.teaching.data.public_rule for plot in cases}
    assert public == {name: PublicSpec(owners=(name,)) for name in ("clinic 1", "clinic 2")}
    with_share = changed({"data": {"public_share": 0.3}}, {"data": {"public": {"by": "owner", "fold": [1, 2]}}})
    assert with_share == {"data": {"public": {"by": "owner", "fold": [1, 2]}}}


PLACES = {"a": 0.80, "b": 0.85, "c": 0.70, "d": 0.78}


def results(places: dict[str, float] = PLACES, seeds: int = 4) -> pl.DataFrame:
    """AUC of student at each place, .02 less than of all rows together, with some luck."""
    generator = np.random.default_rng(1)
    rows = []
    for place, area in places.items():
        for seed in range(seeds):
            for method, less in (("pooled", 0.0), ("pate", 0.02)):
                value = area - less + generator.normal(0, 0.01)
                rows.append((f"{place}{seed}{method}", place, seed, method, "run", "", "auc", value, None, None))
    types = {name: pl.Float64 for name in ("value", "low", "high")} | {"seed": pl.Int64}
    columns = (COLUMNS[0], "left out", *COLUMNS[1:])
    table = pl.DataFrame(rows, schema={name: types.get(name, pl.String) for name in columns}, orient="row")
    return with_facts(table, {})


def test_means_over_places_are_those_of_random_effects_on_the_logit_scale() -> None:
    frame = results()
    view = study_view(frame, {}, reference="pate", left_out="left out")
    (forest,) = forests(view, "auc", "pate")
    means, errors = [], []
    for place in PLACES:
        values = frame.filter((pl.col("left out") == place) & (pl.col("method") == "pate"))["value"].to_numpy()
        means.append(logit(values.mean()))
        errors.append(values.std(ddof=1) / 2 / (values.mean() * (1 - values.mean())))
    effect = pooled_effect(np.array(means), np.array(errors))
    assert effect is not None
    further = prediction_interval(effect, 4)
    assert further is not None and forest.further is not None
    assert forest.mean == pytest.approx(expit(effect.mean), abs=1e-9)
    assert forest.ends == pytest.approx(tuple(expit(np.array(effect.interval))), abs=1e-9)
    assert forest.further == pytest.approx(tuple(expit(np.array(further))), abs=1e-9)
    assert (forest.tau, forest.i2) == pytest.approx((effect.tau, effect.i2), abs=1e-9)
    assert forest.further[0] < forest.ends[0] < forest.mean < forest.ends[1] < forest.further[1]
    assert [place.place for place in forest.places] == list("abcd")


def test_differences_are_of_the_same_seeds_and_no_shares() -> None:
    view = study_view(results(), {}, reference="pate", left_out="left out")
    (forest,) = forests(view, "auc", "pate", "pooled")
    assert forest.ends[0] < -0.02 < forest.ends[1] and forest.tau < 0.02
    assert {place.place: place.value < 0 for place in forest.places} == dict.fromkeys(PLACES, True)


def test_two_places_have_no_prediction_and_one_no_mean() -> None:
    two = study_view(results({"a": 0.8, "b": 0.7}), {}, reference="pate", left_out="left out")
    assert [forest.further for forest in forests(two, "auc", "pate")] == [None]
    one = study_view(results({"a": 0.8}), {}, reference="pate", left_out="left out")
    assert forests(one, "auc", "pate") == []
    assert forests(study_view(results(), {}), "auc", "pate") == [], "no axis leaves out"


def test_the_page_begins_with_the_places() -> None:
    frame = results()
    axes = [{"name": "left out", "values": list(PLACES), "leave_out": True}]
    files = StudyFiles(frame, {"title": "T", "axes": axes}, {})
    assert files.left_out == "left out"
    view = study_view(frame, {}, reference="pate", left_out="left out")
    first, second = left_out_sentences(view)
    assert first.startswith("At 4 places, each left out whole in turn, the student has AUC 0.76")
    assert "differs from pooled" in second
    page = render_study(files, "T")
    assert "Each place left out in turn" in page and "as a forest" in page
    assert "AUC of each method, as a picture" not in page
