"""From a pool of raw columns to predictions on raw rows: no one encodes anything by hand."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from consilium.data.encoding import encode, infer
from consilium.data.files import CsvRule
from consilium.models.published.model import load_model
from consilium.models.published.predict import predict_file
from consilium.protocol.errors import DataError
from consilium.protocol.schema import Schema
from consilium.student.pool import PoolFile
from consilium.student.run import run_student
from tests.specs import student_of
from tests.student.test_run import Source

GENERATOR = np.random.default_rng(8)
FRAME = pl.DataFrame(
    {
        "age": GENERATOR.integers(20, 90, 200),
        "stage": GENERATOR.choice(["I", "II", "III"], 200),
        "creatinine": np.where(GENERATOR.random(200) < 0.1, np.nan, GENERATOR.normal(1, 0.2, 200)),
    }
).with_columns(pl.col("creatinine").fill_nan(None))
COLUMNS = infer(FRAME)
SCHEMA = Schema.of_table(COLUMNS, ("well", "ill"), encode(FRAME, COLUMNS)[0])


def staged(queries: np.ndarray) -> np.ndarray:
    """Ill from stage II on."""
    return (queries[:, SCHEMA.features.index("stage=I")] == 0).astype(np.int64)


@pytest.fixture(scope="module")
def student(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A student's folder, which nobody changes."""
    tmp_path = tmp_path_factory.mktemp("raw")
    outcome = pl.when(pl.col("stage") == "I").then(pl.lit("well")).otherwise(pl.lit("ill"))
    FRAME[:150].write_csv(tmp_path / "pool.csv")
    FRAME[150:].with_columns(outcome=outcome).write_csv(tmp_path / "test.csv")
    pool = PoolFile(tmp_path / "pool.csv", label="outcome", test=tmp_path / "test.csv").load(SCHEMA)
    result = run_student(Source(schema=SCHEMA, labels=staged), pool, student_of(C=1.0), tmp_path / "out", seed=0)
    assert (result["asked"], result["metrics"]["accuracy"]) == (150, 1.0)
    return tmp_path / "out" / "student"


def test_predictions_on_raw_rows(student: Path, tmp_path: Path) -> None:
    rows, told = tmp_path / "rows.csv", []
    rows.write_text("stage;id;age;creatinine\nI;7;61;n/k\nIII;8;72,5;1,25\nsecret;9;50;1\n")
    rule = CsvRule(separator=";", decimal_comma=True)
    text = predict_file(student, rows, rule, "text", None, told.append, ("n/k",), judge_unknown=True)
    frame = pl.DataFrame({"age": [61.0, 72.5, 50.0], "stage": ["I", "III", "x"], "creatinine": [None, 1.25, 1.0]})
    expected = load_model(student / "model.safetensors").predict_proba(SCHEMA.filled(encode(frame, COLUMNS)[0]))
    found = [[float(row["p_well"]), float(row["p_ill"])] for row in csv.DictReader(io.StringIO(text))]
    np.testing.assert_allclose(found, expected, atol=1e-8)
    assert [row["class"] for row in csv.DictReader(io.StringIO(text))][:2] == ["well", "ill"]
    assert told == [
        "columns that the student does not use: 'id'",
        "stage: 1 of 3 rows hold a value that is none of 'I', 'II', 'III' (first: line 4)",
        "creatinine: 1 of 3 rows have no value: 'creatinine missing' says so (first: line 2)",
    ]


def test_a_category_that_nobody_knows_has_no_prediction(student: Path, tmp_path: Path) -> None:
    """All zeros would be one of two values, and of more values what no teacher ever saw."""
    rows, told = tmp_path / "rows.csv", []
    rows.write_text("stage,age,creatinine\nI,61,1\nsecret,50,1\n")
    text = predict_file(student, rows, CsvRule(), "text", None, told.append)
    assert text.splitlines()[2] == "2,,,"
    assert told[-1] == (
        "1 of 2 rows have no prediction: the student does not know a category of theirs."
        " --judge-unknown judges them as if it were none"
    )
    answers = json.loads(predict_file(student, rows, CsvRule(), "json", None, told.append))["rows"]
    assert [answer["class"] for answer in answers] == ["well", None] and answers[1]["probabilities"] is None


def test_raw_rows_that_cannot_be_judged_are_named_and_not_quoted(student: Path, tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("stage,age,creatinine\nI,secret,1\n,61,1\n")
    with pytest.raises(DataError) as caught:
        predict_file(student, rows, CsvRule(), "text", None, print)
    assert "age: 1 of 2 rows hold text that is no number (first: line 2)" in str(caught.value)
    assert "stage: 1 of 2 rows have no value (first: line 3)" in str(caught.value)
    assert "secret" not in str(caught.value)
