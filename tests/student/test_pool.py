"""A student's rows as a table: the schema's features, test rows apart, and every fault with its row and value; and from
raw columns to predictions on raw rows: no one encodes anything by hand."""

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
from consilium.models.published.model import load_model, predict_file
from consilium.protocol.errors import ConfigError, ConsiliumError, DataError, PathError
from consilium.protocol.label_source import NO_LABEL
from consilium.protocol.queries import canonical_queries
from consilium.protocol.schema import Schema
from consilium.student.pool import PoolFile, check_fits
from consilium.student.run import run_student
from tests.specs import student_of
from tests.student.test_run import Source

PUBLIC = pl.DataFrame(
    {
        "age": [61, 72, 55, 40, 66, 58],
        "sex": ["female", "male", "female", "male", "male", "female"],
        "creatinine": [0.9, None, 1.1, 1.0, 0.95, 1.2],
    }
)
COLUMNS = infer(PUBLIC)
SCHEMA = Schema.of_table(COLUMNS, ("well", "ill"), encode(PUBLIC, COLUMNS)[0])
PLAIN = Schema.from_public_rows(("age", "creatinine"), ("well", "ill"), np.array([[61, 0.9], [72, 1.1], [50.0, 1.0]]))
OUTCOME = pl.Series("outcome", ["well", None, "ill", None, None, None])


def write(path: Path, frame: pl.DataFrame) -> Path:
    frame.write_parquet(path) if path.suffix == ".parquet" else frame.write_csv(path)
    return path


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_pool_is_asked_as_the_schema_says(tmp_path: Path, suffix: str) -> None:
    told: list[str] = []
    pool = PoolFile(write(tmp_path / f"pool{suffix}", PUBLIC.reverse())).load(SCHEMA, told.append)
    check_fits(pool, SCHEMA)
    assert pool.test_x is None and pool.labelled.tolist() == []
    assert pool.queries.tobytes() == SCHEMA.filled(encode(PUBLIC.reverse(), COLUMNS)[0]).tobytes()
    assert canonical_queries(pool.queries, len(SCHEMA.features)).shape == (6, 4)
    where = "line 6" if suffix == ".csv" else "row 5"
    (remark,) = told
    assert (
        remark == f"pool{suffix}: creatinine: 1 of 6 rows have no value: 'creatinine missing' says so (first: {where})"
    )


@pytest.mark.parametrize("kind", ["pool.csv", "public.npz"])
def test_test_rows_have_a_file_of_their_own_and_known_classes_stand_beside_the_queries(
    tmp_path: Path, kind: str
) -> None:
    path, x = tmp_path / kind, SCHEMA.filled(encode(PUBLIC, COLUMNS)[0])
    known = [SCHEMA.classes.index(name) if name else NO_LABEL for name in OUTCOME]
    if kind == "public.npz":
        np.savez(path, features=np.array(SCHEMA.features), queries=x, y=np.array(known))
    else:
        write(path, PUBLIC.with_columns(OUTCOME))
    test = write(tmp_path / "test.csv", PUBLIC.with_columns(OUTCOME)[[0, 2]])
    column = "outcome" if kind == "pool.csv" else None
    pool = PoolFile(path, label="outcome", test=test, known=column).load(SCHEMA)
    assert pool.queries.tobytes() == x.tobytes()
    assert pool.test_y is not None and pool.test_y.tolist() == [0, 1]
    assert pool.labels is not None and pool.labels.tolist() == known
    assert pool.labelled.tolist() == [0, 2]


def test_a_pool_that_cannot_be_asked_has_all_its_faults_in_one_text(tmp_path: Path) -> None:
    path = tmp_path / "pool.csv"
    path.write_text("age,sex,creatinine,outcome\nx,,1,dead\n")
    with pytest.raises(DataError) as caught:
        PoolFile(path, known="outcome").load(SCHEMA)
    for told in (
        f"{path}: age: 1 of 1 rows hold text that is no number (first: line 2, 'x'); numbers are asked for | sex",
        "outcome: 1 of 1 rows have a label that is no class (first: line 2, 'dead'); the classes are 'well', 'ill'",
    ):
        assert told in str(caught.value)


