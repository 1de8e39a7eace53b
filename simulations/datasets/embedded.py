"""Data sets that are in the package: the International Stroke Trial and UCI Heart Disease."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

import numpy as np

from consilium.data.encoding import DeclaredColumn
from consilium.protocol.errors import ConfigError
from consilium.simulations.datasets.base import Dataset
from consilium.simulations.datasets.spec import MEMORY, SourceSpec
from consilium.simulations.datasets.table import TableSource

if TYPE_CHECKING:
    import polars as pl

NUMBERS = ("RDELAY", "AGE", "RSBP")
CODES = (
    "RCONSC", "SEX", "RSLEEP", "RATRIAL", "RCT", "RVISINF", "RHEP24", "RASP3",
    "RDEF1", "RDEF2", "RDEF3", "RDEF4", "RDEF5", "RDEF6", "RDEF7", "RDEF8", "STYPE",
)  # fmt: skip
DEAD_OR_DEPENDENT = (1, 2)
KNOWN_OUTCOMES = (1, 2, 3, 4)
COUNTRIES = {
    "ARGE": "Argentina", "AUSL": "Australia", "AUST": "Austria", "BELG": "Belgium", "BRAS": "Brazil", "CANA": "Canada",
    "CHIL": "Chile", "CZEC": "Czech Republic", "DENM": "Denmark", "EIRE": "Ireland", "FINL": "Finland",
    "FRAN": "France", "GREE": "Greece", "HONG": "Hong Kong", "HUNG": "Hungary", "INDI": "India", "ISRA": "Israel",
    "ITAL": "Italy", "JAPA": "Japan", "NETH": "Netherlands", "NEW": "New Zealand", "NORW": "Norway", "POLA": "Poland",
    "PORT": "Portugal", "ROMA": "Romania", "SING": "Singapore", "SLOK": "Slovakia", "SLOV": "Slovenia",
    "SOUT": "South Africa", "SPAI": "Spain", "SRI": "Sri Lanka", "SWED": "Sweden", "SWIT": "Switzerland",
    "TURK": "Turkey", "UK": "United Kingdom", "USA": "United States",
}  # fmt: skip
"""The trial's abbreviation of each country -> its name. COUNTRY counts them in this order."""
OWNERS = ("hospital", "country")


@cache
def load_stroke(owner: str = "") -> Dataset:
    """The International Stroke Trial, embedded: baseline columns and six-month outcome of 19,285 patients in 464
    hospitals.

    Features are what was known at randomisation (R*, AGE, SEX, STYPE). The randomised treatment (RXASP, RXHEP), the
    trial's own predictions (EXPDD, EXPD14) and every outcome are not in the file at all. The target is "dead or
    dependent at six months" (OCCODE 1 or 2); rows without a known outcome are left out. No time: of the admission the
    public table has the hour and the day of the week, and no date. See stroke.LICENSE.txt for source and terms.

    The embedded data set; one-hot columns are named like "STYPE=TACS", of two-valued codes only the second.

    owner: one of `OWNERS`, or nothing for hospitals.

    Raises
    ------
    ConfigError : there is no such owner.
    """
    if owner not in ("", *OWNERS):
        raise ConfigError(f"data.owner is {owner!r}, and stroke has no such owner", f"Choose {' or '.join(OWNERS)}")
    by_country = owner == "country"
    with np.load(str(files("consilium.simulations.datasets") / "stroke.npz"), allow_pickle=False) as file:
        values = {name: file[name] for name in file.files}
    vocabulary = json.loads(str(values["vocabulary"]))
    columns: list[np.ndarray] = [values[name].astype(np.float32) for name in NUMBERS]
    names: list[str] = list(NUMBERS)
    for name in CODES:
        words = vocabulary[name]
        for code, word in enumerate(words):
            if len(words) == 2 and code == 0:
                continue
            columns.append((values[name] == code).astype(np.float32))
            names.append(f"{name}={word or 'missing'}")
    return Dataset(
        name="stroke",
        title="International Stroke Trial",
        attribution=(
            "Sandercock P, Niewada M, Czlonkowska A. International Stroke Trial database (version 2), 2011."
            " University of Edinburgh. doi 10.7488/ds/104. Open Data Commons Attribution License (ODC-By 1.0)."
        ),
        features=tuple(names),
        classes=("independent", "dead or dependent"),
        owner_label=owner or "hospital",
        x=np.stack(columns, axis=1),
        y=np.isin(values["OCCODE"], DEAD_OR_DEPENDENT).astype(np.int64),
        owner=values["COUNTRY" if by_country else "HOSPNUM"].astype(np.int64),
        owner_names=tuple(COUNTRIES.values()) if by_country else None,
    )


