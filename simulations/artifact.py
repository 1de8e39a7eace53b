"""What a step of a study leaves for later steps and later runs: arrays, under the digest of all that decided them."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping

import numpy as np

from consilium.protocol.errors import DataError

Arrays = dict[str, np.ndarray]
"""By name; texts are arrays of str. Nothing in them is pickled."""
UNIT_SCORES = "row_scores."
"""Names of what units of test rows add to figures begin so, see `study.row_scores`."""


def to_bytes(arrays: Mapping[str, np.ndarray]) -> bytes:
    """As an .npz file. Fractions stand in it as they are: to press them takes long, and saves a fifth."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", compresslevel=1) as archive:
        for name, array in arrays.items():
            entry = zipfile.ZipInfo(f"{name}.npy")
            entry.compress_type = zipfile.ZIP_STORED if array.dtype.kind == "f" else zipfile.ZIP_DEFLATED
            with archive.open(entry, "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array, allow_pickle=False)
    return content.getvalue()


def from_bytes(content: bytes) -> Arrays:
    """The inverse. Raises DataError for what is no whole artifact."""
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(f"a kept step of a study cannot be read: {type(error).__name__}", "It is made anew") from None
