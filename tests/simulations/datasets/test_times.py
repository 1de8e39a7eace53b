"""When rows were: it comes through every kind of data, whatever is public."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from consilium.protocol.errors import DataError
from tests.simulations.datasets.own import divided, patients, table_keys

ROWS = 240
DAYS = [f"2024-01-{1 + at % 28:02d}" for at in range(ROWS)]
EXPECTED = np.array([19723.0 + at % 28 for at in range(ROWS)])
"""Days since 1970-01-01."""
TABLES: dict[str, tuple[list[Any], np.ndarray]] = {
    "dates": (DAYS, EXPECTED),
    "dates with hours": ([f"{day}T12:00:00" for day in DAYS], EXPECTED + 0.5),
    "numbers": ([at / 4 for at in range(ROWS)], np.arange(ROWS) / 4),
    "one is missing": ([None, *DAYS[1:]], np.where(np.arange(ROWS) == 0, np.nan, EXPECTED)),
}


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("case", TABLES)
def test_of_a_table(tmp_path: Path, case: str, suffix: str) -> None:
    days, expected = TABLES[case]
    frame = patients(day=days)
    (frame.write_csv if suffix == "csv" else frame.write_parquet)(tmp_path / f"patients.{suffix}")
    data, _ = divided(tmp_path, table_keys(path=f"patients.{suffix}", time="day", drop=["case"]))
    assert data.time is not None and data.time.dtype == np.float64
    np.testing.assert_array_equal(data.time, expected)
    assert "day" not in data.features


def test_public_rows_of_their_own_file_may_have_none(tmp_path: Path) -> None:
    patients(day=DAYS).write_csv(tmp_path / "patients.csv")
    patients(day=None).write_csv(tmp_path / "public.csv")
    keys = table_keys(time="day", drop=["case"], public_share=None, public={"by": "file", "file": "public.csv"})
    data, _ = divided(tmp_path, keys)
    assert data.time is not None
    np.testing.assert_array_equal(data.time, [*EXPECTED, *[np.nan] * ROWS])


@pytest.mark.parametrize("value", ["31.12.2024", "soon"])
def test_no_time(tmp_path: Path, value: str) -> None:
    patients(day=[*DAYS[1:], value]).write_csv(tmp_path / "patients.csv")
    with pytest.raises(DataError, match=r"patients\.csv: column 'day', row 240: .* neither an ISO date") as caught:
        divided(tmp_path, table_keys(time="day", drop=["case"]))
    assert caught.value.action


ARRAYS: dict[str, tuple[np.ndarray, np.ndarray]] = {
    "days": (np.array(DAYS, dtype="datetime64[D]"), EXPECTED),
    "seconds": (np.array(DAYS, dtype="datetime64[s]") + np.timedelta64(6, "h"), EXPECTED + 0.25),
    "one is missing": (
        np.where(np.arange(ROWS) == 0, np.datetime64("NaT"), np.array(DAYS, dtype="datetime64[D]")),
        np.where(np.arange(ROWS) == 0, np.nan, EXPECTED),
    ),
    "numbers": (np.arange(ROWS) / 4, np.arange(ROWS) / 4),
}


def write_arrays(folder: Path, time: np.ndarray) -> dict[str, Any]:
    """rows.npz and the table `[data]` of it."""
    x = np.random.default_rng(0).standard_normal((ROWS, 3))
    np.savez(folder / "rows.npz", x=x, y=np.arange(ROWS) % 2, owner=np.arange(ROWS) // 40, time=time)
    return {"set": "npz", "path": "rows.npz", "public_share": 0.25}


@pytest.mark.parametrize("case", ARRAYS)
def test_of_arrays(tmp_path: Path, case: str) -> None:
    given, expected = ARRAYS[case]
    data, _ = divided(tmp_path, write_arrays(tmp_path, given))
    assert data.time is not None
    np.testing.assert_array_equal(data.time, expected)


def test_arrays_with_too_few_times(tmp_path: Path) -> None:
    keys = write_arrays(tmp_path, np.arange(3.0))
    with pytest.raises(DataError, match=r"time has shape \(3,\) of float64, 240 dates or numbers are needed"):
        divided(tmp_path, keys)
