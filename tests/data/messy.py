"""A table of ten hospitals, and faults that people's tables have, planted from a seed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

NAMES = ("Anna", "Berta", "Carl", "Dora", "Emil", "Frida", "Gustav", "Heidi", "Ida", "Jakob")
HOSPITALS = tuple(f"{name} Hospital" for name in NAMES)
ROWS = 600
MISSING = ["NA", "-", "?"]


def clean(seed: int = 0) -> pl.DataFrame:
    """Nothing is wrong with it, as text: numbers, a stage, two truths, a sex, hospital and label."""
    generator = np.random.default_rng(seed)
    hospital = generator.integers(0, len(HOSPITALS), ROWS)
    age, glucose = generator.integers(20, 90, ROWS), generator.normal(6.5, 1.3, ROWS).clip(3, 11)
    bmi, dose = generator.normal(26, 4, ROWS).clip(15, 45), generator.integers(5, 60, ROWS)
    risk = 0.06 * (age - 55) + 0.5 * (glucose - 6.5) + generator.normal(0, 1, ROWS)
    return pl.DataFrame(
        {
            "age": [str(value) for value in age],
            "bmi": [f"{value:.1f}" for value in bmi],
            "glucose": [f"{value:.1f}" for value in glucose],
            "dose": [str(value) for value in dose],
            "smoker": generator.choice(["yes", "no"], ROWS).tolist(),
            "sex": generator.choice(["male", "female"], ROWS).tolist(),
            "stage": generator.choice(["I", "II", "III"], ROWS).tolist(),
            "hospital": [HOSPITALS[place] for place in hospital],
            "ill": np.where(risk > 0, "yes", "no").tolist(),
        }
    )


FAULTS = (
    ("'dose'", "a unit or a bound"),
    ("'bmi'", "decimal comma"),
    ("'age'", "text in a column of numbers"),
    ("'admitted'", "is of dates"),
    ("'hospital'", "differ in case"),
    ("'ill'", "differ in case"),
    ("", "4 rows equal another one"),
    ("", "2 of 604 rows have more or fewer fields"),
)
"""Column and words of each planted fault."""


def plant(seed: int, frame: pl.DataFrame | None = None) -> str:
    """The table with all of them, as CSV."""
    generator = np.random.default_rng([seed, 1])
    columns = {name: list(values) for name, values in (frame or clean(seed)).to_dict(as_series=False).items()}

    def some(count: int) -> list[int]:
        return generator.choice(ROWS, count, replace=False).tolist()

    for row in some(9):
        columns["dose"][row] += generator.choice([" mg", "mg"])
    for row in some(7):
        columns["bmi"][row] = columns["bmi"][row].replace(".", ",")
    for place, row in enumerate(some(12)):
        columns["age"][row] = MISSING[place % 3]
    columns["admitted"] = [f"2024-{1 + row % 12:02d}-{1 + row % 28:02d}" for row in range(ROWS)]
    for row in [row for row in range(ROWS) if columns["hospital"][row] == HOSPITALS[2]][::3]:
        columns["hospital"][row] = HOSPITALS[2].lower()
    for row in some(5):
        columns["ill"][row] = columns["ill"][row].upper()
    text = pl.DataFrame(columns).write_csv().splitlines()
    for row in sorted(some(2)):
        text[1 + row] = text[1 + row].rsplit(",", 2)[0]
    copies = [line for line in text[1:9] if line.count(",") == text[0].count(",")][:4]
    return "\n".join([*text, *copies]) + "\n"


def write(folder: Path, text: str, name: str = "patients.csv") -> Path:
    """A file of this text."""
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def _csv(columns: dict[str, list[Any]], mark: str) -> list[str]:
    rows = zip(*columns.values(), strict=True)
    return [mark.join(columns), *(mark.join(map(str, row)) for row in rows)]


def german(seed: int = 0) -> bytes:
    """A clinic's export: semicolons, Windows letters, decimal commas, words of another language."""
    generator, count = np.random.default_rng([seed, 11]), 480
    clinics = ("Süd", "Nord", "West", "Ost", "Mitte", "Altstadt")
    clinic = generator.integers(0, 6, count)
    woman = generator.random(count) < 0.5
    height = generator.normal(172, 9, count)
    value = generator.normal(40, 12, count).clip(6)
    ill = value + generator.normal(0, 9, count) > 42
    columns: dict[str, list[Any]] = {
        "Fall-Nr": [10_000 + place for place in range(count)],
        "Alter": generator.integers(18, 95, count).tolist(),
        "Größe": [
            f"{size:.0f}" if clinic[row] < 3 else f"{size / 100:.2f}".replace(".", ",")
            for row, size in enumerate(height)
        ],
        "Gewicht": [f"{size:.1f}".replace(".", ",") for size in generator.normal(75, 12, count)],
        "Geschlecht": [
            ("w" if woman[row] else "m") if clinic[row] % 2 else ("weiblich" if woman[row] else "männlich")
            for row in range(count)
        ],
        "Raucher": generator.choice(["ja", "nein", "Ja", "NEIN"], count).tolist(),
        "CRP": [f"{size:.1f}".replace(".", ",") for size in value],
        "Geburtsdatum": [f"{1 + row % 28:02d}.{1 + row % 12:02d}.{1940 + row % 60}" for row in range(count)],
        "Bemerkung": [f"Patient kam am Tag {row} wegen Nr {row * 7}" for row in range(count)],
        "Klinik": [clinics[place] for place in clinic],
        "Befund": ["krank" if sick else "gesund" for sick in ill],
    }
    for row in generator.choice(count, 8, replace=False):
        columns["CRP"][row] = "<5"
    for row in generator.choice(count, 6, replace=False):
        columns["Alter"][row] = "k.A."
    for row in [row for row in range(count) if clinic[row] == 0][::4]:
        columns["Klinik"][row] = "SÜD "
    for row in generator.choice(count, 5, replace=False):
        columns["Befund"][row] = ""
    return "\r\n".join(_csv(columns, ";")).encode("cp1252")


GERMAN = (
    ("", "is not utf-8"), ("", "one column only"), ("'Gewicht'", "decimal comma"), ("'CRP'", "a unit or a bound"),
    ("'Alter'", "'k.A.'"), ("'Geburtsdatum'", "is of dates"), ("'Bemerkung'", "an identifier"),
    ("'Klinik'", "differ in case"), ("Befund", "has no value"),
)  # fmt: skip
"""Column and words of what is wrong with it; none of the rules was written for it."""
