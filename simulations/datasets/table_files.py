"""Tables from files, CSV or Parquet: the rows that parties have, and public ones of their own file."""

from __future__ import annotations

from pathlib import Path

from consilium.data.files import files_of, in_file
from consilium.data.table import TableRule, read_raw
from consilium.protocol.errors import ConfigError
from consilium.simulations.datasets.parts import Part, Piece
from consilium.simulations.datasets.places import Places
from consilium.simulations.datasets.spec import SourceSpec
from consilium.simulations.datasets.table import TableSource

HINTS = in_file("data.csv")


def open_tables(spec: SourceSpec) -> TableSource:
    """The table that `spec` names.

    Raises
    ------
    ConfigError : it names no file. PathError : there is none. DataError : see `TableSource.of_pieces`, and
        `protocol.tables.raw.read_raw`.
    """
    if not spec.path:
        raise ConfigError('data.set = "table" needs data.path, a file or files', 'For example path = "patients.csv"')
    pieces = [_read(spec.path, spec, Part.PRIVATE)]
    if spec.public is not None and spec.public.by == "file":
        pieces.append(_read(spec.public.file, spec, Part.QUERIES))
        if spec.public.test:
            pieces.append(_read(spec.public.test, spec, Part.TEST))
    return TableSource.of_pieces(pieces, spec)


def _read(given: str, spec: SourceSpec, part: Part) -> Piece:
    paths = files_of(given, Path())
    table = read_raw(paths, TableRule(csv=spec.csv, columns=spec.cells, missing=spec.missing), HINTS)
    return Piece(table.frame, Places(table.lines.files), part)
