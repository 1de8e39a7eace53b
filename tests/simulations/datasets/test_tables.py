"""Published tables: what is in them, what must not be, and damaged files; and those in the package."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from consilium.protocol.errors import DataError
from consilium.simulations.datasets.base import read_arrays
from consilium.simulations.datasets.source import load_dataset, open_source
from consilium.simulations.datasets.spec import SourceSpec
from consilium.simulations.population.partition import not_public
from consilium.simulations.scenario import Scenario, divided_data, load_scenario
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


@pytest.mark.parametrize(("name", "public"), [("heart", "heart_uci.npz"), ("stroke", "ist.npz")])
def test_embedded_files_are_what_the_public_ones_give(
    shared_data: Path, tmp_path: Path, name: str, public: str
) -> None:
    spec = importlib.util.spec_from_file_location("embedded_data", ROOT / "tools" / "embedded_data.py")
    assert spec is not None and spec.loader is not None
    making = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(making)
    getattr(making, name)(str(shared_data / public), tmp_path)
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
        ("slope missing", np.isnan(raw["slope"])),
        ("trestbps missing", np.isnan(pressure)),
        ("chol missing", np.isnan(raw["chol"]) | (raw["chol"] == 0)),
        ("chol=desirable", (raw["chol"] > 0) & (raw["chol"] < 200)),
        ("chol=borderline", (raw["chol"] >= 200) & (raw["chol"] < 240)),
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
