"""Where the rows of a simulation come from: the first part of the table `[data]` of a scenario."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator, model_validator

from consilium.protocol.models import Frozen
from consilium.simulations.datasets import NAMES


class PublicSpec(Frozen):
    """Which rows are public: the table `data.public`."""

    by: Literal["owner", "share", "file", "time"] = Field(
        default="owner",
        description="`owner`: whole owners; `share`: rows by lot, or whole patients where `data.patient` is given;"
        " `file`: a file of their own; `time`: rows after or before a moment",
    )
    share: float = Field(default=0.2, gt=0, lt=1, description="of `owner` and `share`: how many of them are public")
    owners: tuple[str, ...] = Field(default=(), description="of `owner`: the names of those, instead of a share by lot")
    file: str = Field(default="", description="of `file`: where they are, with the same columns; relative as `path` is")
    test: str = Field(
        default="",
        description="of `file`: a file of rows to evaluate the student; left out: half of the rows of `file`, by lot",
    )
    after: str | float | None = Field(default=None, description="of `time`: rows from this moment on are public")
    before: str | float | None = Field(default=None, description="of `time`: rows before this moment are public")

    @model_validator(mode="after")
    def _keys_suit(self) -> PublicSpec:
        allowed = {"owner": {"share", "owners"}, "share": {"share"}, "file": {"file", "test"}}
        foreign = self.model_fields_set - {"by"} - allowed.get(self.by, {"after", "before"})
        if foreign:
            raise ValueError(f'by = "{self.by}" has no key {sorted(foreign)[0]}')
        if self.owners and "share" in self.model_fields_set:
            raise ValueError("give either share or owners")
        if self.by == "file" and not self.file:
            raise ValueError('by = "file" needs file')
        if self.by == "time" and (self.after is None) == (self.before is None):
            raise ValueError('by = "time" needs either after or before')
        return self


class SourceSpec(Frozen):
    """Which data set."""

    set: str = Field(
        description="`stroke` is embedded; `adult`, `diabetes`, `diabetes-early`, `fashion`, `mnist`, `mnist-writers`,"
        " `pneumonia` are read from a folder, see below"
    )
    path: str = Field(
        default="",
        description="folder of the sets that are not embedded; left out: `$CONSILIUM_DATA`, else `../shared/data`",
    )

    @field_validator("set")
    @classmethod
    def _known(cls, value: str) -> str:
        if value not in NAMES:
            raise ValueError(f"not a known data set, choose from {', '.join(NAMES)}")
        return value
