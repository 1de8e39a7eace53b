"""What a simulation says of its rows: each kind fires on a table that has the fault, and none on one that has not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from consilium.protocol.errors import NotEnoughParties
from consilium.report.row_warnings import RowFacts, of_rows
from consilium.report.warnings import SECRET
from consilium.simulations.datasets.source import open_source
from consilium.simulations.population.look import look
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
    "label-among-features": (lambda: sound(died=(outcomes() == "dead").to_list()), {}),
    "class-not-public": (sound, {"classes": ["alive", "dead", "lost"]}),
    "few-public-rows": (sound, {"public": {"by": "owner", "owners": ["Nord"]}}),
    "rows-twice": (copied, {}),
    "spelled-twice": (
        lambda: sound().with_columns(
            pl.when(pl.int_range(COUNT) % 2 > 0)
            .then(pl.col("hospital").replace("Ost", "ost\u200b"))
            .otherwise("hospital")
        ),
        {},
    ),
    "parties-too-small": (lambda: sound().slice(0, COUNT - ROWS + 5), {"least_rows": 6}),
}


def codes(folder: Path, frame: pl.DataFrame, keys: dict[str, Any]) -> list[str]:
    frame.write_csv(folder / "patients.csv")
    data, parts = divided(folder, table_keys(**{"public_share": None, "public": PUBLIC, **keys}))
    spec = load_scenario(str(folder / "own.toml")).data
    return [warning.code.value for warning in of_rows(look(spec, 1, data, parts))]


def test_a_sound_table_is_not_warned_of(tmp_path: Path) -> None:
    assert codes(tmp_path, sound(), {}) == []


@pytest.mark.parametrize("code", FAULTS)
def test_each_fault_is_told_and_no_other(tmp_path: Path, code: str) -> None:
    make, keys = FAULTS[code]
    assert codes(tmp_path, make(), keys) == [code]


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
    assert codes(tmp_path, sound(other=made), {}) == (["label-among-features"] if kind in LEAKS else [])


def test_shipped_sets_are_not_looked_at_column_by_column() -> None:
    from consilium.simulations.scenario import divided_data

    scenario = load_scenario("stroke", ["data.least_rows=20"])
    (warning,) = of_rows(look(scenario.data, 800, *divided_data(scenario, 0)))  # of the division, not of a column
    assert "371 parties, and 207 of them take part" in warning.text and "data.least_rows = 20" in warning.text


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"leaks": tuple("abcdefg")}, "column 'a', 'b', 'c', 'd', 'e' and 2 more says the label"),
        ({"brightest": 4095 / 65535}, "of the 400 public images is above 0.062 of white"),
        ({"twice": 0.25}, "25.0% of the private rows stand at a second party"),
        (
            {"parties": 41, "too_small": 21, "least_rows": 20},
            "41 parties, and 20 of them take part: 21 have fewer than data",
        ),
    ],
)
def test_words_have_figures(changes: dict[str, Any], told: str) -> None:
    sound = {"public": {"a": 1}, "askable": 200, "test": 200, "queries": 1, "different": 200}
    (warning,) = of_rows(RowFacts(**{**sound, **changes}))
    assert told in warning.text


def test_what_private_rows_say_is_secret() -> None:
    found = of_rows(
        RowFacts(public={"a": 0}, askable=0, test=0, queries=0, different=0, twice=1.0, parties=3, too_small=2)
    )
    secret = [warning.code.value for warning in found if warning.code in SECRET]
    assert secret == ["rows-twice", "parties-too-small"]
