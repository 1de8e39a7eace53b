"""Three more tables with faults of other kinds and other names, written once the rules stood: what is found is counted.

Each gives the bytes of a file, how its columns are named, and the faults: a column, and the codes that name it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class Stranger(NamedTuple):
    """suffix: of the file. roles: options of the command. faults: column ("" of the file) and codes, any of which is
    it."""

    content: bytes
    suffix: str
    roles: dict[str, Any]
    faults: tuple[tuple[str, str], ...]


def _csv(columns: dict[str, list[Any]], mark: str) -> list[str]:
    rows = zip(*columns.values(), strict=True)
    return [mark.join(columns), *(mark.join(map(str, row)) for row in rows)]


def german(seed: int = 0) -> Stranger:
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
    faults = (
        ("", "encoding"), ("Gewicht", "decimal-comma"), ("CRP", "number-in-text"), ("Alter", "text-in-numbers"),
        ("Geburtsdatum", "dates"), ("Bemerkung", "identifier"),
        ("Klinik", "owner-spelling"), ("Befund", "label-missing"),
    )  # fmt: skip
    content = "\r\n".join(_csv(columns, ";")).encode("cp1252")
    return Stranger(content, ".csv", {"label": "Befund", "owner": "Klinik"}, faults)


def american(seed: int = 0) -> Stranger:
    """A claims table: tabs, a mark of byte order, thousands, percent, -999, copies, patients at two sites."""
    generator, count = np.random.default_rng([seed, 12]), 640
    sites = ("Northfield", "Lakeside", "Hilltop", "Riverbend", "Oakwood", "Bayview", "Summit", "Fairmont")
    site = generator.integers(0, 8, count)
    weight = generator.normal(80, 11, count)
    charges = generator.lognormal(8.5, 0.7, count)
    bad = generator.normal(0, 1, count) + (weight - 80) / 12 > 0.4
    columns: dict[str, list[Any]] = {
        "member": [f"M{generator.integers(0, 400):04d}" for _ in range(count)],
        "charges": [f"{value:,.2f}" for value in charges],
        "weight": [f"{value * (2.2046 if site[row] in (2, 5) else 1):.1f}" for row, value in enumerate(weight)],
        "saturation": [f"{generator.integers(80, 100)}%" for _ in range(count)],
        "pressure": generator.integers(90, 190, count).tolist(),
        "insurance": generator.choice(["Medicare", "Medicaid", "private", "Private ", "MEDICARE"], count).tolist(),
        "country": ["US"] * count,
        "remarks": [""] * count,
        "survival_days": generator.integers(1, 900, count).tolist(),
        "site": [sites[place] for place in site],
        "readmitted": [str(value) for value in bad],
    }
    for row in generator.choice(count, 20, replace=False):
        columns["pressure"][row] = -999
    for row in generator.choice(count, 40, replace=False):
        columns["readmitted"][row] = {"True": "T", "False": "F"}[columns["readmitted"][row]]
    for row in [row for row in range(count) if site[row] == 0][::9]:
        columns["site"][row] = "Northfeild"
    for row in range(12):
        for name, values in columns.items():
            values[count - 1 - row] = "Lakeside" if name == "site" else values[row]
    lines = _csv(columns, "\t")
    lines.insert(300, lines[0])
    lines[50] = lines[50].replace("\t", ",")
    faults = (
        ("charges", "thousands"), ("saturation", "number-in-text"), ("remarks", "empty"),
        ("", "rows-twice"), ("", "lines-header"), ("", "lines-torn"), ("member", "patient-twice"),
    )  # fmt: skip
    content = "\ufeff".encode() + "\n".join(lines).encode()
    return Stranger(content, ".tsv", {"label": "readmitted", "owner": "site", "patient": "member"}, faults)


def trial(seed: int = 0) -> Stranger:
    """A trial's table, put together by hand: codes that differ, tiny centres, gaps that say the label, names twice."""
    generator, count = np.random.default_rng([seed, 13]), 400
    centre = np.where(generator.random(count) < 0.015, 9, generator.integers(0, 8, count))
    female = generator.random(count) < 0.5
    score = generator.normal(10, 3, count)
    outcome = np.where(score + generator.normal(0, 2, count) > 11, "responder", "non-responder").astype(object)
    outcome[centre == 6] = "responder"
    columns: dict[str, list[Any]] = {
        "uuid": [f"{generator.integers(0, 2**40):010x}-{row}" for row in range(count)],
        "gender": [
            ("1" if female[row] else "2") if centre[row] in (1, 4) else ("f" if female[row] else "m")
            for row in range(count)
        ],
        "score": [f"{value:.2f}" for value in score],
        "creatinine": [
            f"{value:.0f} {'umol/l' if row % 3 else 'mg/dl'}"
            for row, value in enumerate(generator.normal(80, 15, count))
        ],
        "visit": [
            f"2023-0{1 + row % 9}-11" if row % 2 else f"{1 + row % 28}/{1 + row % 12}/2023" for row in range(count)
        ],
        "reason": ["improved" if text == "responder" else "" for text in outcome],
        "biopsy": ["positive" if row % 97 == 0 else "" for row in range(count)],
        "city": generator.choice(["ZÃ¼rich", "Bern", "Basel"], count).tolist(),
        "centre": [f"C{place:02d}" for place in centre],
        "outcome": outcome.tolist(),
    }
    columns["score"][17] = columns["score"][230] = "inf"
    for row in generator.choice(count, 3, replace=False):
        columns["outcome"][row] = "drop-out"
    for row in (5, 6):
        columns["centre"][row] = ""
    lines = _csv(columns, ",")
    lines[0] = lines[0].replace("city", "score")
    faults = (
        ("uuid", "identifier"), ("creatinine", "number-in-text"),
        ("visit", "dates"), ("biopsy", "nearly-empty"),
        ("score", "text-in-numbers"), ("score", "name-twice"), ("outcome", "label-many-classes"),
        ("centre", "owner-missing"),
    )  # fmt: skip
    return Stranger("\n".join(lines).encode(), ".csv", {"label": "outcome", "owner": "centre"}, faults)


STRANGERS = {"german": german, "american": american, "trial": trial}
