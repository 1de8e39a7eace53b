"""Fits that take half a second: no plan, and no report. All else is as it is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

QUICK: dict[str, Any] = {
    "unit": "party",
    "mechanism": {"name": "histogram", "sigma": 1.0},
    "queries": 20,
    "epsilon": None,
    "noise": "seeded",
    "random_state": 0,
    "manual_labels": "none",
}
"""No plan, no calibration, hardly any noise."""


@contextmanager
def quick_fits() -> Iterator[None]:
    """Within it runs write a page without a drawing."""

    def page(data: object, path: Path, public: bool = False) -> None:
        path.write_text("<html></html>", encoding="utf-8")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("consilium.simulations.report.build.write_report", page)
        yield


def hospitals(count: int = 8, rows: int = 20, seed: int = 0) -> pl.DataFrame:
    """Patients with numbers, a category and gaps; who is "ill" follows from the first number and the category."""
    generator = np.random.default_rng(seed)
    n = count * rows
    age, pressure = generator.normal(60, 10, n), generator.normal(130, 15, n)
    sex = generator.choice(["f", "m"], n)
    ill = (age - 60) / 10 + (sex == "m") + generator.normal(0, 0.3, n) > 0.5
    gaps = np.where(generator.random(n) < 0.1, np.nan, pressure)
    frame = pl.DataFrame({"age": age, "pressure": gaps, "sex": sex, "ill": np.where(ill, "yes", "no")})
    return frame.with_columns(
        pl.col("pressure").fill_nan(None), pl.Series("hospital", [f"H{at // rows:02d}" for at in range(n)])
    )
