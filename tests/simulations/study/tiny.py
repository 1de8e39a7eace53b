"""A study that takes seconds: a made-up table of eight owners, logistic teachers, two mechanisms, three seeds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import tomli_w

OWNERS, ROWS = 10, 400
SCENARIO: dict[str, Any] = {
    "data": {
        "set": "table", "path": "rows.csv", "label": "ill", "owner": "clinic", "classes": ["no", "yes"],
        "least_rows": 5,
    },
    "federation": {
        "name": "made up", "collection": "plaintext", "minimum_parties": 4,
        "teacher": {"model": "logistic_regression", "C": 0.3},
        "privacy": {"unit": "party", "delta": 1e-3},
        "query_budget": {"queries": 12, "answers": 12},
        "mechanism": {"name": "gnmax", "sigma": 2.0},
    },
    "student": {"trainer": {"name": "logistic_regression", "C": 0.1}},
}  # fmt: skip
IID = {"data": {"partition": "iid", "parties": 6, "least_rows": 5}}
STUDY: dict[str, Any] = {
    "study": {"title": "A tiny one", "seeds": 3, "methods": ["local", "plurality", "pate"]},
    "base": SCENARIO,
    "axis": [
        {"key": "federation.mechanism.sigma", "values": [2.0, 4.0]},
        {"name": "division", "points": {"natural": {"data": {"partition": "owners"}}, "iid": IID}},
    ],
}
SMALL = {"study": {**STUDY["study"], "seeds": 1}, "axis": STUDY["axis"][:1]}
"""One division, two mechanisms, one seed: six cells."""


def rows(seed: int = 0) -> pl.DataFrame:
    """ROWS rows of OWNERS clinics whose patients differ."""
    generator = np.random.default_rng(seed)
    clinic = generator.integers(0, OWNERS, ROWS)
    age = generator.normal(50 + 2 * clinic, 10)
    pulse = generator.normal(70, 8, ROWS)
    ill = 0.08 * (age - 58) + 0.05 * (pulse - 70) + generator.normal(0, 1, ROWS) > 0
    return pl.DataFrame(
        {
            "age": age.round(1),
            "pulse": pulse.round(1),
            "clinic": [f"clinic {each}" for each in clinic],
            "ill": np.where(ill, "yes", "no"),
        }
    )


def write_tiny(folder: Path, **study: Any) -> Path:
    """The study's file with its rows beside it; `study`: tables in place of those of STUDY."""
    folder.mkdir(parents=True, exist_ok=True)
    rows().write_csv(folder / "rows.csv")
    path = folder / "tiny.toml"
    path.write_text(tomli_w.dumps({**STUDY, **study}))
    return path
