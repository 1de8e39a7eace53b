"""Data sets of Hugging Face's `datasets`, from a folder of this machine or its cache: nothing is downloaded."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any

from consilium.protocol.errors import ConfigError, DataError
from consilium.simulations.datasets.parts import Part, Piece
from consilium.simulations.datasets.places import Places
from consilium.simulations.datasets.spec import SourceSpec
from consilium.simulations.datasets.table import TableSource

OFFLINE = ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE")
"""Variables that keep the libraries from the network; read when they are imported."""


def open_hub(spec: SourceSpec) -> TableSource:
    """Columns of the data set's splits, as a table: `split` is the parties', and of `public = { by = "file" }` `file`
    and `test` name splits too.

    path: what `Dataset.save_to_disk` wrote, a folder of Parquet, CSV or JSON files, or a name in the cache.

    Raises
    ------
    ConfigError : `datasets` is not installed, no path is given, or there is no such split. DataError : there is no such
        data set on this machine, or a column is no text or number.
    """
    if not spec.path:
        raise ConfigError(
            'data.set = "hub" needs data.path, a folder or a name in the cache', 'For example path = "heart"'
        )
    loaded = _load(spec.path)
    given = [(spec.split, Part.PRIVATE)]
    if spec.public is not None and spec.public.by == "file":
        given.append((spec.public.file, Part.QUERIES))
        given += [(spec.public.test, Part.TEST)] if spec.public.test else []
    return TableSource.of_pieces([_piece(loaded, name, spec, part) for name, part in given], spec)


def _load(path: str) -> Any:
    """Splits by name."""
    before = {name: os.environ.get(name) for name in OFFLINE}
    os.environ.update(dict.fromkeys(OFFLINE, "1"))
    try:
        datasets = importlib.import_module("datasets")
    except ImportError:
        raise ConfigError(
            "Hugging Face data sets need `datasets`, which is not installed", "pip install 'consilium-pate[hub]'"
        ) from None
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
    datasets.disable_progress_bars()
    folder = Path(path)
    datasets.config.HF_HUB_OFFLINE = True  # who imported it before us may have been online
    saved = any((folder / name).is_file() for name in ("dataset_dict.json", "state.json"))
    try:
        loaded = datasets.load_from_disk(path) if saved else datasets.load_dataset(path)
    except Exception as error:  # of many kinds, from several libraries
        told = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(
            f"data.path {path}: no data set can be read from it on this machine: {told[:300]}",
            "Nothing is downloaded. Save it with Dataset.save_to_disk, or fetch it once with datasets.load_dataset",
        ) from None
    return loaded if hasattr(loaded, "keys") else {str(loaded.split or "train"): loaded}


def _piece(loaded: Any, split: str, spec: SourceSpec, part: Part) -> Piece:
    if split not in loaded:
        raise ConfigError(f"{spec.path} has no split {split!r}", f"It has {', '.join(loaded)}")
    rows = loaded[split]
    named = {name: kind.names for name, kind in rows.features.items() if getattr(kind, "names", None)}
    unusable = [name for name, kind in rows.features.items() if not hasattr(kind, "dtype") or not _plain(kind)]
    if kept := [name for name in unusable if name not in spec.drop]:
        raise DataError(
            f"{spec.path}: column {kept[0]!r} is of kind {type(rows.features[kept[0]]).__name__}, no text or number",
            'Leave it out with data.drop; images are read from folders (data.set = "images")',
        )
    frame = rows.with_format("polars")[:]
    for name, names in named.items():
        codes = frame[name].to_list()
        texts = [None if code is None or code < 0 else names[code] for code in codes]
        frame = frame.with_columns(frame[name].__class__(name, texts))
    return Piece(frame, Places.of_rows(f"{spec.path} ({split})", frame.height), part)


def _plain(kind: Any) -> bool:
    return type(kind).__name__ in ("Value", "ClassLabel")
