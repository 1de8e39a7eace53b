"""`consilium study`: its commands and options. And the saved model of private gradient descent: it predicts, its noise
follows no seed, and nothing else is private."""

from __future__ import annotations

import csv
import json
import sys
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from consilium.accounting.units import Unit
from consilium.data.files import CsvRule
from consilium.models.published.model import load_model, predict_file
from consilium.protocol.config_files import validate
from consilium.protocol.errors import ConfigError, OutputExists
from consilium.protocol.noise import SystemNoise
from consilium.report.disclosure import epsilon_text
from consilium.simulations.council.estimator import Council
from consilium.simulations.council.frames import GivenRows
from consilium.simulations.council.settings import completed, scenario_of
from consilium.simulations.datasets.table import TableSource
from consilium.simulations.divide import Case, make_case
from consilium.simulations.methods.base import StatedGuarantee
from consilium.simulations.methods.private_gradient import PrivateGradient, rows_of
from consilium.simulations.population.specs import DataSpec
from consilium.simulations.study import compute
from consilium.simulations.study.model import GRID, drawn, fixed_units, save_model
from tests.command_line import Done, consilium
from tests.simulations.council.warm import hospitals
from tests.simulations.methods.cases import SEED, few
from tests.simulations.study.test_spec import merged
from tests.simulations.study.tiny import SCENARIO, SMALL, write_tiny


@pytest.fixture
def study(tmp_path: Path) -> Path:
    return write_tiny(tmp_path, **SMALL)


def run(study: Path, *options: object) -> Done:
    """In this process."""
    return consilium("study", study, "--workers", 1, "--out", study.parent / "out", *options)


