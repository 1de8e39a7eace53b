"""Published tables as arrays of codes: the stroke trial, UCI Heart Disease, Adult, and Diabetes 130-US hospitals.

What their columns are, and why, says `named.toml`. Codes of a column are places in its words (`vocab_json`), or numbers
that a code book explains."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from consilium.data.encoding import DeclaredColumn
from consilium.protocol.errors import ConfigError, DataError
from consilium.simulations.datasets.base import (
    MEMORY,
    Dataset,
    Public,
    SourceSpec,
    data_file,
    dataset_of,
    named,
    read_arrays,
    shipped_arrays,
)
from consilium.simulations.datasets.table import TableSource

ANEW = "Get the file anew"


@dataclass(frozen=True)
class CodedTable:
    """Columns by name, (rows,) each, of the file `path`; of those that are codes of words, the words."""

    path: Path
    columns: dict[str, np.ndarray]
    vocabulary: dict[str, list[str]]

    @classmethod
    def of(cls, path: Path, arrays: Mapping[str, np.ndarray], vocabulary: np.ndarray | None) -> CodedTable:
        """Columns of one length, and words as JSON. Raises DataError where they are not."""
        shapes = {values.shape for values in arrays.values()}
        if len(shapes) != 1 or len(next(iter(shapes))) != 1:
            raise DataError(f"{path}: arrays of different lengths: {sorted(shapes)}", ANEW)
        try:
            words = json.loads(str(vocabulary))
            return cls(path, dict(arrays), {str(name): [str(word) for word in known] for name, known in words.items()})
        except (ValueError, TypeError, AttributeError):
            raise DataError(f"{path} has no readable words of its columns", ANEW) from None

    def words(self, name: str, book: Mapping[str, Any]) -> np.ndarray:
        """What the values of a column are called by a code book, str or float64 (rows,). words: of each its name, or
        number; a list where they are called as they are. starts: of words that begin so. spans: of codes of diagnoses,
        by whole numbers. other: of all else. Raises DataError: a code has no word, or a word is not in the book."""
        codes, places = np.unique(self.columns[name], return_inverse=True)
        known = self.vocabulary.get(name)
        if known is not None and len(codes) and not 0 <= codes[0] <= codes[-1] < len(known):
            raise DataError(f"{self.path}: {name} has a code without a word", ANEW)
        texts = [str(code) if known is None else known[code] for code in codes.tolist()]
        called = [_called(text, book) for text in texts]
        if "" in called:
            unknown = texts[called.index("")]
            raise DataError(f"{self.path}: {name} has the value {unknown!r}, which is not in the code book")
        return np.array(called)[places]

    def features(self, column: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Features by name, float32 (rows,) each, of the columns `of`: numbers as they are, or `log` of 1 + x; or by a
        code book (`words`), a feature for each of `inputs`, else for each name, of two for the second."""
        made: dict[str, np.ndarray] = {}
        words, other = column.get("words", {}), column.get("other", "")
        names = words.values() if isinstance(words, Mapping) else words
        every = *map(str, names), *column.get("starts", {}).values(), *column.get("spans", {}), *([other] * bool(other))
        different = list(dict.fromkeys(every))
        for name in column["of"]:
            values = self.words(name, column) if different else self.columns[name]
            if values.dtype.kind == "U":
                inputs = column.get("inputs") or different[len(different) == 2 :]
                made |= {f"{name}={word}": (values == word).astype(np.float32) for word in inputs}
            elif column.get("log"):
                made[f"log {name}"] = np.log1p(values).astype(np.float32)
            else:
                made[name] = values.astype(np.float32)
        return made

    def dataset(self, name: str, **known: Any) -> Dataset:
        table, features = named(name), {}
        for column in table["columns"]:
            features |= self.features(column)
        y = self.words(table["label"]["column"], table["label"]) == table["classes"][1]
        x = np.stack(list(features.values()), axis=1)
        return dataset_of(name, features=tuple(features), x=x, y=y.astype(np.int64), **known)


def _called(word: str, book: Mapping[str, Any]) -> str | float:
    if word in (words := book.get("words", {})):
        return words[word] if isinstance(words, Mapping) else word
    whole = word.partition(".")[0]
    number = int(whole) if whole.isdecimal() else -1
    found = [name for start, name in book.get("starts", {}).items() if word.startswith(start)]
    spans = book.get("spans", {}).items()
    found += [name for name, of in spans if any(low <= number <= high for low, high in of)]
    return found[0] if found else book.get("other", "")


def used_columns(name: str) -> Iterable[str]:
    """Columns that features and label of a named set come from."""
    return [*(one for column in named(name)["columns"] for one in column["of"]), named(name)["label"]["column"]]


def _present(path: Path, columns: Mapping[str, np.ndarray], names: Iterable[str]) -> dict[str, np.ndarray]:
    for name in names:
        if name not in columns:
            raise DataError(f"{path} has no array {name}", ANEW)
    return {name: columns[name] for name in names}


