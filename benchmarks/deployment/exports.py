"""CSV files as five hospitals export them, none like another, and what each one's data manager writes into party.toml.

The patients are made up; whoever is old, with much creatinine and a high pressure, is likelier to be ill.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

CLASSES = ("no disease", "disease")
COLUMNS = ("age", "sex", "creatinine", "pressure", "smoker")
MICROMOL, KILOPASCAL = 88.42, 0.133322
"""Of one mg/dl of creatinine, and of one mmHg."""


@dataclass(frozen=True)
class Patient:
    """One row in the federation's own words and units: years, mg/dl, mmHg."""

    number: int
    age: int
    sex: str
    creatinine: float
    pressure: float
    smoker: str
    ill: bool


def patients(count: int, seed: int) -> list[Patient]:
    """Made up from a seed."""
    draw = np.random.default_rng(seed)
    age = np.clip(np.rint(draw.normal(66, 13, count)), 18, 103).astype(int)
    creatinine = np.round(draw.lognormal(0.05, 0.3, count), 3)
    pressure = np.round(draw.normal(138, 20, count), 1)
    smoker = draw.random(count) < 0.3
    risk = (age - 66) / 13 + 2.5 * (creatinine - 1.1) + (pressure - 138) / 20 + smoker - 0.3
    ill = risk + draw.normal(0, 0.6, count) > 0
    return [
        Patient(
            seed * 100_000 + at, int(age[at]), ("female", "male")[draw.integers(2)], float(creatinine[at]),
            float(pressure[at]), ("no", "yes")[int(smoker[at])], bool(ill[at]),
        )
        for at in range(count)
    ]  # fmt: skip


def capped(patient: Patient) -> str:
    """An age, as who removes what identifies the oldest writes it."""
    return "> 89" if patient.age > 89 else str(patient.age)


def comma(value: float, digits: int) -> str:
    """As a spreadsheet of a country with decimal commas writes it."""
    return f"{value:.{digits}f}".replace(".", ",")


def every(number: int, text: str, otherwise: Callable[[Patient], str]) -> Callable[[Patient], str]:
    """`text` for one patient in so many, as where nobody measured."""
    return lambda patient: text if patient.number % number == 0 else otherwise(patient)


@dataclass(frozen=True)
class Export:
    """How one hospital writes its patients. settings: TOML that says so, below what the kit's party.toml has."""

    columns: Mapping[str, Callable[[Patient], str]]
    settings: str
    separator: str = ","
    encoding: str = "utf-8"
    quoting: int = csv.QUOTE_MINIMAL

    def write(self, path: Path, rows: list[Patient]) -> None:
        """The file."""
        with open(path, "w", newline="", encoding=self.encoding) as file:
            writer = csv.writer(file, delimiter=self.separator, quoting=self.quoting)  # type: ignore[arg-type]
            writer.writerow(self.columns)
            writer.writerows([[cell(row) for cell in self.columns.values()] for row in rows])


def map_columns(kit: Path, export: Export, file: str) -> None:
    """What the data manager adds to party.toml after `consilium party dry-run` has named everything that is wrong."""
    settings = kit / "party.toml"
    text = settings.read_text(encoding="utf-8").replace('data = "data.npz"', f'data = "{file}"')
    settings.write_text(f"{text}\n{export.settings}", encoding="utf-8")


def write_public(folder: Path, pool: int) -> None:
    """What the operator and the student have: public.csv, pool.csv (all that may be asked) and test.csv."""
    words = {name: (lambda row, name=name: str(getattr(row, name))) for name in COLUMNS}
    Export(words, "").write(folder / "public.csv", patients(400, 1))
    Export(words, "").write(folder / "pool.csv", patients(pool, 2))
    Export({**words, "outcome": lambda row: CLASSES[row.ill]}, "").write(folder / "test.csv", patients(300, 3))


