"""Bases of everything that is read from a file or from the wire."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, model_serializer


class Frozen(BaseModel):
    """Base of all configuration: frozen, unknown keys refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Strict(Frozen):
    """Base of what other nodes send, or sign: no value is converted to the type of its field either."""

    model_config = ConfigDict(strict=True)


class Countable(BaseModel):
    """Base of what has a weight, under the name `WEIGHT`. A weight of 1, which is what there was before there were
    weights, is not written: files, messages and hashes without weights are what they were."""

    WEIGHT: ClassVar[str] = "weight"

    @model_serializer(mode="wrap")
    def _without_weight_one(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        table = write(self)
        return {key: value for key, value in table.items() if (key, value) != (self.WEIGHT, 1)}