@cache
def load_stroke(owner: str) -> Dataset:
    """The embedded trial. owner: "hospital", "country", or nothing for hospitals. Raises ConfigError for another."""
    owners = named("stroke")["owners"]
    if owner not in ("", *owners):
        raise ConfigError(f"data.owner is {owner!r}, and stroke has no such owner", f"Choose {' or '.join(owners)}")
    arrays = shipped_arrays("stroke")
    vocabulary = arrays.pop("vocabulary")
    countries = tuple(named("stroke")["countries"].values())
    return CodedTable.of(Path("stroke.npz"), arrays, vocabulary).dataset(
        "stroke",
        owner_label=owner or "hospital",
        owner=arrays[owners[owner or "hospital"]].astype(np.int64),
        owner_names=countries if owner == "country" else None,
    )


TEST = 4_000  # of Adult's public rows the last 4,000 are held out; the others are the student's to ask


@cache
def load_adult(folder: Path) -> Dataset:
    """Both parts, one below the other."""
    source = named("adult")["source"]
    path = data_file(folder, named("adult")["file"], source)
    arrays, names = read_arrays(path, source), list(used_columns("adult"))
    train, test = (_present(path, arrays, [f"{part}_{name}" for name in names]) for part in ("train", "test"))
    tables = [CodedTable.of(path, part, arrays.get("vocab_json")) for part in (train, test)]
    private, public = (len(next(iter(table.columns.values()))) for table in tables)
    if public <= TEST:
        raise DataError(f"{path}: {public} test rows, more than {TEST} are needed", ANEW)
    both = {name: np.concatenate([train[f"train_{name}"], test[f"test_{name}"]]) for name in names}
    whole = replace(tables[0], columns=both)
    return whole.dataset("adult", public=(private, private + public - TEST))


SHARE = 10  # one of Diabetes' patients in so many is public to ask, and one in so many is held out
ENDED = (11, 13, 14, 19, 20, 21)  # discharge_disposition_id: expired, or to a hospice


@cache
def load_diabetes(folder: Path, name: str) -> Dataset:
    """One of the two questions of Diabetes 130-US hospitals, with patients as owners."""
    path = data_file(folder, named(name)["file"], named(name)["source"])
    arrays = read_arrays(path, named(name)["source"])
    stored = {str(column): f"c{place:02d}" for place, column in enumerate(np.atleast_1d(arrays.get("columns", [])))}
    columns = {column: arrays[key] for column, key in stored.items() if key in arrays}
    columns = _present(path, columns, [*used_columns(name), "patient_nbr"])
    table = CodedTable.of(path, columns, arrays.get("vocab_json"))
    stays = ~np.isin(columns["discharge_disposition_id"], ENDED)
    table = replace(table, columns={column: values[stays] for column, values in columns.items()})
    patients, owner = np.unique(table.columns["patient_nbr"], return_inverse=True)
    if len(patients) < 3 * SHARE:
        raise DataError(f"{path} has {len(patients)} patients, at least {3 * SHARE} are needed", ANEW)
    lot = np.random.default_rng(0x646961).permutation(len(patients)) % SHARE  # fixed: the same public part in every run
    public = Public(np.flatnonzero(lot[owner] == 0), np.flatnonzero(lot[owner] == 1))
    return replace(table.dataset(name, owner_label="patient", owner=owner.astype(np.int64)), public=public)


def open_heart() -> TableSource:
    """The embedded rows in words, with hospitals as owners; what a missing number becomes, public rows say."""
    import polars as pl

    told, raw = named("heart"), shipped_arrays("heart")
    codes, bands = told["codes"], told["bands"]
    categories = {**{name: tuple(words.values()) for name, words in codes.items()}, "chol": tuple(bands)}
    declared = {name: DeclaredColumn(kind="number", missing=name not in told["known"]) for name in told["numbers"]}
    for name, values in categories.items():
        declared[name] = DeclaredColumn(kind="category", values=values, missing=name not in told["known"])
    frame = pl.DataFrame({name: raw[name] for name in (*told["numbers"], *categories)}).fill_nan(None)
    chol, pressure = pl.col("chol"), pl.col("trestbps")
    band = pl.lit(None, dtype=pl.String)
    for name, least in bands.items():
        band = pl.when((chol >= least) & (chol > 0)).then(pl.lit(name)).otherwise(band)
    frame = frame.with_columns(
        *(
            pl.col(name).replace_strict({float(code): word for code, word in words.items()}, return_dtype=pl.String)
            for name, words in codes.items()
        ),
        pl.when(pressure > 0).then(pressure).alias("trestbps"),
        band.alias("chol"),
        pl.Series("disease", np.array(told["classes"])[(raw["num"] > 0).astype(int)]),
        pl.Series("hospital", np.array(told["hospitals"])[raw["hospital"]]),
    )
    described = SourceSpec(
        set=MEMORY, label="disease", classes=tuple(told["classes"]), owner="hospital", columns=declared,
        title=told["title"], attribution=told["attribution"],
    )  # fmt: skip
    return replace(TableSource.of_frame(frame, described), name="heart")