@pytest.mark.parametrize(
    ("y", "told"), [([0, 1], r"y has shape \(2,\) for 3 queries"), ([0, 1, 7], "from 0 to 7 for 2")]
)
def test_known_classes_that_do_not_fit(tmp_path: Path, y: list[int], told: str) -> None:
    path = tmp_path / "public.npz"
    np.savez(path, features=np.array(PLAIN.features), queries=np.zeros((3, len(PLAIN.features))), y=np.array(y))
    with pytest.raises(DataError, match=told):
        check_fits(PoolFile(path).load(PLAIN), PLAIN)


@pytest.mark.parametrize(
    ("options", "error", "told"),
    [
        ({"path": "pool.csv", "test": "pool.csv"}, ConfigError, "Give --label COLUMN"),
        ({"path": "pool.csv", "label": "outcome"}, ConfigError, "Give --test FILE"),
        ({"path": "no.npz", "known": "outcome"}, ConfigError, "Put its labels into y"),
        ({"path": "pool.csv", "test": "no.csv", "label": "outcome"}, PathError, "no.csv"),
        ({"path": "pool.csv", "test": "pool.csv", "label": "outcome"}, DataError, "test row 2 has no label"),
    ],
)
def test_options_that_do_not_go_together(tmp_path: Path, options: dict, error: type[ConsiliumError], told: str) -> None:
    write(tmp_path / "pool.csv", PUBLIC.with_columns(OUTCOME))
    given = {key: tmp_path / value if key in ("path", "test") else value for key, value in options.items()}
    with pytest.raises(error, match=told):
        PoolFile(**given).load(SCHEMA)


GENERATOR = np.random.default_rng(8)
FRAME = pl.DataFrame(
    {
        "age": GENERATOR.integers(20, 90, 200),
        "stage": GENERATOR.choice(["I", "II", "III"], 200),
        "creatinine": np.where(GENERATOR.random(200) < 0.1, np.nan, GENERATOR.normal(1, 0.2, 200)),
    }
).with_columns(pl.col("creatinine").fill_nan(None))
STAGES = infer(FRAME)
STAGED = Schema.of_table(STAGES, ("well", "ill"), encode(FRAME, STAGES)[0])


def staged(queries: np.ndarray) -> np.ndarray:
    """Ill from stage II on."""
    return (queries[:, STAGED.features.index("stage=I")] == 0).astype(np.int64)


@pytest.fixture(scope="module")
def student(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A student's folder, which nobody changes."""
    tmp_path = tmp_path_factory.mktemp("raw")
    outcome = pl.when(pl.col("stage") == "I").then(pl.lit("well")).otherwise(pl.lit("ill"))
    FRAME[:150].write_csv(tmp_path / "pool.csv")
    FRAME[150:].with_columns(outcome=outcome).write_csv(tmp_path / "test.csv")
    pool = PoolFile(tmp_path / "pool.csv", label="outcome", test=tmp_path / "test.csv").load(STAGED)
    result = run_student(Source(schema=STAGED, labels=staged), pool, student_of(C=1.0), tmp_path / "out", seed=0)
    assert (result["asked"], result["metrics"]["accuracy"]) == (150, 1.0)
    return tmp_path / "out" / "student"


def test_predictions_on_raw_rows(student: Path, tmp_path: Path) -> None:
    rows, told = tmp_path / "rows.csv", []
    rows.write_text("stage;id;age;creatinine\nI;7;61;n/k\nIII;8;72,5;1,25\nsecret;9;50;1\n")
    rule = CsvRule(separator=";", decimal_comma=True)
    text = predict_file(student, rows, rule, "text", None, told.append, ("n/k",), judge_unknown=True)
    frame = pl.DataFrame({"age": [61.0, 72.5, 50.0], "stage": ["I", "III", "x"], "creatinine": [None, 1.25, 1.0]})
    expected = load_model(student / "model.safetensors").predict_proba(STAGED.filled(encode(frame, STAGES)[0]))
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
    assert predict_file(student, rows, CsvRule(), "text", None, told.append).splitlines()[2] == "2,,,"
    assert told[-1].startswith("1 of 2 rows have no prediction: the student does not know a category of theirs.")
    answers = json.loads(predict_file(student, rows, CsvRule(), "json", None, told.append))["rows"]
    assert [answer["class"] for answer in answers] == ["well", None] and answers[1]["probabilities"] is None
