"""A student's rows as a table: the schema's features, test rows apart, and every fault with its row and value."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from consilium.data.encoding import encode, infer
from consilium.protocol.errors import ConfigError, ConsiliumError, DataError, PathError
from consilium.protocol.label_source import NO_LABEL
from consilium.protocol.queries import canonical_queries
from consilium.protocol.schema import Schema
from consilium.student.pool import PoolFile, check_fits

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


HEADER = "age,sex,creatinine,outcome\n"
FAULTS: dict[str, tuple[str, Schema, str | None, str]] = {
    "text": ("> 89,male,1,\n", SCHEMA, None, "age: 1 of 1 rows hold text that is no number (first: line 2, '> 89')"),
    "missing number": ("61,male,1,\n,male,1,\n", SCHEMA, None, "age: 1 of 2 rows have no value (first: line 3); fill"),
    "no class": (
        "61,male,1,dead\n",
        SCHEMA,
        "outcome",
        "outcome: 1 of 1 rows have a label that is no class (first: line 2, 'dead'); the classes are 'well', 'ill'",
    ),
    "two faults": (
        "x,,1,\n",
        SCHEMA,
        None,
        "age: 1 of 1 rows hold text that is no number (first: line 2, 'x'); numbers are asked for | sex",
    ),
}


@pytest.mark.parametrize(("rows", "schema", "label", "told"), FAULTS.values(), ids=FAULTS.keys())
def test_pools_that_cannot_be_asked(tmp_path: Path, rows: str, schema: Schema, label: str | None, told: str) -> None:
    path = tmp_path / "pool.csv"
    path.write_text(HEADER + rows)
    with pytest.raises(DataError) as caught:
        PoolFile(path, known=label).load(schema)
    assert str(path) in str(caught.value)
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
        ({"path": "pool.csv", "test": "pool.csv"}, ConfigError, "go together"),
        ({"path": "pool.csv", "label": "outcome"}, ConfigError, "go together"),
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
