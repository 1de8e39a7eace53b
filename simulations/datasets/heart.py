"""UCI Heart Disease, embedded: has a patient with chest pain a narrowed coronary artery? 920 rows of four hospitals.

The question is num > 0, as FLamby and most others ask it. What the columns are is declared here, from the data set's
description; what a missing number becomes, public rows say. Much is missing, and not by chance: the vessels in
fluoroscopy (ca) were hardly counted outside Cleveland. A missing value of a category is a feature of its own.

Serum cholesterol is 0 in every row of Switzerland and in a quarter of those of Long Beach, where it was not measured.
It is given in the three bands of the NCEP (Arch Intern Med 1988;148:36): as a number it would have no
mean or spread wherever the public rows are Switzerland's. No time is in the files. See heart.LICENSE.txt for source and
terms.
"""

from __future__ import annotations

from dataclasses import replace
from importlib.resources import files
from typing import TYPE_CHECKING

import numpy as np

from consilium.data.encoding import DeclaredColumn
from consilium.simulations.datasets.spec import MEMORY, SourceSpec
from consilium.simulations.datasets.table import TableSource

if TYPE_CHECKING:
    import polars as pl

NUMBERS = ("age", "trestbps", "thalach", "oldpeak")
CODES = {
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
    """The embedded data set, with hospitals as owners."""
    categories = {**{name: tuple(words.values()) for name, words in CODES.items()}, "chol": BANDS}
    declared = {name: DeclaredColumn(kind="number", missing=name not in ALWAYS_KNOWN) for name in NUMBERS}
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
    frame = pl.DataFrame({name: raw[name] for name in (*NUMBERS, *CODES, "chol")}).fill_nan(None)
    code = [pl.col(name).replace_strict(words, return_dtype=pl.String) for name, words in CODES.items()]
    chol, pressure = pl.col("chol"), pl.col("trestbps")
    band = pl.when(chol < BORDERLINE).then(pl.lit(BANDS[0])).when(chol < HIGH).then(pl.lit(BANDS[1]))
    return frame.with_columns(
        *code,
        pl.when(pressure > 0).then(pressure).alias("trestbps"),
        pl.when(chol > 0).then(band.otherwise(pl.lit(BANDS[2]))).alias("chol"),
        pl.Series("disease", np.array(CLASSES)[(raw["num"] > 0).astype(int)]),
        pl.Series("hospital", np.array(HOSPITALS)[raw["hospital"]]),
    )
