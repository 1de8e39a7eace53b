"""Bases of everything that is read from a file or from the wire."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """Base of all configuration: frozen, unknown keys refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Strict(Frozen):
    """Base of what other nodes send, or sign: no value is converted to the type of its field either."""

    model_config = ConfigDict(strict=True)


class Derived(BaseModel):
    """Base of what computes values of itself once (`cached_property`): a copy computes its own."""

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        copy = super().model_copy(update=update, deep=deep)
        values = vars(copy)
        for name in values.keys() - type(self).model_fields.keys():
            del values[name]
        return copy
