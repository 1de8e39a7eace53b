"""Images in folders, or named in a list: pixels of squares, from 0 to 1."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from consilium.data.table import TableRule, read_table
from consilium.protocol.errors import ConfigError, DataError, PathError
from consilium.simulations.datasets.array_source import ArraySource
from consilium.simulations.datasets.parts import JoinedRows, Part, Piece
from consilium.simulations.datasets.places import Places
from consilium.simulations.datasets.spec import SourceSpec
from consilium.simulations.datasets.table_files import HINTS

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
        raise ConfigError(
            'data.set = "images" needs data.size, the side of an image in pixels', "For example size = 28"
        )
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
    _, ends = COLOURS[spec.colour]
    width = len(str(spec.size - 1))
    features = tuple(
        f"pixel-{row:0{width}d}-{column:0{width}d}{end}"
        for row in range(spec.size)
        for column in range(spec.size)
        for end in ends
    )
    pieces = [Piece(frame.drop(FILE), Places.of_rows("images", frame.height), part) for frame, part in found]
    parts = JoinedRows.of(pieces, optional=("owner", spec.owner, spec.patient))
    if not spec.list:
        spec = spec.model_copy(update={"label": "class", "owner": "owner" if "owner" in spec.folders else ""})
    return ArraySource.of_parts(x, features, parts, spec)


def _in_folders(folder: Path, spec: SourceSpec) -> pl.DataFrame:
    """Files below `folder` with what the folders are named after."""
    import polars as pl

    if not folder.is_dir():
        raise PathError(f"{folder} is no folder", "Correct data.path: it is relative to the scenario's file")
    levels = spec.folders.split("/")
    rows: dict[str, list[str]] = {name: [] for name in (FILE, *levels)}
    for path in sorted(folder.rglob("*")):
        if path.suffix.lower() not in SUFFIXES:
            continue
        above = path.relative_to(folder).parts[:-1]
        if len(above) != len(levels):
            where = "/".join((*above, path.name))
            raise DataError(
                f"{folder}: {where} lies {len(above)} folders deep, data.folders {spec.folders!r} are {len(levels)}",
                "Move it, or correct data.folders",
            )
        for name, value in zip((FILE, *levels), (str(path), *above), strict=True):
            rows[name].append(value)
    if not rows[FILE]:
        raise DataError(f"{folder} has no images ({', '.join(SUFFIXES)})", f"They lie in {spec.folders.upper()}/")
    return pl.DataFrame(rows)


def _listed(path: Path, spec: SourceSpec) -> pl.DataFrame:
    """The list, with its images' files relative to where it lies."""
    import polars as pl

    for key, column in (("label", spec.label), ("owner", spec.owner), ("patient", spec.patient)):
        if not column and key == "label":
            raise ConfigError("data.label is missing: nobody says which column is voted on", 'Set label = "COLUMN"')
    wanted = [FILE, spec.label, *filter(None, (spec.owner, spec.patient))]
    frame = read_table([path], TableRule(csv=spec.csv, only=tuple(wanted)), HINTS)
    return frame.with_columns(pl.Series(FILE, [str(path.parent / name) for name in frame[FILE]]))


def _pixels(pillow: Any, path: Path, size: int, colour: str) -> np.ndarray:
    """One image, float32 (size * size * channels,)."""
    try:
        with pillow.Image.open(path) as image:
            square = pillow.ImageOps.fit(image.convert(COLOURS[colour][0]), (size, size))
    except FileNotFoundError:
        raise DataError(f"{path} is not there", f"Correct the column {FILE!r} of the list") from None
    except (OSError, ValueError, SyntaxError, pillow.Image.DecompressionBombError) as error:
        raise DataError(f"{path} is no image that can be read: {error}", "Export it again, or leave it out") from None
    return np.asarray(square, dtype=np.float32).reshape(-1) / np.float32(255)


def _pillow() -> Any:
    try:
        for module in ("PIL.Image", "PIL.ImageOps"):
            importlib.import_module(module)
    except ImportError:
        raise ConfigError(
            "images need Pillow, which is not installed", "pip install 'consilium-pate[images]'"
        ) from None
    return importlib.import_module("PIL")
