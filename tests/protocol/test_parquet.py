"""Small tables as Parquet files: polars reads them, polars' own are read, and damage is an error and no other value."""

from __future__ import annotations

import io
from itertools import chain
from random import Random

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from consilium.protocol.parquet import TypedValues, from_parquet, to_parquet

INTEGERS = st.integers(-(2**63), 2**63 - 1)
KINDS = {
    "integer": (INTEGERS, pl.Int64),
    "number": (st.floats(allow_nan=False), pl.Float64),
    "text": (st.text(st.characters(exclude_categories=["Cs"])), pl.String),
    "integers": (st.lists(INTEGERS), pl.List(pl.Int64)),
}
TABLE = {
    "row": TypedValues("integer", [7, -1, None, 9]),
    "label": TypedValues("text", ["ill", None, "", "gesund ü"]),
    "counts": TypedValues("integers", [[4, 8], None, [], [15]]),
    "value": TypedValues("number", [0.5, None, 1e300, -2.0]),
}


def frame_of(table: dict[str, TypedValues]) -> pl.DataFrame:
    schema = {name: KINDS[column.kind][1] for name, column in table.items()}
    return pl.DataFrame({name: list(column.values) for name, column in table.items()}, schema=schema)


@st.composite
def tables(draw: st.DrawFn) -> dict[str, TypedValues]:
    rows = draw(st.integers(0, 40))
    return {
        kind: TypedValues(kind, draw(st.lists(st.none() | values, min_size=rows, max_size=rows)))  # pyright: ignore
        for kind, (values, _) in KINDS.items()
    }


@settings(max_examples=50, deadline=None)
@given(tables())
def test_polars_and_this_module_read_what_it_writes(table: dict[str, TypedValues]) -> None:
    content = to_parquet(table)
    assert from_parquet(content) == table
    assert pl.read_parquet(io.BytesIO(content)).equals(frame_of(table))
    assert to_parquet(table) == content


def test_long_columns() -> None:
    rows = 100_000
    table = {"row": TypedValues("integer", list(range(rows))), "text": TypedValues("text", ["a", None] * (rows // 2))}
    assert pl.read_parquet(io.BytesIO(to_parquet(table))).equals(frame_of(table))
    assert from_parquet(to_parquet(table)) == table


def test_files_of_polars_are_read() -> None:
    file = io.BytesIO()
    frame_of(TABLE).write_parquet(file)
    assert from_parquet(file.getvalue()) == TABLE


def test_damage_is_an_error() -> None:
    """A file that was cut anywhere; and one with bytes changed is refused, or read as polars reads it."""
    content, generator = to_parquet(TABLE), Random(3)
    for end in range(len(content)):
        with pytest.raises((ValueError, pl.exceptions.PolarsError)):
            from_parquet(content[:end])
    errors = 0
    for place in chain(range(len(content)), (generator.randrange(len(content)) for _ in range(2000))):
        changed = bytearray(content)
        changed[place] ^= generator.randrange(1, 256)
        try:
            from_parquet(bytes(changed))
        except (ValueError, pl.exceptions.PolarsError):
            errors += 1
    assert errors > 1000
