"""Data sets that are in the package: they are what the public files give, whichever owners are public."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from consilium.simulations.datasets.source import open_source
from consilium.simulations.datasets.spec import SourceSpec
from consilium.simulations.scenario import Scenario, divided_data
from tests.simulations.datasets.own import FEDERATION

ROOT = Path(__file__).resolve().parents[3]
HEART = SourceSpec(set="heart")
HOSPITALS = ("Cleveland", "Hungary", "Long Beach", "Switzerland")


def raw_heart(shared_data: Path) -> dict[str, np.ndarray]:
    """The public files, column by column."""
    with np.load(shared_data / "heart_uci.npz") as file:
        columns = {str(name): file["X"][:, at] for at, name in enumerate(file["feature_names"])}
        return {**columns, **{name: file[name] for name in ("num", "hospital", "hospital_names")}}


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
    raw = raw_heart(shared_data)
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
