"""The four hospitals of the UCI heart disease data, as hospitals would export them: missing values and codes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from consilium.data.faults import DataReport
from consilium.data.mapping import DataRules
from consilium.data.private_rows import Rows, read_rows
from consilium.protocol.rows.schema import Range, Schema

HOSPITALS = {"cleveland": (303, 6), "hungarian": (294, 293), "switzerland": (123, 123), "va": (200, 199)}
"""Rows, and rows with a missing value."""
NAMES = {name: f"col {name.upper()}" for name in ("age", "sex", "cp", "trestbps", "chol", "fbs", "restecg", "thalach")}


@pytest.fixture
def heart(shared_data: Path) -> dict[str, np.ndarray]:
    """The arrays of the file."""
    path = shared_data / "heart_uci.npz"
    if not path.is_file():
        pytest.skip(f"no {path}")
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def schema(heart: dict[str, np.ndarray], *ranges: Range) -> Schema:
    x = heart["X"].astype(np.float64)
    return Schema(
        features=tuple(str(name) for name in heart["feature_names"]),
        classes=("healthy", "diseased"),
        center=tuple(np.nanmean(x, axis=0)),
        scale=tuple(np.nanstd(x, axis=0)),
        ranges=ranges,
    )


def load(
    heart: dict[str, np.ndarray], hospital: str, path: Path, rule: str, *ranges: Range
) -> tuple[Rows | None, DataReport]:
    mine = heart["hospital"] == list(HOSPITALS).index(hospital)
    columns = {str(name): heart["X"][mine, index] for index, name in enumerate(heart["feature_names"])}
    frame = pl.DataFrame({**columns, "num": heart["num"][mine]}).fill_nan(None)
    frame = frame.with_columns(pl.col("sex").replace_strict({1.0: "male", 0.0: "female"})).rename(NAMES)
    if path.suffix == ".csv":
        frame.write_csv(path, null_value="?")
    else:
        frame.write_parquet(path)
    mapping = {**{str(name): str(name) for name in heart["feature_names"]}, **NAMES}
    rules = {
        "columns": {**mapping, "sex": {"column": "col SEX", "codes": {"male": 1, "female": 0}}},
        "label": {"column": "num", "classes": {"0": "healthy", **{str(grade): "diseased" for grade in range(1, 5)}}},
        "missing": {"rule": rule, "codes": ["?"]},
    }
    return read_rows(path, schema(heart, *ranges), DataRules.model_validate(rules))


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("hospital", HOSPITALS)
def test_every_hospital_can_bring_all_its_rows(heart, tmp_path: Path, hospital: str, suffix: str) -> None:
    rows, report = load(heart, hospital, tmp_path / f"data{suffix}", "mean")
    mine = heart["hospital"] == list(HOSPITALS).index(hospital)
    assert rows is not None
    assert report.used == HOSPITALS[hospital][0]
    expected = np.nan_to_num(schema(heart).standardise(heart["X"][mine]))
    assert np.allclose(rows.x, expected, rtol=0, atol=1e-5)  # CSV has the shortest decimals of float32
    assert (rows.y == (heart["num"][mine] > 0)).all()
    assert sum(report.filled.values()) == np.isnan(heart["X"][mine]).sum()


@pytest.mark.parametrize("hospital", HOSPITALS)
def test_dropping_rows_leaves_the_complete_ones(heart, tmp_path: Path, hospital: str) -> None:
    rows, report = load(heart, hospital, tmp_path / "data.csv", "drop-row")
    count, incomplete = HOSPITALS[hospital]
    if count - incomplete > 1:
        assert rows is not None
        assert report.used == count - incomplete
    else:  # none is left, or one row, which `party check` doubts
        assert (rows is None) == (count == incomplete)
        assert len(report.problems) + len(report.doubts) == 1


@pytest.mark.parametrize("hospital", HOSPITALS)
def test_missing_values_are_refused_column_by_column(heart, tmp_path: Path, hospital: str) -> None:
    mine = heart["hospital"] == list(HOSPITALS).index(hospital)
    rows, report = load(heart, hospital, tmp_path / "data.csv", "refuse")
    assert rows is None
    missing = np.isnan(heart["X"][mine]).sum(axis=0)
    names = heart["feature_names"]
    expected = {str(name): f"{count} of {mine.sum()} rows" for name, count in zip(names, missing, strict=True) if count}
    assert {p.where.split(" ")[0]: p.fault.split(" have no value")[0] for p in report.problems} == expected


def test_cholesterol_of_zero_is_found_by_a_range(heart, tmp_path: Path) -> None:
    allowed = Range(feature="chol", low=50, high=700)
    _, report = load(heart, "switzerland", tmp_path / "data.csv", "mean", allowed)
    assert [str(problem).split(",")[0] for problem in report.doubts] == [
        "chol (column 'col CHOL'): 123 of 123 rows are outside 50 to 700"
    ]
