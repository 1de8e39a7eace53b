"""The saved model of private gradient descent: it predicts, its noise follows no seed, and nothing else is private."""

from __future__ import annotations

import csv
import json
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path

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
from consilium.simulations.study.model import GRID, drawn, fixed_units, save_model
from tests.simulations.council.warm import hospitals
from tests.simulations.methods.cases import SEED, few

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
