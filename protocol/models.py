"""Bases of everything that is read from a file or from the wire."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """Base of all configuration: frozen, unknown keys refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Strict(Frozen):
    """Base of what other nodes send, or sign: no value is converted to the type of its field either."""

    model_config = ConfigDict(strict=True)
