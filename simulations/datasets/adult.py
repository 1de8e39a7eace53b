"""UCI Adult: does a person of the US census of 1994 earn more than 50,000 dollars a year?

The 32,561 rows of the training part are the parties', the 16,281 of the test part are public, as in Papernot et al.
2017, appendix C. Categories come from the data set's description (`adult.names`), never from the rows. Left out are
`fnlwgt`, a weight of the survey, and `education`, which `education_num` says again. Race, sex and country of birth are
features here because the papers have them; whoever predicts income in practice should ask whether they may be.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from consilium.protocol.errors import DataError
from consilium.simulations.datasets.arrays import grouped, one_hot, read_arrays, read_words, same_length
from consilium.simulations.datasets.base import Dataset, Public
from consilium.simulations.datasets.folder import data_file

FILE = "adult.npz"
SOURCE = "https://archive.ics.uci.edu/dataset/2/adult, as arrays (docs/scenarios.md)"
TEST = 4_000
"""Of the public rows the last 4,000 are held out; the others are the student's to ask."""
NUMBERS = ("age", "education_num", "hours_per_week")
AMOUNTS = ("capital_gain", "capital_loss")
"""Dollars, mostly 0: taken as log(1 + x)."""
MISSING = "?"
WORDS = {
    "workclass": (
        "Private", "Self-emp-not-inc", "Self-emp-inc", "Federal-gov", "Local-gov", "State-gov", "Without-pay",
        "Never-worked", MISSING,
    ),
    "marital_status": (
        "Married-civ-spouse", "Divorced", "Never-married", "Separated", "Widowed", "Married-spouse-absent",
        "Married-AF-spouse",
    ),
    "occupation": (
        "Tech-support", "Craft-repair", "Other-service", "Sales", "Exec-managerial", "Prof-specialty",
        "Handlers-cleaners", "Machine-op-inspct", "Adm-clerical", "Farming-fishing", "Transport-moving",
        "Priv-house-serv", "Protective-serv", "Armed-Forces", MISSING,
    ),
    "relationship": ("Wife", "Own-child", "Husband", "Not-in-family", "Other-relative", "Unmarried"),
    "race": ("White", "Asian-Pac-Islander", "Amer-Indian-Eskimo", "Other", "Black"),
}  # fmt: skip
"""Values of the columns that become one input for each value; one that is missing is a value of its own."""


@cache
def load_adult(folder: Path) -> Dataset:
    """32,561 rows for the parties, 16,281 public ones; without owners (every row's owner is 0)."""
    path = data_file(folder, FILE, SOURCE)
    arrays = read_arrays(path, SOURCE)
    words = read_words(path, arrays)
    parts = [_part(path, arrays, words, part) for part in ("train", "test")]
    private, public = (len(y) for _, y in parts)
    if public <= TEST:
        raise DataError(f"{path}: {public} test rows, more than {TEST} are needed", "Get the file anew")
    split = private + public - TEST
    return Dataset(
        name="adult",
        title="Adult",
        attribution="Becker B, Kohavi R. Adult. UCI Machine Learning Repository, 1996. CC BY 4.0.",
        features=tuple(parts[0][0]),
        classes=("at most 50K", "over 50K"),
        owner_label="party",
        x=np.concatenate([np.stack(list(columns.values()), axis=1) for columns, _ in parts]),
        y=np.concatenate([y for _, y in parts]),
        owner=np.zeros(private + public, dtype=np.int64),
        public=Public(np.arange(private, split), np.arange(split, private + public)),
    )


def _part(
    path: Path, arrays: dict[str, np.ndarray], words: dict[str, list[str]], part: str
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Inputs by name, float32 (n,) each, and labels int64 (n,) of the part "train" or "test"."""
    coded = (*WORDS, "sex", "native_country", "income")
    same_length(path, arrays, [f"{part}_{name}" for name in (*NUMBERS, *AMOUNTS, *coded)])

    def values(name: str, groups: dict[str, str]) -> np.ndarray:
        return grouped(path, name, arrays[f"{part}_{name}"], words.get(name, []), groups)

    columns = {name: arrays[f"{part}_{name}"].astype(np.float32) for name in NUMBERS}
    columns |= {f"log {name}": np.log1p(arrays[f"{part}_{name}"]).astype(np.float32) for name in AMOUNTS}
    for name, known in WORDS.items():
        columns |= one_hot(name, values(name, {word: word for word in known}), known)
    columns |= one_hot("sex", values("sex", {"Female": "Female", "Male": "Male"}), ["Male"])
    # nine of ten were born in the United States; the 40 other countries have too few rows in a party to learn from
    born = {word: word if word in ("United-States", MISSING) else "other" for word in words.get("native_country", [])}
    columns |= one_hot("native_country", values("native_country", born), ["other", MISSING])
    income = values("income", {"<=50K": "at most", ">50K": "over"})
    return columns, (income == "over").astype(np.int64)