def test_from_a_dry_run_to_what_made_it(study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two divisions with two points all but the last point is done, each cell in an hour."""

    def ahead(workers: int) -> Any:
        return run(study, "--seeds", 2, "--dry-run", "--format", "json", "--workers", workers).json()

    assert ahead(1) == {"study": "tiny", "cells": 12, "cases": 4, "kept": 0, "seconds": None, "failed": []}
    assert not (study.parent / "out").exists()
    keep = compute.Division.keep

    def all_but_the_last(division: compute.Division, plot: Any, found: Any, seconds: float) -> None:
        if plot is not division.plots[1] or plot.seed == 0:
            keep(division, plot, found, 3600.0 * len(division.methods))

    monkeypatch.setattr(compute.Division, "keep", all_but_the_last)
    done = run(study, "--seeds", 2, "--format", "json")
    assert done.exit_code == 0, done.stderr
    assert (done.json()["found"], done.json()["failed"]) == (0, [])
    facts = json.loads((study.parent / "out/study.json").read_text())
    assert facts["seeds"] == [0, 1] and len(facts["data"][0]["digest"]) == 40 and "numpy" in facts["versions"]
    assert facts["command"] == f"consilium study {study} --out {study.parent}/out --seeds 2"
    # they are of one division, which one process computes
    assert [(again["kept"], again["seconds"]) for again in map(ahead, (1, 4))] == [(9, 3 * 3600)] * 2
    assert "9\ntime: about 3 h" in run(study, "--seeds", 2, "--dry-run").stdout


def test_of_data_that_cannot_be_opened_a_dry_run_knows_no_time_and_the_exit_code_is_not_0(study: Path) -> None:
    (study.parent / "rows.csv").unlink()
    ahead = run(study, "--dry-run")
    assert ahead.exit_code == 1 and "time" not in ahead.stdout and "rows.csv is not there" in ahead.stdout


def test_without_ray_a_cluster_is_refused_with_what_to_install(study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    done = run(study, "--cluster", "head:6379")
    assert done.exit_code and "--cluster needs Ray. pip install 'consilium-pate[ray]'" in done.stderr


@pytest.mark.parametrize(
    ("federation", "key"),
    [
        ({"mechanism": {"name": "confident"}}, "federation.mechanism.threshold"),
        ({"mechanism": {"name": "gnmax", "sigmas": 3}}, "federation.mechanism.sigmas"),
        ({"query_budget": {"queries": 0, "answers": 0}}, "query_budget.queries: must be at least 1"),
    ],
)
def test_noise_that_will_be_calibrated_hides_no_other_fault(tmp_path: Path, federation, key) -> None:
    base = merged(SCENARIO, {"federation": {"privacy": {"epsilon": 1.0}, "mechanism": {"name": "gnmax"}}})
    base["federation"] |= federation
    base["federation"]["mechanism"].pop("sigma", None)
    done = run(write_tiny(tmp_path, **{**SMALL, "axis": [], "base": base}))
    assert done.exit_code == 2 and key in done.stderr and not (tmp_path / "out").exists()


def test_text_says_what_was_computed_where_it_is_and_what_failed_with_another_exit_code(study: Path) -> None:
    points = {"natural": {}, "large": {"data": {"least_rows": 1000}}}
    done = run(write_tiny(study.parent, **{**SMALL, "axis": [{"name": "division", "points": points}]}))
    assert done.exit_code == 1
    for told in (
        "6 cells, 0 of them computed before", f"results: {study.parent}/out/results.parquet",
        "not computed: division = large, seed 0: ", "at least 1,000 rows",
    ):  # fmt: skip
        assert told in done.stdout
    assert "cells are computed" in done.stderr
    quiet = consilium("study", study, "--out", study.parent / "out", "--quiet")
    assert (quiet.output, quiet.exit_code) == ("", 1)


def test_shipped_studies_are_listed() -> None:
    done = consilium("study", "list", "--format", "json")
    assert done.exit_code == 0 and all(each["title"] for each in done.json()["studies"])


def test_a_mistake_in_the_file_makes_no_folder(study: Path) -> None:
    done = run(write_tiny(study.parent, **{**SMALL, "study": {"methods": ["telepathy"]}}))
    assert done.exit_code == 2 and "no method 'telepathy'" in done.stderr and not (study.parent / "out").exists()


RECORD = "federation.privacy.unit=record"


@cache
def case() -> Case:
    return make_case(few(RECORD), SEED, 0.0)


def promise(of: Case) -> StatedGuarantee:
    stated = PrivateGradient().guarantee(of)
    assert stated is not None
    return stated


def test_it_predicts_and_its_card_states_the_guarantee(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    card = save_model(few(RECORD), SEED, folder)
    assert card["privacy"] == {**asdict(promise(case())), "noise": "system"}
    text = (folder / "MODEL_CARD.md").read_text()
    at_most = f"epsilon at most {epsilon_text(card['privacy']['epsilon'])} at delta 1e-05"
    assert all(told in text for told in ("Method: ", at_most, "a record", "replaced", "labels of the public"))
    with open(tmp_path / "rows.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(case().config.rows.features)
        rows.writerows(case().test_x[:5].tolist())
    answers = json.loads(predict_file(folder, tmp_path / "rows.csv", CsvRule(), "json", None, print))["rows"]
    found = load_model(folder / "model.safetensors").predict_proba(case().test_x)
    told = [list(answer["probabilities"].values()) for answer in answers]
    np.testing.assert_allclose(told, found[:5], atol=1e-6)
    right = (found.argmax(axis=1) == case().test_y).mean()
    assert right == pytest.approx(card["metrics"]["accuracy"]) and card["metrics"]["auc"] > 0.65
    with pytest.raises(OutputExists):
        save_model(few(RECORD), SEED, folder)


def test_no_seed_gives_the_noise_back(monkeypatch: pytest.MonkeyPatch) -> None:
    models = []
    for _ in range(2):
        np.random.seed(0)  # noqa: NPY002
        models.append(drawn(case(), promise(case()))[1])
    assert (models[0] != models[1]).any(axis=1).mean() > 0.9
    sigmas, none = list[float](), lambda self, sigma, shape: sigmas.append(sigma) or np.zeros(shape, dtype=np.int64)
    monkeypatch.setattr(SystemNoise, "gaussian", none)
    figures, model = drawn(case(), promise(case()))
    np.testing.assert_array_equal(drawn(case(), promise(case()))[1], model)  # control: nothing else differs
    rounds = int(figures["rounds"])
    assert len(sigmas) == 2 * rounds  # one descent each: no draw is chosen among several
    least = promise(case()).noise_multiplier(rounds)
    # rounding moves two sums apart by half a step for each number, in both
    assert all(sigma * 2 >= least * (2 * GRID + model.size**0.5) for sigma in sigmas)


def test_settings_and_number_of_units_are_no_secret_of_private_rows() -> None:
    """All private rows say something else: had one of them a part, this would show."""
    dataset, public = case().dataset, np.concatenate([case().partition.queries, case().partition.test])
    private = ~np.isin(np.arange(len(dataset.y)), public)
    other = replace(dataset, y=np.where(private, 1 - dataset.y, dataset.y), x=np.where(private[:, None], 9, dataset.x))
    changed = replace(case(), dataset=other)
    assert drawn(case(), promise(case()))[0] == drawn(changed, promise(changed))[0]
    assert fixed_units(case(), promise(case())) == fixed_units(changed, promise(changed)) == int(private.sum())
    assert len(rows_of(changed, Unit.RECORD).sizes) <= int(private.sum())


def test_an_owner_counts_whose_patients_are_all_public_elsewhere() -> None:
    """In a neighbour of a party they are others, and it takes part."""
    rows = hospitals(6, rows=20).with_columns(patient=pl.int_range(120))
    last = rows["hospital"] == "H05"
    found = []
    for patient in (pl.col("patient"), pl.when(last).then(pl.lit(0)).otherwise(pl.col("patient"))):
        given = GivenRows.of(rows.with_columns(patient=patient), "ill", "hospital", "patient", ["H00"], None)
        settings = Council(unit="party", queries=5).get_params()
        table = scenario_of(settings, given, Path())
        source = TableSource.of_frame(given.frame, validate(table["data"], DataSpec, "test"), given.public)
        of = make_case(completed(table, 0, source), 0, 0.0, source)
        found.append((len(of.parties), fixed_units(of, replace(promise(case()), unit=Unit.PARTY))))
    assert found == [(5, 5), (4, 5)]


def test_it_is_refused_where_the_number_of_units_hangs_on_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="divides by the number of record units"):
        save_model(few(RECORD, "federation.privacy.neighbouring=add_or_remove"), SEED, tmp_path / "model")
    assert not (tmp_path / "model").exists()
