"""Tables that a stranger might have, and scenarios about them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import tomli_w

from consilium.simulations.datasets.base import Dataset
from consilium.simulations.population.partition import Partition
from consilium.simulations.scenario import divided_data, load_scenario

HOSPITALS = ("St. Anna", "Nord", "Süd", "Nord 2", "West", "Ost")
FEDERATION = {
    "name": "own data",
    "minimum_parties": 2,
    "collection": "plaintext",
    "privacy": {"unit": "party", "delta": 1e-5},
    "query_budget": {"queries": 20, "answers": 20},
    "mechanism": {"name": "gnmax", "sigma": 5.0},
    "timeouts": {"enrol": 1000, "train": 1000, "vote": 1000},
}


def patients(rows: int = 40, **changes: Any) -> pl.DataFrame:
    """`rows` patients of each hospital: two numbers (one of them sometimes missing), two categories, an outcome.

    changes: columns by name instead of these, None to leave one away.
    """
    generator, count = np.random.default_rng(7), rows * len(HOSPITALS)
    age = generator.integers(20, 90, count)
    missing = generator.random(count) < 0.1
    columns: dict[str, Any] = {
        "age": age.tolist(),
        "crp": [None if gone else round(float(value), 1) for gone, value in zip(missing, age / 10, strict=True)],
        "sex": generator.choice(["f", "m"], count).tolist(),
        "stage": generator.choice(["I", "II", "III"], count).tolist(),
        "hospital": np.repeat(HOSPITALS, rows).tolist(),
        "case": [f"p{at // 2:04d}" for at in range(count)],
        "day": [f"2023-{1 + at % 12:02d}-{1 + at % 28:02d}" for at in range(count)],
        "outcome": np.where(age + generator.normal(0, 10, count) > 55, "dead", "alive").tolist(),
    }
    return pl.DataFrame({name: values for name, values in {**columns, **changes}.items() if values is not None})


def table_keys(**changes: Any) -> dict[str, Any]:
    """The table `[data]` of `patients`; None leaves a key away."""
    keys = {
        "set": "table",
        "path": "patients.csv",
        "label": "outcome",
        "owner": "hospital",
        "drop": ["case", "day"],
        "public_share": 0.34,
    }
    return {name: value for name, value in {**keys, **changes}.items() if value is not None}


def write_scenario(folder: Path, data: dict[str, Any], **tables: Any) -> Path:
    """A scenario with this `[data]`; tables: others than those of the default."""
    path = folder / "own.toml"
    path.write_text(tomli_w.dumps({"data": data, "federation": FEDERATION, **tables}), encoding="utf-8")
    return path


def divided(folder: Path, data: dict[str, Any], seed: int = 0) -> tuple[Dataset, Partition]:
    """What a scenario with this `[data]` makes of the files in `folder`."""
    return divided_data(load_scenario(str(write_scenario(folder, data)), []), seed)
