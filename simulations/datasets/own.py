"""Rows of the user's own: tables in CSV or Parquet, images in folders."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from consilium.data.files import Lines, files_of
from consilium.data.remedy import Faults
from consilium.data.table import TableRule, read_raw
from consilium.protocol.errors import ConfigError, DataError, PathError
from consilium.simulations.datasets.images import GREY, RGB, pixel_names
from consilium.simulations.datasets.roles import JoinedRows, Piece, parts_of
from consilium.simulations.datasets.spec import SourceSpec
from consilium.simulations.datasets.table import ArraySource, TableSource, how_to_check

if TYPE_CHECKING:
    import polars as pl


def open_tables(spec: SourceSpec, faults: Faults | None = None) -> TableSource:
    """The table that `spec` names. faults: see `TableSource.of_pieces`. Raises ConfigError: it names no file.
    PathError: there is none. DataError: all that is wrong, see `TableSource.of_pieces`, and `data.table.read_raw`."""
    if not spec.path:
        raise ConfigError('data.set = "table" needs data.path, a file or files', 'For example path = "patients.csv"')
    rule = TableRule(csv=spec.csv, columns=spec.cells, missing=spec.missing, drop=spec.drop)
    noted = Faults() if faults is None else faults
    tables = [(read_raw(files_of(name, Path()), rule, noted), part) for name, part in parts_of(spec.path, spec)]
    first = tables[0][0]  # what was dropped unread is in its file, and not in its frame
    dropped = tuple(name for name in spec.drop if name in first.frame.columns or name not in (*first.names, ""))
    described = spec.model_copy(update={"drop": dropped})
    source = TableSource.of_pieces([Piece(table.frame, table.lines, part) for table, part in tables], described, noted)
    if noted and faults is None:
        raise noted.error(source.places.whole, cure=True, more=how_to_check(spec))
    return source


SUFFIXES = (".png", ".jpg", ".jpeg", ".tif", ".tiff")
IMAGE = "file"
"""Column of the images' files."""
COLOURS = {"grey": ("L", GREY), "rgb": ("RGB", RGB)}
"""Pillow's mode, and what the names of a pixel's numbers end in."""


def open_images(spec: SourceSpec) -> ArraySource:
    """The images that `spec` names: a number from 0 (black) to 1 for each pixel, line by line, `size` x `size` of them.
    An image that is no square is cut to its middle; all are brought to the size that is declared. Raises ConfigError:
    no folder or size is given. PathError, DataError: there are no images, or one cannot be read."""
    if spec.size is None:
        raise ConfigError(
            'data.set = "images" needs data.size, the side of an image in pixels', "For example size = 28"
        )
    if not spec.path:
        raise ConfigError('data.set = "images" needs data.path, a folder', 'For example path = "scans"')
    frames = [(_in_folders(Path(name), spec), part) for name, part in parts_of(spec.path, spec)]
    files = [Path(name) for frame, _ in frames for name in frame[IMAGE]]
    x = _all_pixels(files, spec)
    _, ends = COLOURS[spec.colour]
    features = pixel_names(spec.size, ends)
    pieces = [Piece(frame.drop(IMAGE), Lines.of_rows("images", frame.height), part) for frame, part in frames]
    parts = JoinedRows.of(pieces, optional=("owner",))
    spec = spec.model_copy(update={"label": "class", "owner": "owner" if "owner" in spec.folders else ""})
    return ArraySource.of_parts(x, features, parts, spec)


_OF_SYSTEMS = ("Thumbs.db", "desktop.ini", ".DS_Store")
"""Files that Windows and macOS make in every folder."""


