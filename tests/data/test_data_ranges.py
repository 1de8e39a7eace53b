"""Ranges help a party to find wrong units; a coordinator cannot use them, or the scale, to ask for its values."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from consilium.data.mapping import DataRules
from consilium.data.private_rows import load_rows, read_rows
from consilium.party.teachers.teach import train
from consilium.protocol.digests import canonical_digest
from consilium.protocol.rows.schema import Range, Schema
from tests.specs import teacher_of


def schema(*ranges: Range, scale: float = 1.0) -> Schema:
    return Schema(features=("a", "b"), classes=("x", "y"), center=(0, 0), scale=(scale, 1), ranges=ranges)


def write(path: Path, *values: float) -> Path:
    lines = [f"{value},1,{'xy'[index % 2]}" for index, value in enumerate(values)]
    path.write_text("a,b,label\n" + "\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize(
    ("allowed", "values", "found"),
    [
        (Range(feature="a", low=0, high=10), (0, 10, 5.5, 1), []),
        (Range(feature="a", low=0, high=10), (-1, 10.1, 5, 1), ["2 of 4 rows are outside 0 to 10"]),
        (Range(feature="a", low=0.1, high=0.1), (0.1, 0.1), []),
        (Range(feature="a", low=0, high=10, whole=True), (0, 1.5, 2, 3), ["1 of 4 rows are no whole numbers"]),
        (Range(feature="a", low=0, high=10, whole=True), (0, 11.5), ["1 of 2 rows are outside", "1 of 2 rows are no"]),
        (Range(feature="b", low=0, high=10), (-1, 11), []),
    ],
)
def test_values_outside_are_counted(tmp_path: Path, allowed: Range, values: tuple, found: list[str]) -> None:
    rows, report = read_rows(write(tmp_path / "data.csv", *values), schema(allowed), DataRules())
    assert rows is not None
    assert len(report.doubts) == len(found)
    for problem, text in zip(report.doubts, found, strict=True):
        assert text in str(problem)


@pytest.mark.parametrize("end", [0.1, 0.7])  # as float32 above, and below
def test_float32_files_do_not_fall_outside_by_rounding(tmp_path: Path, end: float) -> None:
    path = tmp_path / "data.npz"
    x = np.full((2, 2), end, dtype=np.float32)
    np.savez(path, x=x, y=[0, 1], features=np.array(["a", "b"]), classes=np.array(["x", "y"]))
    _, report = read_rows(path, schema(Range(feature="a", low=end, high=end)), DataRules())
    assert report.doubts == ()


def test_training_moves_values_to_the_range_and_says_so_here_only(tmp_path: Path, caplog) -> None:
    path = write(tmp_path / "data.csv", -5, 4711, 3, 4)
    with caplog.at_level(logging.WARNING):
        rows = load_rows(path, schema(Range(feature="a", low=0, high=10)), DataRules())
    assert rows.x[:, 0].tolist() == [0, 10, 3, 4]
    assert "2 of 4 rows are outside" in caplog.text
    assert "4711" not in caplog.text.replace(str(tmp_path), "")


@pytest.mark.parametrize("limit", [5, 4711, 1e6])
@pytest.mark.parametrize("scale", [1.0, 1e-300, 1e300])
@pytest.mark.parametrize("model", ["logistic_regression", "random_forest"])
def test_nothing_that_a_coordinator_chooses_makes_large_values_fail(
    tmp_path: Path, limit: float, scale: float, model
) -> None:
    path = write(tmp_path / "data.csv", 0.5, 4711, 3, 1e306)
    asked = schema(Range(feature="a", low=0, high=limit), scale=scale)
    rows = load_rows(path, asked, DataRules())
    assert np.isfinite(rows.x).all()
    if scale == 1.0 and limit == 1e6:
        assert rows.x[:, 0].tolist() == [0.5, 4711, 3, 1e6]
    train(rows, teacher_of(model, trees=3), np.arange(4), 1, 2)


def test_rows_are_what_the_schema_makes_of_them(tmp_path: Path) -> None:
    generator = np.random.default_rng(3)
    x = generator.normal(5, 3, (50, 2)).astype(np.float32)
    path = tmp_path / "data.npz"
    np.savez(path, x=x, y=np.arange(50) % 2, features=np.array(["a", "b"]), classes=np.array(["x", "y"]))
    public = Schema.from_public_rows(("a", "b"), ("x", "y"), generator.normal(4, 2, (30, 2)))
    assert (load_rows(path, public).x == public.standardise(x)).all()


def test_a_schema_without_ranges_has_the_form_and_digest_it_always_had() -> None:
    assert schema().model_dump(mode="json") == {
        "features": ["a", "b"],
        "classes": ["x", "y"],
        "center": [0.0, 0.0],
        "scale": [1.0, 1.0],
    }
    assert schema().digest() == canonical_digest(schema().model_dump(mode="json"))
    old = Schema(features=("a",), classes=("x", "y"), center=(0.0,), scale=(1.0,))
    assert (
        old.digest() == "4e284491dbc4a5ef56467d84d5e8f186bae2f9bbb238627f98391639322b1fba"
    )  # before there were ranges
    assert "ranges" not in schema().model_dump_json()


def test_ranges_are_part_of_the_digest_and_survive_json() -> None:
    ranged = schema(Range(feature="a", low=0, high=1))
    assert Schema.model_validate_json(ranged.model_dump_json()) == ranged
    others = [
        schema(),
        schema(Range(feature="a", low=0, high=2)),
        schema(Range(feature="a", low=0, high=1, whole=True)),
    ]
    assert len({item.digest() for item in [ranged, *others]}) == 4


@pytest.mark.parametrize(
    "ranges",
    [
        [{"feature": "c", "low": 0, "high": 1}],
        [{"feature": "a", "low": 2, "high": 1}],
        [{"feature": "a", "low": 0, "high": float("inf")}],
        [{"feature": "a", "low": 0, "high": 1}, {"feature": "a", "low": 0, "high": 2}],
    ],
)
def test_ranges_that_make_no_sense_are_refused(ranges: list[dict]) -> None:
    with pytest.raises(ValidationError):
        Schema.model_validate({**schema().model_dump(), "ranges": ranges})
