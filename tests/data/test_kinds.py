"""What a table says is what is learnt, kind by kind of what went wrong for others; causes are in test_data_check."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from consilium.data.encoding import infer
from consilium.data.texts import texts_of
from consilium.protocol.config_files import validate
from consilium.protocol.errors import ConsiliumError
from consilium.simulations.council.frames import frame_of, values_of
from consilium.simulations.datasets.source import open_tables
from consilium.simulations.population.specs import DataSpec

pandas, arrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
BIG = 2**60
"""float64 does not tell it from its neighbours."""


def series(values: Any, **keys: Any) -> Any:
    return pandas.DataFrame({"a": pandas.Series(values, **keys)})


HELD: dict[str, tuple[Callable[[], Any], list[str | None]]] = {
    "whole numbers": (lambda: pandas.array([BIG, BIG + 1, None], dtype="Int64"), [str(BIG), str(BIG + 1), None]),
    "an index": (lambda: pandas.Index([BIG, BIG + 1, 7]), [str(BIG), str(BIG + 1), "7"]),
    "chunks": (lambda: arrow.chunked_array([[BIG, BIG + 1], [None]]), [str(BIG), str(BIG + 1), None]),
    "huge": (lambda: [2**200, 2**200 + 1, None], [str(2**200), str(2**200 + 1), None]),
    "a frame": (lambda: pandas.DataFrame({"a": [BIG, BIG + 1, 7]}), [str(BIG), str(BIG + 1), "7"]),
    "a dictionary": (lambda: arrow.array(["b", None, "a"]).dictionary_encode(), ["b", None, "a"]),
    "a mask": (lambda: np.ma.masked_array(["a", "b", "c"], mask=[False, True, False]), ["a", None, "c"]),
    "half floats": (lambda: np.array([1, np.nan, 3], dtype=np.float16), ["1", None, "3"]),
    "a list": (lambda: ["a", None, "b"], ["a", None, "b"]),
    "floats with a gap": (lambda: np.array([1.0, np.nan, 2.0]), ["1", None, "2"]),
    "leading zeros": (lambda: np.array(["01", "1", "1.0"]), ["01", "1", "1"]),
    "an enum": (lambda: pl.Series(["b", None, "a"], dtype=pl.Enum(["b", "a"])), ["b", None, "a"]),
    "truth values": (lambda: pandas.array([True, None, False], dtype="boolean"), ["true", None, "false"]),
}


@pytest.mark.parametrize("form", HELD)
def test_names_of_owners_stay_what_they_are(form: str) -> None:
    make, expected = HELD[form]
    assert texts_of(values_of(make(), "owners", 3)).to_list() == expected


CATEGORIES: dict[str, tuple[Callable[[], Any], tuple[str, ...]]] = {
    "ordered numbers": (lambda: series(pandas.Categorical([3, 1, 3], [3, 1, 2], ordered=True)), ("1", "3")),
    "fractions": (lambda: series(pandas.Categorical([1.5, None, 1.0])), ("1", "1.5")),
    "truth values": (lambda: series(pandas.Categorical([True, False, True])), ("false", "true")),
    "dates": (lambda: series(pandas.Categorical(pandas.to_datetime(["2020-01-02"] * 3))), ("2020-01-02T00:00:00",)),
    "a dictionary": (lambda: arrow.table({"a": arrow.array([10, 9, 10]).dictionary_encode()}), ("9", "10")),
    "an enum": (lambda: pl.DataFrame({"a": pl.Series(["b"], dtype=pl.Enum(["c", "b"]))}), ("c", "b")),
    "types mixed": (lambda: np.array([[1], ["01"], [2.5]], dtype=object), ("01", "1", "2.5")),
    "types that text holds": (lambda: series([1, "a", None], dtype="object"), ("1", "a")),
}


@pytest.mark.parametrize("form", CATEGORIES)
def test_categories_stay_categories(form: str) -> None:
    make, expected = CATEGORIES[form]
    (column,) = infer(frame_of(make()))
    assert (column.kind, column.values) == ("category", expected)


def test_a_category_of_pandas_in_parquet(tmp_path: Path) -> None:
    """pandas alone knows that it is one."""
    table = pandas.DataFrame({"a": pandas.Categorical([2, 1, 2]), "y": ["n", "y", "n"]})
    table.to_parquet(tmp_path / "a.parquet")
    source = open_tables(validate({"set": "table", "path": str(tmp_path / "a.parquet"), "label": "y"}, DataSpec, ""))
    assert source.dataset(np.arange(3)).features == ("a=2",)


def table(folder: Path, text: str, **keys: Any) -> Any:
    """What a run reads of a file, and how many rows it says that it left out."""
    path = folder / "a.csv"
    path.write_text(text, encoding="utf-8")
    keys = {"set": "table", "path": str(path), "label": "y", "owner": "site", **keys}
    source = open_tables(validate(keys, DataSpec, ""))
    return source.dataset(np.arange(len(source.y)))


HEAD = "age,site,y\n"
ROWS = "".join(f"{30 + row},{'abcd'[row % 4]},{'yn'[row % 2]}\n" for row in range(8))
LEFT_OUT: dict[str, tuple[str, dict[str, Any], int]] = {
    "no label": (HEAD + ROWS + "1,a,\n2,a, \n", {"unlabelled": "drop"}, 2),
    "a text for no label": (HEAD + ROWS + "1,a,?\n", {"unlabelled": "drop", "missing": ["?"]}, 1),
    "copies": (HEAD + ROWS + ROWS, {"duplicates": "drop"}, 8),
    "both": (HEAD + ROWS + ROWS + "1,a,\n", {"duplicates": "drop", "unlabelled": "drop"}, 9),
}


@pytest.mark.parametrize("case", LEFT_OUT)
def test_rows_that_are_left_out_are_counted(tmp_path: Path, case: str) -> None:
    text, keys, count = LEFT_OUT[case]
    found = table(tmp_path, text, **keys)
    assert (sum(found.left_out.values()), len(found.y)) == (count, 8)


OF_LIBRARIES: dict[str, Callable[[], Any]] = {
    "decimals of 256 bits": lambda: arrow.table({"a": arrow.array([Decimal(1)], type=arrow.decimal256(50, 2))}),
    "runs": lambda: arrow.table({"a": arrow.RunEndEncodedArray.from_arrays([2], [1])}),
    "intervals": lambda: arrow.table({"a": arrow.array([arrow.MonthDayNano((1, 2, 3))])}),
    "two columns of one name": lambda: pandas.DataFrame([[1, 2]], columns=["a", "a"]),
    "names that are text alike": lambda: pandas.DataFrame([[1, 2]], columns=[0, "0"]),
    "a column without a name": lambda: pandas.DataFrame([[1, 2]], columns=["", "b"]),
    "periods": lambda: series(pandas.period_range("2020", periods=3, freq="M")),
    "ranges": lambda: series(pandas.interval_range(0, 3)),
    "bytes": lambda: np.array([[b"a"], [b"b"]]),
    "lists": lambda: pl.DataFrame({"a": [[1]]}),
    "structures": lambda: pl.DataFrame({"a": [{"b": 1}]}),
    "durations": lambda: pl.DataFrame({"a": [datetime.timedelta(1)]}),
    "times of day": lambda: arrow.table({"a": arrow.array([datetime.time(1)])}),
    "objects": lambda: pl.DataFrame({"a": pl.Series([object()], dtype=pl.Object)}),
    "long doubles": lambda: np.array([[2**60 + 1]], dtype=np.longdouble) + np.longdouble(1),
    "nothing but nulls": lambda: arrow.table({"a": arrow.nulls(3)}),
}


@pytest.mark.parametrize("case", OF_LIBRARIES)
def test_what_cannot_be_read_is_said_by_our_own_errors(case: str) -> None:
    with pytest.raises(ConsiliumError) as caught:
        infer(frame_of(OF_LIBRARIES[case]()))
    assert caught.value.action


def test_labels_and_owners_are_names_whatever_they_read_as(tmp_path: Path) -> None:
    rows = "".join(
        f"{30 + row},{('inf', '1e400', 'nan', '07')[row % 4]},{('INF', '1e39')[row % 2]}\n" for row in range(8)
    )
    found = table(tmp_path, HEAD + rows)
    assert found.classes == ("1e39", "INF") and found.owner_names == ("07", "1e400", "inf", "nan")