def _in_folders(folder: Path, spec: SourceSpec) -> pl.DataFrame:
    """Files below `folder` with what the folders are named after."""
    import polars as pl

    if not folder.is_dir():
        raise PathError(f"{folder} is no folder", "Correct data.path: it is relative to the scenario's file")
    levels = spec.folders.split("/")
    rows: dict[str, list[str]] = {name: [] for name in (IMAGE, *levels)}
    others = []
    for path in sorted(folder.rglob("*")):
        *above, name = path.relative_to(folder).parts
        if path.is_dir() or name in _OF_SYSTEMS:
            continue
        if path.suffix.lower() not in SUFFIXES or any(part.startswith(".") for part in (*above, name)):
            others.append(path)
            continue
        if len(above) != len(levels):
            where = "/".join((*above, path.name))
            raise DataError(
                f"{folder}: {where} lies {len(above)} folders deep, data.folders {spec.folders!r} are {len(levels)}",
                "Move it, or correct data.folders",
            )
        for name, value in zip((IMAGE, *levels), (str(path), *above), strict=True):
            rows[name].append(value)
    if not rows[IMAGE]:
        raise DataError(f"{folder} has no images ({', '.join(SUFFIXES)})", f"They lie in {spec.folders.upper()}/")
    if others:
        shown = ", ".join(str(path.relative_to(folder)) for path in others[:_SHOWN])
        what = f"{folder} has {len(others)} files beside {len(rows[IMAGE])} images ({', '.join(SUFFIXES)}): {shown}"
        raise DataError(what, "Convert those that are images, and put the others elsewhere")
    for place in sorted(folder.iterdir()):
        if place.is_dir() and not place.name.startswith(".") and place.name not in rows[levels[0]]:
            raise DataError(f"{place} has no images", f"Remove it, or copy this {levels[0]}'s images there")
    return pl.DataFrame(rows)


def _all_pixels(files: Sequence[Path], spec: SourceSpec) -> np.ndarray:
    """All images, float32 (images, numbers). Raises DataError that counts those of no use."""
    x, faults = [], []
    for path in files:
        try:
            x.append(_pixels(path, spec.size or 0, spec.colour))
        except DataError as error:
            faults.append(error)
    if not faults:
        return np.stack(x)
    shown, more = faults[:_SHOWN], len(faults) - _SHOWN
    what = "; ".join(error.what for error in shown) + (f"; and {more} more" if more > 0 else "")
    actions = list(dict.fromkeys(error.action for error in shown))
    raise DataError(f"{len(faults)} of {len(files)} images are of no use: {what}", ". ".join(actions))


_SHOWN = 3
_DEEP = 65_535
"""White, in 16 bits."""


def _pixels(path: Path, size: int, colour: str) -> np.ndarray:
    """One image, float32 (size * size * channels,), upright and scaled by its depth. Raises DataError."""
    from PIL import Image, ImageOps

    too_large = (Image.DecompressionBombWarning, Image.DecompressionBombError)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            opened = Image.open(path)
        with opened as image:
            mode, frames = image.mode, getattr(image, "n_frames", 1)
            deep = image.format == "PNG" and (mode == "I" or mode.startswith("I;16"))
            if not deep and (mode not in ("1", "L", "RGB") or image.has_transparency_data):
                raise DataError(
                    f"{path} has the mode {mode}, or is transparent in part: its range is not known", _EXPORT
                )
            if frames > 1 and image.format != "MPO":  # a photograph with its preview
                raise DataError(f"{path} holds {frames} images", "Make each a file")
            upright = ImageOps.exif_transpose(image)
            if deep:  # resized as floats: Pillow cuts 16 bits at 255
                plain = Image.fromarray(np.asarray(upright, dtype=np.float32) * np.float32(255 / _DEEP))
            else:
                plain = upright.convert(COLOURS[colour][0])
            square = np.asarray(ImageOps.fit(plain, (size, size)), dtype=np.float32)
    except FileNotFoundError:
        raise DataError(f"{path} is not there", "Correct the link") from None
    except too_large:
        most = f"{Image.MAX_IMAGE_PIXELS:,} pixels"
        raise DataError(f"{path} has more than {most}, the most that is read", "Export it smaller") from None
    except (OSError, ValueError, SyntaxError) as error:
        raise DataError(f"{path} is no image that can be read: {error}", "Export it again, or leave it out") from None
    if deep and colour == "rgb":
        square = np.repeat(square[:, :, None], 3, axis=2)
    return np.clip(square, 0, 255).reshape(-1) / np.float32(255)


_EXPORT = "Export it as grey or RGB of 8 bits, or as grey PNG of 16 bits, without transparency"