HEART_NUMBERS = ("age", "trestbps", "thalach", "oldpeak")
HEART_CODES = {
    "sex": {0: "female", 1: "male"},
    "cp": {1: "typical angina", 2: "atypical angina", 3: "non-anginal", 4: "asymptomatic"},
    "fbs": {0: "at most 120", 1: "over 120"},
    "restecg": {0: "normal", 1: "ST-T abnormal", 2: "hypertrophy"},
    "exang": {0: "no", 1: "yes"},
    "slope": {1: "up", 2: "flat", 3: "down"},
    "ca": {0: "0", 1: "1", 2: "2", 3: "3"},
    "thal": {3: "normal", 6: "fixed defect", 7: "reversible defect"},
}
"""Columns that are categories, and what their codes mean (`heart-disease.names`)."""
ALWAYS_KNOWN = ("age", "sex", "cp")
BANDS = ("desirable", "borderline", "high")
BORDERLINE, HIGH = 200, 240
"""Serum cholesterol in mg/dl from which on it is called so."""
HOSPITALS = ("Cleveland", "Hungary", "Switzerland", "Long Beach")
CLASSES = ("none", "narrowed")


def open_heart() -> TableSource:
    """UCI Heart Disease: has a patient with chest pain a narrowed coronary artery? 920 rows of four hospitals.

    The question is num > 0, as FLamby and most others ask it. What the columns are is declared here, from the data
    set's description; what a missing number becomes, public rows say. Much is missing, and not by chance: the vessels
    in fluoroscopy (ca) were hardly counted outside Cleveland. A missing value of a category is a feature of its own.

    Serum cholesterol is 0 in every row of Switzerland and in a quarter of those of Long Beach, where it was not
    measured. It is given in the three bands of the NCEP (Arch Intern Med 1988;148:36): as a number it would have no
    mean or spread wherever the public rows are Switzerland's. No time is in the files. See heart.LICENSE.txt for source
    and terms.

    The embedded data set, with hospitals as owners.
    """
    categories = {**{name: tuple(words.values()) for name, words in HEART_CODES.items()}, "chol": BANDS}
    declared = {name: DeclaredColumn(kind="number", missing=name not in ALWAYS_KNOWN) for name in HEART_NUMBERS}
    declared |= {
        name: DeclaredColumn(kind="category", values=values, missing=name not in ALWAYS_KNOWN)
        for name, values in categories.items()
    }
    described = SourceSpec(
        set=MEMORY,
        label="disease",
        classes=CLASSES,
        owner="hospital",
        columns=declared,
        title="UCI Heart Disease",
        attribution=(
            "Janosi A, Steinbrunn W, Pfisterer M, Detrano R. Heart Disease. UCI Machine Learning Repository, 1989."
            " doi 10.24432/C52P4X. CC BY 4.0."
        ),
    )
    return replace(TableSource.of_frame(_frame(), described), name="heart")


def _frame() -> pl.DataFrame:
    """The columns in words, null where missing."""
    import polars as pl

    with np.load(str(files("consilium.simulations.datasets") / "heart.npz"), allow_pickle=False) as file:
        raw = {name: file[name] for name in file.files}
    frame = pl.DataFrame({name: raw[name] for name in (*HEART_NUMBERS, *HEART_CODES, "chol")}).fill_nan(None)
    code = [pl.col(name).replace_strict(words, return_dtype=pl.String) for name, words in HEART_CODES.items()]
    chol, pressure = pl.col("chol"), pl.col("trestbps")
    band = pl.when(chol < BORDERLINE).then(pl.lit(BANDS[0])).when(chol < HIGH).then(pl.lit(BANDS[1]))
    return frame.with_columns(
        *code,
        pl.when(pressure > 0).then(pressure).alias("trestbps"),
        pl.when(chol > 0).then(band.otherwise(pl.lit(BANDS[2]))).alias("chol"),
        pl.Series("disease", np.array(CLASSES)[(raw["num"] > 0).astype(int)]),
        pl.Series("hospital", np.array(HOSPITALS)[raw["hospital"]]),
    )
