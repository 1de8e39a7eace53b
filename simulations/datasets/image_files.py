"""Images in folders, or named in a list: pixels of squares, from 0 to 1."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from consilium.protocol.errors import ConfigError, DataError, PathError
from consilium.protocol.tables.raw import read_table
from consilium.protocol.tables.rules import TableRule
from consilium.simulations.datasets.array_source import ArraySource
from consilium.simulations.datasets.parts import Part, Parts, Piece
from consilium.simulations.datasets.places import Places
from consilium.simulations.datasets.spec import SourceSpec

if TYPE_CHECKING:
    import polars as pl

SUFFIXES = (".png", ".jpg", ".jpeg")
FILE = "file"
"""Column of a list that names the images, relative to the list."""
COLOURS = {"grey": ("L", ("",)), "rgb": ("RGB", ("-red", "-green", "-blue"))}
"""Pillow's mode, and what the names of a pixel's numbers end in."""


def open_images(spec: SourceSpec) -> ArraySource:
    """The images that `spec` names: a number from 0 (black) to 1 for each pixel, line by line, `size` x `size` of them.

    An image that is no square is cut to its middle; all are brought to the size that is declared.

    Raises
    ------
    ConfigError : no folder, list or size is given, or Pillow is not installed. PathError, DataError : there are no
        images, or one cannot be read.
    """
    if spec.size is None:
        raise ConfigError('data.set = "images" needs data.size, the side of an image in pixels', "For example size = 28")
    if bool(spec.path) == bool(spec.list):
        raise ConfigError('data.set = "images" needs either data.path, a folder, or data.list, a CSV file', "Give one")
    pillow = _pillow()
    find = _listed if spec.list else _in_folders
    found = [(find(Path(spec.list or spec.path), spec), Part.PRIVATE)]
    if spec.public is not None and spec.public.by == "file":
        found.append((find(Path(spec.public.file), spec), Part.QUERIES))
        found += [(find(Path(spec.public.test), spec), Part.TEST)] if spec.public.test else []
    files = [Path(name) for frame, _ in found for name in frame[FILE]]
    x = np.stack([_pixels(pillow, path, spec.size, spec.colour) for path in files])
    mode, ends = COLOURS[spec.colour]
    width = len(str(spec.size - 1))
    features = tuple(
        f"pixel-{row:0{width}d}-{column:0{width}d}{end}"
        for row in range(spec.size)
        for column in range(spec.size)
        for end in ends
    )
    pieces = [Piece(frame.drop(FILE), Places.of_rows("images", frame.height), part) for frame, part in found]
    parts = Parts.of(pieces, optional=("owner", spec.owner, spec.patient))
    if not spec.list:
        spec = spec.model_copy(update={"label": "class", "owner": "owner" if "owner" in spec.folders else ""})
    return ArraySource.of_parts(x, features, parts, spec)
