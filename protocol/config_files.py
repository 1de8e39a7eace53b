"""Configuration files: TOML or JSON into frozen models, faults as one line that names file, key and value."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from consilium.protocol.errors import ConfigError
from consilium.protocol.models import Frozen

F = TypeVar("F", bound=Frozen)


def read_table(path: Path) -> dict[str, Any]:
    """A .toml or .json file as a dict; ConfigError if it cannot be read."""
    try:
        text = path.read_text(encoding="utf-8")
        table = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}", "Check the path") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, json.JSONDecodeError) as error:
        kind = "JSON" if path.suffix == ".json" else "TOML"
        raise ConfigError(f"{path} is not valid {kind}: {error}") from None
    if not isinstance(table, dict):
        raise ConfigError(f"{path}: must be a table")
    return table


def validate(table: dict[str, Any], model: type[F], where: str) -> F:
    """The table as a model.

    Raises
    ------
    ConfigError : the first fault: where, key, what is allowed, what was given.
    """
    try:
        return model.model_validate(table)
    except ValidationError as error:
        first = error.errors()[0]
    key = ".".join(str(part) for part in first["loc"])
    given = first.get("input")
    text = first["msg"].removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        text = "unknown key"
    elif first["type"] == "missing":
        text = "is required"
    elif isinstance(given, str | int | float | bool):
        text = f"{text}, got {given!r}"
    raise ConfigError(f"{where}: {key}: {text}" if key else f"{where}: {text}")


def load(path: Path, model: type[F]) -> F:
    """Read and validate one file. Raises ConfigError."""
    return validate(read_table(path), model, str(path))