EXPORTS: dict[str, Export] = {
    "cleveland": Export(
        {
            "PatientID": lambda row: str(row.number),
            "Age": capped,
            "Gender": lambda row: row.sex[0].upper(),
            "SBP": lambda row: f"{row.pressure:.0f}",
            "Smoking": lambda row: "current" if row.smoker == "yes" else "never",
            "Crea (mg/dL)": every(20, "", lambda row: f"{row.creatinine:.2f}"),
            "Event": lambda row: str(int(row.ill)),
        },
        """\
[columns]
age = { column = "Age", codes = { "> 89" = 90 } }
sex = { column = "Gender", values = { F = "female", M = "male" } }
creatinine = { column = "Crea (mg/dL)", missing = "mean" }
pressure = "SBP"
smoker = { column = "Smoking", values = { current = "yes", never = "no" } }
[label]
column = "Event"
classes = { "0" = "no disease", "1" = "disease" }
""",
    ),
    "budapest": Export(
        {
            "Kor": lambda row: comma(row.age, 0),
            "Nem": lambda row: "N" if row.sex == "female" else "F",
            "Kreatinin (µmol/l)": lambda row: comma(row.creatinine * MICROMOL, 1),
            "Vérnyomás": lambda row: comma(row.pressure, 1),
            "Dohányzik": lambda row: "igen" if row.smoker == "yes" else "nem",
            "Beteg": lambda row: "igen" if row.ill else "nem",
        },
        """\
[columns]
age = "Kor"
sex = { column = "Nem", values = { N = "female", F = "male" } }
creatinine = { column = "Kreatinin (µmol/l)", factor = 0.01131 }
pressure = "Vérnyomás"
smoker = { column = "Dohányzik", values = { igen = "yes", nem = "no" } }
[label]
column = "Beteg"
classes = { nem = "no disease", igen = "disease" }
[csv]
separator = ";"
decimal_comma = true
encoding = "cp1252"
""",
        separator=";",
        encoding="cp1252",
    ),
    "zurich": Export(
        {
            "Name": lambda row: f"Patient {row.number}",
            "Krank": lambda row: "ja" if row.ill else "nein",
            "Raucher": lambda row: "ja" if row.smoker == "yes" else "nein",
            "Blutdruck (kPa)": lambda row: f"{row.pressure * KILOPASCAL:.2f}",
            "Krea": lambda row: f"{row.creatinine:.2f}",
            "Geschlecht": lambda row: "w" if row.sex == "female" else "m",
            "Alter": every(25, "n/k", capped),
        },
        """\
[columns]
age = { column = "Alter", codes = { "> 89" = 90 }, missing_codes = ["n/k"], missing = "mean" }
sex = { column = "Geschlecht", values = { w = "female", m = "male" } }
creatinine = "Krea"
pressure = { column = "Blutdruck (kPa)", factor = 7.50062 }
smoker = { column = "Raucher", values = { ja = "yes", nein = "no" } }
[label]
column = "Krank"
classes = { nein = "no disease", ja = "disease" }
[csv]
separator = "\\t"
""",
        separator="\t",
        encoding="utf-8-sig",
    ),
    "long-beach": Export(
        {
            "SMOKER": lambda row: row.smoker[0].upper(),
            "AGE_Y": capped,
            "SEX": lambda row: str(1 + (row.sex == "female")),
            "SYS_MMHG": every(15, "?", lambda row: f"{row.pressure:.0f}"),
            "CREAT": lambda row: f"{row.creatinine:.2f}",
            "DX": every(40, "9", lambda row: str(int(row.ill))),
        },
        """\
[columns]
age = { column = "AGE_Y", codes = { "> 89" = 90 } }
sex = { column = "SEX", values = { "1" = "male", "2" = "female" } }
creatinine = "CREAT"
pressure = { column = "SYS_MMHG", missing_codes = ["?"], missing = "mean" }
smoker = { column = "SMOKER", values = { Y = "yes", N = "no" } }
[label]
column = "DX"
classes = { "0" = "no disease", "1" = "disease" }
missing = "drop-row"
missing_codes = ["9"]
[csv]
separator = "|"
""",
        separator="|",
    ),
    "basel": Export(
        {
            "No": lambda row: str(row.number),
            "Âge": every(30, "999", lambda row: str(row.age)),
            "Sexe": lambda row: "F" if row.sex == "female" else "H",
            "Fumeur": lambda row: "oui" if row.smoker == "yes" else "non",
            "Créatinine (µmol/l)": lambda row: f"{row.creatinine * MICROMOL:.0f}",
            "TA": lambda row: f"{row.pressure:.0f}",
            "Malade": lambda row: "oui" if row.ill else "non",
        },
        """\
[columns]
age = { column = "Âge", missing_codes = ["999"], missing = "mean" }
sex = { column = "Sexe", values = { F = "female", H = "male" } }
creatinine = { column = "Créatinine (µmol/l)", factor = 0.01131 }
pressure = "TA"
smoker = { column = "Fumeur", values = { oui = "yes", non = "no" } }
[label]
column = "Malade"
classes = { non = "no disease", oui = "disease" }
""",
        quoting=csv.QUOTE_ALL,
    ),
}
"""By hospital; the last one joins later."""
