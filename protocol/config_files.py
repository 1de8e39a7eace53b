"""Configuration files: TOML or JSON into frozen models; every fault a line that names file, key and value."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from consilium.protocol.config_faults import faults_of, in_one
from consilium.protocol.errors import ConfigError
from consilium.protocol.files import unreadable
from consilium.protocol.models import Frozen

F = TypeVar("F", bound=Frozen)


def read_table(path: Path) -> dict[str, Any]:
    """A .toml or .json file as a dict.

    Raises
    ------
    PathError : it is not there, or may not be read. ConfigError : it is no table in TOML or JSON.
    """
    kind = "JSON" if path.suffix == ".json" else "TOML"
    action = "Correct the file, or give another"
    try:
        text = path.read_text(encoding="utf-8")
        table = json.loads(text) if kind == "JSON" else tomllib.loads(text)
    except OSError as error:
        raise unreadable(path, error) from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not valid {kind}: it is no text in UTF-8", action) from None
    except json.JSONDecodeError as error:
        raise ConfigError(f"{path} is not valid {kind}: line {error.lineno}, column {error.colno}", action) from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not valid {kind}: {_toml_fault(error)}", action) from None
    if not isinstance(table, dict):
        raise ConfigError(f"{path}: must be a table", action)
    return table


def _toml_fault(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "tables within tables without end"
    return str(error) if isinstance(error, tomllib.TOMLDecodeError) else "a number of too many digits"


def validate(table: dict[str, Any], model: type[F], where: str) -> F:
    """The table as a model.

    Raises
    ------
    ConfigError : every fault, up to ten: where, key, what is allowed, what was given; nearest keys of an unknown one.
    """
    try:
        return model.model_validate(table)
    except ValidationError as error:
        raise ConfigError(in_one(where, faults_of(error, model, table))) from None


def load(path: Path, model: type[F]) -> F:
    """Read and validate one file. Raises PathError, ConfigError."""
    return validate(read_table(path), model, str(path))
