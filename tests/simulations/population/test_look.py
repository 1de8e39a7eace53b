"""What a simulation says of its rows: each kind fires on a table that has the fault, and none on one that has not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from consilium.protocol.errors import NotEnoughParties
from consilium.report.warnings import warnings_of
from consilium.simulations.datasets.source import open_source
from consilium.simulations.population.public import look
from consilium.simulations.scenario import load_scenario
from tests.simulations.datasets.own import HOSPITALS, divided, patients, table_keys

ROWS, COUNT = 60, 60 * len(HOSPITALS)
PUBLIC = {"by": "owner", "owners": ["Nord", "West"]}
GENERATOR = np.random.default_rng(11)


def sound(**changes: Any) -> pl.DataFrame:
    """A table without a fault: enough rows, numbers that make them differ."""
    return patients(ROWS, **{"dose": np.round(GENERATOR.uniform(0, 5, COUNT), 4).tolist(), **changes})


def outcomes() -> pl.Series:
    return patients(ROWS)["outcome"]


def copied() -> pl.DataFrame:
    """Half of the rows of one hospital stand at the next one, too."""
    frame = sound()
    again = frame.slice(0, ROWS // 2).with_columns(pl.lit(HOSPITALS[2]).alias("hospital"))
    return pl.concat([frame, again])


FAULTS: dict[str, tuple[Callable[[], pl.DataFrame], dict[str, Any]]] = {
    "column 'died' says the label": (lambda: sound(died=(outcomes() == "dead").to_list()), {}),
    "no public row is 'lost', of 120": (sound, {"classes": ["alive", "dead", "lost"]}),
    "30 public rows can be asked and 30 are the test set, below 50": (sound,
     {"public": {"by": "owner", "owners": ["Nord"]}}),
    "22.2% of the private rows stand at a second party": (copied, {}),
    "partition made 4 parties, and 3 of them take part: 1 has fewer": (lambda: sound().slice(0, COUNT - ROWS + 5),
     {"least_rows": 6}),
}  # fmt: skip


def texts(folder: Path, frame: pl.DataFrame, keys: dict[str, Any]) -> list[str]:
    frame.write_csv(folder / "patients.csv")
    data, parts = divided(folder, table_keys(**{"public_share": None, "public": PUBLIC, **keys}))
    spec = load_scenario(str(folder / "own.toml")).data
    return [warning["text"] for warning in warnings_of(look(spec, 1, data, parts))]


def test_a_sound_table_is_not_warned_of(tmp_path: Path) -> None:
    assert texts(tmp_path, sound(), {}) == []


@pytest.mark.parametrize("told", FAULTS)
def test_each_fault_is_told_and_no_other(tmp_path: Path, told: str) -> None:
    make, keys = FAULTS[told]
    (text,) = texts(tmp_path, make(), keys)
    assert told in text


def numbered_from_one() -> pl.DataFrame:
    """Each hospital's patients are 1, 2 and so on; one row has no label, and one is a copy."""
    frame = sound(pid=(np.arange(COUNT) % ROWS + 1).tolist())
    unlabelled = frame.with_columns(pl.when(pl.int_range(COUNT) > 0).then("outcome").alias("outcome"))
    return pl.concat([unlabelled, unlabelled[-1:]])


def test_rows_left_out_are_counted_by_why(tmp_path: Path) -> None:
    """All but the public owners' rows are of patients who are at one of these."""
    numbered_from_one().write_csv(tmp_path / "patients.csv")
    keys = {"public": PUBLIC, "public_share": None, "patient": "pid", "unlabelled": "drop", "duplicates": "drop"}
    with pytest.raises(NotEnoughParties, match=f"{COUNT - 2 * ROWS - 1} rows of patients .* put the .* name before"):
        divided(tmp_path, table_keys(**keys))
    spec = load_scenario(str(tmp_path / "own.toml")).data
    dataset = open_source(spec).dataset(np.arange(COUNT - 1))
    assert dataset.left_out == {"that equal another one in every column": 1, "without a label": 1}


LEAKS: dict[str, Callable[[], list[Any]]] = {
    "the label itself": lambda: outcomes().to_list(),
    "other words": lambda: outcomes().replace({"alive": "home", "dead": "morgue"}).to_list(),
    "a number that divides": lambda: [10 + at % 5 if says == "dead" else at % 7 for at, says in enumerate(outcomes())],
}
NO_LEAKS: dict[str, Callable[[], list[Any]]] = {
    "one row is other": lambda: ["dead" if 60 <= at < 90 else says for at, says in enumerate(outcomes())],
    "chance": lambda: GENERATOR.integers(0, 2, COUNT).tolist(),
}


@pytest.mark.parametrize("kind", [*LEAKS, *NO_LEAKS])
def test_leaks(tmp_path: Path, kind: str) -> None:
    made = {**LEAKS, **NO_LEAKS}[kind]()
    assert len(texts(tmp_path, sound(other=made), {})) == (kind in LEAKS)


def test_shipped_sets_are_not_looked_at_column_by_column() -> None:
    from consilium.simulations.scenario import divided_data

    scenario = load_scenario("stroke", ["data.least_rows=20"])
    (warning,) = warnings_of(look(scenario.data, 800, *divided_data(scenario, 0)))  # of the division, not of a column
    assert "371 parties, and 207 of them take part" in warning["text"] and "data.least_rows = 20" in warning["text"]
