"""Names in files of version 0.9 and before: what they gave to an epsilon, and keys that are none any more.

`epsilon_worst_case` stood for two numbers: in a student's card for the guarantee, in every other file for what was
spent at the released counts, which is secret. So the file decides what an old name meant.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Self, get_args, get_origin

from pydantic import BaseModel, FieldSerializationInfo, ModelWrapValidatorHandler, PrivateAttr, model_validator

from consilium.protocol.errors import ConfigError
from consilium.protocol.strict_json import INFINITE

log = logging.getLogger("consilium.old_names")

OF_SPENT: Mapping[str, str] = {
    "worst_case": "spent",
    "epsilon_worst_case": "epsilon_spent",
    "promised": "guarantee",
    **{f"promised_{unit}": f"guarantee_{unit}" for unit in ("record", "patient", "party")},
    "epsilon_promised": "epsilon_guaranteed",
}
"""In coordinator.json, summary.json, the report's data, metrics.parquet, and results.parquet of a study."""
OF_CARD: Mapping[str, str] = {"epsilon_worst_case": "epsilon"}
"""In student.json."""


OF_COORDINATOR: Mapping[str, str] = {"votes": "collection"}
"""In coordinator.json, and the second in summary.json."""
OF_SUMMARY: Mapping[str, str] = {**OF_SPENT, **OF_COORDINATOR}
"""In the table `privacy` of summary.json, and in the report's data."""
PLAINTEXT, CLEAR = "plaintext", "clear"
"""Votes that the coordinator reads: as files say it, and as 0.9, hashes and the wire do."""


def todays_mode(value: Any) -> Any:
    """How votes are collected, of a file of 0.9 or of today."""
    return PLAINTEXT if value == CLEAR else value


def public_file(folder: Path, name: str) -> Path:
    """public.npy or public.npz of a kit or a run, which 0.9 called pool.npy and pool.npz."""
    today, old = folder / name, folder / name.replace("public", "pool")
    return old if old.exists() and not today.exists() else today


def sent_mode(value: str) -> str:
    """How votes are collected, as it travels between nodes."""
    return CLEAR if value == PLAINTEXT else value


def hashed_mode(value: str, info: FieldSerializationInfo) -> str:
    """The same as files state it; under the names of 0.9 where it is hashed."""
    return sent_mode(value) if info.by_alias else value


def renamed(table: Any, names: Mapping[str, str]) -> Any:
    """A table of strict JSON with today's names; what is no table as it is, since a reader refuses it in its own words.

    A table that has both names of one number keeps both, so that its reader finds one too many.

    >>> renamed({"epsilon_worst_case": None, "delta": 1e-05, "infinite": ["epsilon_worst_case"]}, OF_CARD)
    {'epsilon': None, 'delta': 1e-05, 'infinite': ['epsilon']}
    """
    if not isinstance(table, Mapping):
        return table
    now = {old: new for old, new in names.items() if old in table and new not in table}
    infinite = table.get(INFINITE)
    return {
        now.get(key, key): [now.get(name, name) for name in infinite]
        if key == INFINITE and isinstance(infinite, list) and all(isinstance(name, str) for name in infinite)
        else todays_mode(value)
        if now.get(key, key) == "collection"
        else value
        for key, value in table.items()
    }


class Outgrown(BaseModel):
    """Base of what had other keys in 0.9: they are read, with a note.

    A field's `serialization_alias` is its key of 0.9. Hashes are taken under it, and it travels between nodes, so that
    what parties have accepted stays valid: `model_dump(by_alias=True)`.
    GONE: keys that do nothing now. HASHED: those of them of which hashes were taken; `outgrown` has what stood there,
    to be written again.
    """

    GONE: ClassVar[frozenset[str]] = frozenset()
    HASHED: ClassVar[frozenset[str]] = frozenset()
    _outgrown: dict[str, Any] = PrivateAttr(default_factory=dict)

    @model_validator(mode="wrap")
    @classmethod
    def _with_keys_of_today(cls, table: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        if not isinstance(table, Mapping):
            return handler(table)
        if old := table.keys() & cls.GONE:
            keys = ", ".join(sorted(old))
            note(f"{cls.__name__}: {keys} of version 0.9 do nothing any more: exact sums keep fixed blocks of parties")
        model = handler(_todays({key: value for key, value in table.items() if key not in old}, (cls,)))
        model._outgrown = {key: table[key] for key in old & cls.HASHED}
        return model

    @property
    def outgrown(self) -> Mapping[str, Any]:
        """Old keys of which hashes were taken, as they were read."""
        return self._outgrown


@cache
def note(text: str) -> None:
    """Tell the user, once in a process."""
    log.warning("%s", text)


Models = tuple[type[BaseModel], ...]
"""Of which a table may be: several, where one of its keys says of which."""


def todays(table: Any, *models: type[BaseModel]) -> Any:
    """A table as a file has it, not validated, with today's keys in it and in all tables within.

    Raises
    ------
    ConfigError : it has a key under both names.
    """
    try:
        return _todays(table, models)
    except ValueError as error:
        raise ConfigError(str(error), "Leave the old one out") from None


def todays_key(key: str, model: type[BaseModel]) -> str:
    """A dotted key, as `--set` has it, with the names of today."""
    models: Models = (model,)
    names = []
    for name in key.split("."):
        today = _names(models).get(name, name)
        if today != name:
            _note_of(models, name, today)
        names.append(today)
        models = _of_key(models, today)
    return ".".join(names)


def _todays(table: Any, models: Models) -> Any:
    """`todays`. Raises ValueError."""
    if not models:
        return table
    if isinstance(table, list | tuple):
        return [_todays(entry, models) for entry in table]
    if not isinstance(table, Mapping):
        return table
    return {key: _todays(value, _of_key(models, key)) for key, value in _renamed(table, models).items()}


def _renamed(table: Mapping[str, Any], models: Models) -> dict[str, Any]:
    """One table with today's keys. Raises ValueError where it has a key under both names."""
    names = _names(models)
    for old in names.keys() & table.keys():
        if names[old] in table:
            raise ValueError(f"{names[old]} was called {old} in version 0.9, and both are there")
        _note_of(models, old, names[old])
    return {names.get(key, key): value for key, value in table.items()}


def _note_of(models: Models, old: str, today: str) -> None:
    """Of a message there is none: it always has the old name."""
    if not any(model.model_config.get("serialize_by_alias") for model in models):
        note(f"{models[0].__name__}: {old} of version 0.9 is called {today} now")


@cache
def _names(models: Models) -> Mapping[str, str]:
    """Key of 0.9 -> of today."""
    fields = [item for model in models for item in model.model_fields.items()]
    return {field.serialization_alias: name for name, field in fields if field.serialization_alias not in (None, name)}


@cache
def _of_key(models: Models, key: str) -> Models:
    """Of which the tables are that a key holds, by itself or in a list."""
    annotations = [model.model_fields[key].annotation for model in models if key in model.model_fields]
    return tuple(dict.fromkeys(kind for annotation in annotations for kind in _kinds(annotation)))


def _kinds(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    elif get_origin(annotation) is not dict:
        for part in get_args(annotation):
            yield from _kinds(part)
