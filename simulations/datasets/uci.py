"""Tables of the UCI repository in a folder of the user's: Adult, and Diabetes 130-US hospitals."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from consilium.protocol.errors import DataError
from consilium.simulations.datasets.base import Dataset, Public
from consilium.simulations.datasets.folder import data_file, grouped, one_hot, read_arrays, read_words, same_length

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
    """UCI Adult: does a person of the US census of 1994 earn more than 50,000 dollars a year?

    The 32,561 rows of the training part are the parties', the 16,281 of the test part are public, as in Papernot et al.
    2017, appendix C. Categories come from the data set's description (`adult.names`), never from the rows. Left out are
    `fnlwgt`, a weight of the survey, and `education`, which `education_num` says again. Race, sex and country of birth
    are features here because the papers have them; whoever predicts income in practice should ask whether they may be.

    32,561 rows for the parties, 16,281 public ones; without owners (every row's owner is 0).
    """
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


DIABETES_FILE = "diabetes130.npz"
DIABETES_SOURCE = (
    "https://archive.ics.uci.edu/dataset/296/diabetes+130-us+hospitals+for+years+1999-2008, as arrays"
    " (docs/scenarios.md)"
)
SHARE = 10
"""One patient in so many is public to ask, and one in so many is held out."""
DIABETES_NUMBERS = ("time_in_hospital", "num_lab_procedures", "num_procedures", "num_medications", "number_diagnoses")
VISITS = ("number_outpatient", "number_emergency", "number_inpatient")
"""Of the year before, mostly 0: taken as log(1 + x)."""
DRUGS = (
    "metformin",
    "repaglinide",
    "glimepiride",
    "glipizide",
    "glyburide",
    "pioglitazone",
    "rosiglitazone",
    "insulin",
)
"""Those that at least one patient in a hundred takes."""
ENDED = (11, 13, 14, 19, 20, 21)
"""discharge_disposition_id: expired, or to a hospice."""
ADMISSION = {1: "emergency", 2: "urgent", 3: "elective"}
DISCHARGE = {1: "home", 6: "home with care"} | dict.fromkeys((2, 3, 4, 5, 15, 22, 23, 24, 27, 28, 29, 30), "facility")
SPECIALTIES = ("InternalMedicine", "Emergency/Trauma", "Family/GeneralPractice", "Cardiology", "?")
RACES = ("Caucasian", "AfricanAmerican", "Hispanic", "Asian", "Other", "?")
AGES = tuple(f"[{start}-{start + 10})" for start in range(0, 100, 10))
DIAGNOSES = {
    "circulatory": ((390, 459), (785, 785)),
    "respiratory": ((460, 519), (786, 786)),
    "digestive": ((520, 579), (787, 787)),
    "diabetes": ((250, 250),),
    "injury": ((800, 999),),
    "musculoskeletal": ((710, 739),),
    "genitourinary": ((580, 629), (788, 788)),
    "neoplasms": ((140, 239),),
}
"""Groups of ICD-9 codes, both ends included, as in table 2 of Strack et al.; all else, and none, is "other"."""


@cache
def load_diabetes(folder: Path) -> Dataset:
    """The target is any later admission."""
    return _load(folder, "diabetes", "Diabetes 130-US hospitals", ("not readmitted", "readmitted"), ("<30", ">30"))


@cache
def load_diabetes_early(folder: Path) -> Dataset:
    """The target is an admission within 30 days."""
    title = "Diabetes 130-US hospitals, early readmission"
    return _load(folder, "diabetes-early", title, ("not within 30 days", "within 30 days"), ("<30",))


def _load(folder: Path, name: str, title: str, classes: tuple[str, str], positive: tuple[str, ...]) -> Dataset:
    """Diabetes 130-US hospitals: is a diabetic patient who leaves hospital admitted again?

    Strack et al., BioMed Research International 2014, article 781670: its tables of codes and its groups of diagnoses
    are the code book here. A row is a stay; one that ended in death or a hospice is left out, for no other can follow
    it. The owner of a row is the patient, who has up to 40 stays. One patient in ten is for the student to ask about,
    one in ten is held out: nobody's stays are on two sides. The 130 hospitals are not in the file.

    `diabetes` asks whether the patient was admitted again at all (47 %). `diabetes-early`, within 30 days (11 %), is
    the trap of a rare class: "no" to everything is right nine times in ten. Left out as features are weight (97 %
    missing), the payer, and what identifies a stay.
    """
    path = data_file(folder, DIABETES_FILE, DIABETES_SOURCE)
    arrays = read_arrays(path, DIABETES_SOURCE)
    words = read_words(path, arrays)
    stored = [str(column) for column in np.atleast_1d(arrays.get("columns", []))]
    same_length(path, arrays, [f"c{index:02d}" for index in range(len(stored))] or ["columns"])
    table = {column: arrays[f"c{index:02d}"] for index, column in enumerate(stored)}
    used = {
        *DIABETES_NUMBERS,
        *VISITS,
        *DRUGS,
        "diag_1",
        "diag_2",
        "diag_3",
        "race",
        "gender",
        "age",
        "medical_specialty",
    }
    used |= {"admission_type_id", "admission_source_id", "discharge_disposition_id", "max_glu_serum", "A1Cresult"}
    same_length(path, table, used | {"change", "diabetesMed", "patient_nbr", "readmitted"})
    stays = ~np.isin(table["discharge_disposition_id"], ENDED)
    table = {column: values[stays] for column, values in table.items()}
    columns = _columns(path, table, words)
    readmitted = grouped(
        path, "readmitted", table["readmitted"], words.get("readmitted", []), {w: w for w in ("<30", ">30", "NO")}
    )
    patients, owner = np.unique(table["patient_nbr"], return_inverse=True)
    if len(patients) < 3 * SHARE:
        raise DataError(f"{path} has {len(patients)} patients, at least {3 * SHARE} are needed", "Get the file anew")
    lot = np.random.default_rng(0x646961).permutation(len(patients)) % SHARE  # fixed: the same public part in every run
    return Dataset(
        name=name,
        title=title,
        attribution=(
            "Strack B et al. Impact of HbA1c measurement on hospital readmission rates. BioMed Res Int 2014, 781670."
            " UCI Machine Learning Repository. CC BY 4.0."
        ),
        features=tuple(columns),
        classes=classes,
        owner_label="patient",
        x=np.stack(list(columns.values()), axis=1),
        y=np.isin(readmitted, positive).astype(np.int64),
        owner=owner.astype(np.int64),
        public=Public(np.flatnonzero(lot[owner] == 0), np.flatnonzero(lot[owner] == 1)),
    )


def _columns(path: Path, table: dict[str, np.ndarray], words: dict[str, list[str]]) -> dict[str, np.ndarray]:
    """Inputs by name, float32 (stays,) each."""

    def values(name: str, groups: dict[str, str]) -> np.ndarray:
        return grouped(path, name, table[name], words.get(name, []), groups)

    def same(*known: str) -> dict[str, str]:
        return {word: word for word in known}

    decade = values("age", {word: str(10 * index + 5) for index, word in enumerate(AGES)})
    columns = {"age": decade.astype(np.float32)}
    columns |= {name: table[name].astype(np.float32) for name in DIABETES_NUMBERS}
    columns |= {f"log {name}": np.log1p(table[name].astype(np.float32)) for name in VISITS}
    columns |= one_hot("gender", values("gender", same("Female", "Male", "Unknown/Invalid")), ["Male"])
    columns |= one_hot("race", values("race", same(*RACES)), RACES)
    for name, known in (("admission_type_id", ADMISSION), ("discharge_disposition_id", DISCHARGE)):
        groups = np.array([known.get(int(code), "other") for code in table[name]])
        columns |= one_hot(name, groups, [*dict.fromkeys(known.values()), "other"])
    columns["from emergency room"] = (table["admission_source_id"] == 7).astype(np.float32)
    specialty = {
        word: "Surgery" if word.startswith("Surg") else word if word in SPECIALTIES else "other"
        for word in words.get("medical_specialty", [])
    }
    columns |= one_hot("medical_specialty", values("medical_specialty", specialty), [*SPECIALTIES, "Surgery", "other"])
    for name in ("diag_1", "diag_2", "diag_3"):
        groups = {word: diagnosis(word) for word in words.get(name, [])}
        columns |= one_hot(name, values(name, groups), [*DIAGNOSES, "other"])
    for name, levels in (("max_glu_serum", ("Norm", ">200", ">300")), ("A1Cresult", ("Norm", ">7", ">8"))):
        columns |= one_hot(name, values(name, same("None", *levels)), levels)
    for name in DRUGS:
        columns |= one_hot(name, values(name, same("No", "Steady", "Up", "Down")), ("Steady", "Up", "Down"))
    columns |= one_hot("change", values("change", same("No", "Ch")), ["Ch"])
    columns |= one_hot("diabetesMed", values("diabetesMed", same("No", "Yes")), ["Yes"])
    return columns


def diagnosis(code: str) -> str:
    """The group of an ICD-9 code.

    >>> diagnosis("250.83"), diagnosis("428"), diagnosis("V57"), diagnosis("?")
    ('diabetes', 'circulatory', 'other', 'other')
    """
    whole = code.partition(".")[0]
    if not whole.isdecimal():
        return "other"
    number = int(whole)
    return next((name for name, spans in DIAGNOSES.items() if any(a <= number <= b for a, b in spans)), "other")
