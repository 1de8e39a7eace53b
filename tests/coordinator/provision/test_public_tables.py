"""Public rows with text, truth and missing values become a schema; what is wrong names file, row, column and value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from consilium.coordinator.provision.folder import provision, revoke
from consilium.coordinator.provision.plan import RowsPlan
from consilium.data.private_rows import FileRows
from consilium.protocol.config_files import validate
from consilium.protocol.errors import ConfigError, DataError
from consilium.protocol.pool import PoolTree
from consilium.protocol.schema import Schema
from consilium.student.pool import PoolFile
from tests.coordinator.provision.desk import made, plan_table, read, write_plan

CLASSES = ["well", "ill"]
RELATIVE = {"voting_rule": {"rule": "relative", "reference": 20}}
GOOD = "age,sex,creatinine,smoker\n61,female,0.9,true\n72,male,,false\n55,female,1.1,true\n40,male,1,false\n"


def schema_of(folder: Path, content: str = GOOD, **keys: Any) -> Schema:
    (folder / "public.csv").write_text(content)
    return validate({"classes": CLASSES, "public": "public.csv", **keys}, RowsPlan, "rows").schema(folder)


def test_text_and_missing_values_become_features_or_are_named(tmp_path: Path) -> None:
    schema = schema_of(tmp_path)
    assert schema.features == ("age", "sex=male", "creatinine", "creatinine missing", "smoker=true")
    assert schema.center[:2] == (57.0, 0.5)
    with pytest.raises(DataError, match=r"public\.csv.* line 2: column 'age' has numbers with"):
        schema_of(tmp_path, GOOD.replace("61", '"61,5"'))
    with pytest.raises(ConfigError, match=r"public\.csv has columns that are no numbers"):
        schema_of(tmp_path, standardise=False)


@pytest.mark.parametrize(
    ("cells", "told"),
    [
        ([[1, 2], [3, np.nan]], ": 1 values are missing or infinite (first: row 2, 'b')"),
        ([["1", "> 89"], ["3", "4"]], " is no table of numbers"),
    ],
)
def test_arrays_with_missing_values_name_the_cell(tmp_path: Path, cells: list, told: str) -> None:
    np.savez(tmp_path / "bad.npz", features=np.array(["a", "b"]), x=np.array(cells))
    np.savez(tmp_path / "good.npz", features=np.array(["a", "b"]), x=np.array([[1, 2], [3, 5]]))
    for key, public, queries in (("rows.public", "bad.npz", ""), ("rows.queries", "good.npz", "bad.npz")):
        plan = RowsPlan(classes=("well", "ill"), public=public, queries=queries)
        with pytest.raises(DataError) as caught:
            plan.public_rows(tmp_path / "bad.npz", plan.schema(tmp_path))
        assert str(caught.value).startswith(f"{key}: {tmp_path / 'bad.npz'}{told}")


def test_public_rows_of_a_table_serve_parties_and_students_with_raw_rows(tmp_path: Path) -> None:
    """One file of public rows: as those that may be asked, as a party's and as a student's, bit by bit the same."""
    generator = np.random.default_rng(4)
    frame = pl.DataFrame(
        {
            "age": generator.integers(20, 90, 120),
            "sex": generator.choice(["female", "male"], 120),
            "creatinine": np.where(generator.random(120) < 0.1, np.nan, generator.normal(1, 0.2, 120)),
        }
    ).with_columns(pl.col("creatinine").fill_nan(None))
    frame.write_csv(tmp_path / "table.csv")
    table = plan_table(rows={"classes": CLASSES, "public": "table.csv", "queries": "table.csv"})
    first = provision(write_plan(tmp_path, table), tmp_path / "out")
    schema = first.file.config.rows
    assert "creatinine" in first.note
    assert schema.features == ("age", "sex=male", "creatinine", "creatinine missing")
    pool = np.load(first.path / "public.npz")["queries"]
    terms = first.file.config.public
    assert terms is not None and PoolTree.of_rows(pool).terms(terms.least_distance) == terms
    asked = PoolFile(tmp_path / "table.csv").load(schema).queries
    assert sorted(map(bytes, pool)) == sorted(map(bytes, asked))
    frame.with_columns(label=pl.lit("well")).write_csv(tmp_path / "party.csv")
    rows, _ = FileRows(tmp_path / "party.csv").report(schema)
    assert rows is not None
    assert rows.x.tobytes() == schema.standardise(asked).tobytes()


def test_public_rows_too_close_to_another_are_left_out_and_counted(tmp_path: Path) -> None:
    """What stays is signed, and goes on unchanged with each change."""
    rows = np.random.default_rng(4).normal(size=(50, 2))
    np.savez(tmp_path / "public.npz", features=np.array(["a", "b"]), queries=np.concatenate([rows, rows[:7] + 1e-3]))
    table = plan_table(rows={"classes": CLASSES, "public": "public.npz", "queries": "public.npz"}, **RELATIVE)
    first = provision(write_plan(tmp_path, table), tmp_path / "out")
    kept = np.load(first.path / "public.npz")["queries"]
    assert f"{57 - len(kept)} of 57 public rows are left out: each is closer than 0.05 to another" in first.note
    assert provision(tmp_path / "federation.toml", tmp_path / "out").note == first.note
    revoke(tmp_path / "out", "ward-a")
    assert np.array_equal(np.load(first.path / "public.npz")["queries"], kept)
    assert read(tmp_path / "out").config.reference == first.file.config.reference != ""
    np.savez(first.path / "public.npz", features=np.array(["a", "b"]), queries=kept[1:])
    with pytest.raises(ConfigError, match=r"public\.npz is not as the federation's authority signed it"):
        revoke(tmp_path / "out", "ward-b")


def test_relative_votes_need_public_rows(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match='rule = "relative" needs public rows'):
        made(tmp_path, rows={"classes": CLASSES, "features": ["a"], "standardise": False}, **RELATIVE)


def test_arrays_that_are_none_or_lack_a_column(tmp_path: Path) -> None:
    np.savez(tmp_path / "public.npz", features=np.array(["a", "b"]), x=np.ones((3, 2)))
    keys = {"classes": CLASSES, "public": "public.npz"}
    with pytest.raises(ConfigError, match=r"rows\.public: public\.npz has no column 'c'"):
        validate({**keys, "features": ["a", "c"]}, RowsPlan, "rows").schema(tmp_path)
    with open(tmp_path / "public.npz", "wb") as file:
        np.save(file, np.ones(3))  # one array under the name of several
    with pytest.raises(DataError, match="is no table of numbers"):
        validate(keys, RowsPlan, "rows").schema(tmp_path)
