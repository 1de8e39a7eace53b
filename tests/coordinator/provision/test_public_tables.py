"""Public rows with text, truth and missing values become a schema; what is wrong names file, row, column and value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from consilium.coordinator.config import FederationConfig
from consilium.coordinator.provision import kits
from consilium.coordinator.provision.plan import RowsPlan
from consilium.data.private_rows import FileRows
from consilium.protocol.config_files import load, validate
from consilium.protocol.errors import ConfigError, ConsiliumError, DataError
from consilium.protocol.schema import Schema
from consilium.student.pool import PoolFile
from tests.coordinator.provision.test_provision import write_plan

CLASSES = ["well", "ill"]
GOOD = "age,sex,creatinine,smoker\n61,female,0.9,true\n72,male,,false\n55,female,1.1,true\n40,male,1,false\n"
FEATURES = ("age", "sex=male", "creatinine", "creatinine missing", "smoker=true")


def schema_of(folder: Path, content: str | bytes, name: str = "public.csv", **keys: Any) -> Schema:
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return validate({"classes": CLASSES, "public": name, **keys}, RowsPlan, "rows").schema(folder)


def test_text_and_missing_values_become_features(tmp_path: Path) -> None:
    schema = schema_of(tmp_path, GOOD)
    assert schema.features == FEATURES
    assert schema.center[:2] == (57.0, 0.5)


AGES = "".join(f"{age},female,1,true\n" for age in range(20, 40))
FAULTS: dict[str, tuple[str | bytes, dict, type[ConsiliumError], str]] = {
    "text among numbers": (
        GOOD + AGES + "> 89,male,1,true\n",
        {},
        DataError,
        "line 26: column 'age' has a unit or a bound beside the number: '> 89'",
    ),
    "decimal comma": (GOOD.replace("61", '"61,5"'), {}, DataError, "line 2: column 'age' has numbers with"),
    "dates": ("a,d\n1,2020-01-01\n2,2020-01-02\n", {}, DataError, "column 'd' is of dates: '2020-01-01'"),
    "images of text": (GOOD, {"standardise": False}, ConfigError, "has columns that are no numbers"),
}


@pytest.mark.parametrize(("content", "keys", "error", "told"), FAULTS.values(), ids=FAULTS.keys())
def test_public_rows_that_make_no_schema(
    tmp_path: Path, content: str | bytes, keys: dict, error: type[ConsiliumError], told: str
) -> None:
    with pytest.raises(error) as caught:
        schema_of(tmp_path, content, **keys)
    assert told in str(caught.value)
    assert "public.csv" in str(caught.value)


@pytest.mark.parametrize(
    ("cells", "told"),
    [
        ([[1, 2], [3, np.nan]], "1 values are missing, infinite or no numbers (first: row 2, 'b')"),
        ([["1", "> 89"], ["3", "4"]], "1 values are missing, infinite or no numbers (first: row 1, 'b': '> 89')"),
    ],
)
@pytest.mark.parametrize("key", ["rows.public", "rows.queries"])
def test_arrays_with_missing_values_name_the_cell(tmp_path: Path, cells: list, told: str, key: str) -> None:
    names = np.array(["a", "b"])
    np.savez(tmp_path / "bad.npz", features=names, x=np.array(cells))
    np.savez(tmp_path / "good.npz", features=names, x=np.array([["1", "2"], ["3", "5"]]))  # texts of numbers
    public = "bad.npz" if key == "rows.public" else "good.npz"
    plan = RowsPlan(classes=("well", "ill"), public=public, queries="" if key == "rows.public" else "bad.npz")
    with pytest.raises(DataError) as caught:
        plan.public_rows(tmp_path / "bad.npz", plan.schema(tmp_path))
    assert str(caught.value).startswith(f"{key}: {tmp_path / 'bad.npz'}: {told}")


def test_the_kits_of_a_table_serve_parties_and_students_with_raw_rows(tmp_path: Path) -> None:
    """One file of public rows: as the pool, as a party's rows and as a student's, bit by bit the same."""
    generator = np.random.default_rng(4)
    frame = pl.DataFrame(
        {
            "age": generator.integers(20, 90, 120),
            "sex": generator.choice(["female", "male"], 120),
            "creatinine": np.where(generator.random(120) < 0.1, np.nan, generator.normal(1, 0.2, 120)),
        }
    ).with_columns(pl.col("creatinine").fill_nan(None))
    plan = write_plan(
        tmp_path, rows={"classes": CLASSES, "public": "table.csv", "queries": "table.csv"}, collection="secure"
    )
    frame.write_csv(tmp_path / "table.csv")
    made = kits.make(plan, tmp_path / "kits")
    assert "creatinine" in made.note
    schema = load(tmp_path / "kits" / "coordinator" / "federation.json", FederationConfig).rows
    assert schema.features == ("age", "sex=male", "creatinine", "creatinine missing")
    pool = np.load(tmp_path / "kits" / "student-university" / "public.npz")["queries"]
    asked = PoolFile(tmp_path / "table.csv").load(schema).queries
    assert sorted(map(bytes, pool)) == sorted(map(bytes, asked))
    frame.with_columns(label=pl.lit("well")).write_csv(tmp_path / "party.csv")
    rows, _ = FileRows(tmp_path / "party.csv").report(schema)
    assert rows is not None
    assert rows.x.tobytes() == schema.standardise(asked).tobytes()
