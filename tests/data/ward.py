"""An export of forty wards with twelve faults of people's tables, planted from a seed."""

from __future__ import annotations

import numpy as np
import polars as pl

WARDS = tuple(f"Ward {place:02d}" for place in range(40))
WARM = WARDS[5:12]
"""They write degrees Fahrenheit."""
FAULTS = (
    ("ward", "owner-spelling"),
    ("admitted", "dates"),
    ("sex", "spelling"),
    ("temperature", "two-units"),
    ("pulse", "stand-in"),
    ("lactate", "decimal-comma"),
    ("crp", "bound"),
    ("platelets", "text-in-numbers"),
    ("platelets", "missing-codes"),
    ("remark", "empty"),
    ("sepsis", "label-missing"),
    ("sepsis", "label-spelling"),
    ("next", "says-label"),
    ("", "rows-copied"),
)
"""Column and code: twelve kinds of faults, two of which stand twice."""


def ward(seed: int) -> pl.DataFrame:
    """The table, as text. Rows without a copy are those before the last 25."""
    generator, rows = np.random.default_rng([seed, 12]), 1600
    places = generator.choice(WARDS, rows)
    temperature, pulse = generator.normal(37.3, 0.8, rows), generator.normal(86, 14, rows)
    lactate, crp = generator.lognormal(0.5, 0.5, rows), generator.lognormal(3, 1.2, rows)
    ill = (temperature - 37.3) + np.log(lactate) + 0.5 * np.log(crp) - 2 + generator.normal(0, 0.8, rows) > 0
    sex = np.where(generator.random(rows) < 0.5, "female", "male")
    written = np.where(np.isin(places, WARM), temperature * 1.8 + 32, temperature)
    short = generator.random(rows) < 0.4
    columns = {
        "patient": [f"P{50_000 + row}" for row in range(rows)],
        "ward": [name.lower() if row % 60 == 0 else name for row, name in enumerate(places)],
        "admitted": [f"2024-03-{10 + row % 18}" if row % 3 else f"{1 + row % 28}.03.2024" for row in range(rows)],
        "sex": [text[0].upper() if some else text for text, some in zip(sex, short, strict=True)],
        "temperature": [f"{value:.1f}" for value in written],
        "pulse": [f"{value:.0f}" for value in pulse],
        "lactate": [
            f"{value:.1f}".replace(".", "," if name in WARDS[20:26] else ".")
            for value, name in zip(lactate, places, strict=True)
        ],
        "crp": ["<4" if value < 4 else f"{value:.1f}" for value in crp],
        "platelets": [f"{value:.0f}" for value in generator.normal(240, 60, rows)],
        "remark": [""] * rows,
        "next": np.where(ill, "ICU", "home").tolist(),
        "sepsis": np.where(short, np.where(ill, "1", "0"), np.where(ill, "yes", "no")).tolist(),
    }  # fmt: skip
    some = (("pulse", "999", 40), ("platelets", "clotted", 20), ("platelets", "n/a", 30), ("sepsis", "", 15))
    for column, text, count in some:
        for row in generator.choice(rows, count, replace=False):
            columns[column][row] = text
    frame = pl.DataFrame(columns)
    return pl.concat([frame, frame[generator.choice(rows, 25, replace=False)]])
