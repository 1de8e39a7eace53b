"""Bases of everything that is read from a file or from the wire."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, model_serializer


class Frozen(BaseModel):
    """Base of all configuration: frozen, unknown keys refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Strict(Frozen):
    """Base of what other nodes send, or sign: no value is converted to the type of its field either."""

    model_config = ConfigDict(strict=True)


class Derived(BaseModel):
    """Base of what computes values of itself once (`cached_property`): a copy computes its own."""

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """See pydantic."""
        copy = super().model_copy(update=update, deep=deep)
        values = vars(copy)
        for name in values.keys() - type(self).model_fields.keys():
            del values[name]
        return copy


class Terse(BaseModel):
    """Base of what does not write fields that say nothing, by name with the value at which they do: files, messages and
    hashes are then what they were before there were such fields. An empty list stands as ()."""

    UNWRITTEN: ClassVar[Mapping[str, Any]] = {}

    @model_serializer(mode="wrap")
    def _terse(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {key: value for key, value in write(self).items() if not self._says_nothing(key, value)}

    def _says_nothing(self, name: str, value: Any) -> bool:
        plain = tuple(value) if isinstance(value, list) else value
        return name in self.UNWRITTEN and plain == self.UNWRITTEN[name]
