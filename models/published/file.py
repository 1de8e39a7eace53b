"""The file of a published student: safetensors, numbers with names and shapes, and one text of JSON about them.
https://github.com/huggingface/safetensors. Nothing in it is ever executed, imported or unpickled. Nothing is
compressed: a file is as long as what it claims to hold."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from consilium.protocol.errors import DataError
from consilium.protocol.files import replacing, unreadable

MOST_BYTES = 4 * 2**30
MOST_HEADER_BYTES = 32 * 2**20
_KEY = "consilium"
"""One entry only: the library writes several in a random order, and equal students should have equal files."""
_TYPES = {"F64": "<f8", "F32": "<f4", "I64": "<i8", "I32": "<i4", "U8": "|u1"}


class BadModel(DataError):
    """A file is no published student, or is damaged, or was made to harm. Nothing of it was executed."""


@dataclass(frozen=True)
class Content:
    """`header`: what the JSON says. `arrays`: numbers by name, all finite. `sha256`: of the whole file, hex."""

    header: dict[str, Any]
    arrays: dict[str, np.ndarray] = field(repr=False)
    sha256: str


def encoded(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> bytes:
    """The file's bytes; equal content gives equal bytes. Raises BadModel: more than `read` takes, an array of
    another type than `_TYPES`, or a number that is not finite."""
    from safetensors.numpy import save

    for name, array in arrays.items():
        if array.dtype.newbyteorder("<").str not in _TYPES.values():
            raise BadModel(f"student: {name} is {array.dtype}", f"Use {', '.join(_TYPES)}")
        _check_finite("student", name, array)
    text = json.dumps(header, allow_nan=False, sort_keys=True)
    content = save({name: np.ascontiguousarray(array) for name, array in arrays.items()}, {_KEY: text})
    if len(content) > MOST_BYTES or len(text) > MOST_HEADER_BYTES // 2:  # quotes are escaped within the header
        raise BadModel(f"the student has {len(content)} bytes, the most is {MOST_BYTES}", "Use a smaller one")
    return content


def write(path: Path, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Write the file, whole or not at all. Raises what `encoded` raises."""
    content = encoded(header, arrays)
    with replacing(path) as file:
        file.write(content)


def read(path: Path) -> Content:
    """Read the file and check its form; `structures` says what its numbers mean. Raises BadModel: whatever is
    wrong with it. PathError: it cannot be read."""
    try:
        if not path.is_file():
            raise BadModel(f"{path} is no file", _ACTION)
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size > MOST_BYTES:
                raise BadModel(f"{path} has {size} bytes, the most is {MOST_BYTES}", _ACTION)
            length = int.from_bytes(file.read(8), "little")
            if size > length > MOST_HEADER_BYTES:
                raise BadModel(f"{path}: a header of {length} bytes, the most is {MOST_HEADER_BYTES}", _ACTION)
            file.seek(0)
            return decoded(file.read(size), path)
    except OSError as error:
        raise unreadable(path, error, "Check the path and its rights") from None


def decoded(raw: bytes, path: Path | str) -> Content:
    """What `read` returns, from the file's bytes; `path`: what errors call it."""
    from safetensors import SafetensorError, deserialize

    try:
        tensors = deserialize(raw)
        text = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")]).get("__metadata__", {})[_KEY]
        header = json.loads(text)
        if not isinstance(header, dict):
            raise TypeError
    except SafetensorError:
        what = f"{path} is no safetensors file, or is cut off; nothing of it was executed"
        raise BadModel(what, _ACTION) from None
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
        raise BadModel(f"{path} is a safetensors file, but no student of Consilium", _ACTION) from None
    arrays = {}
    for name, tensor in tensors:
        if tensor["dtype"] not in _TYPES:
            raise BadModel(f"{path}: {name[:40]!r} is {tensor['dtype']}, not of {', '.join(_TYPES)}", _ACTION)
        array = np.frombuffer(tensor["data"], dtype=_TYPES[tensor["dtype"]]).reshape(tensor["shape"])
        _check_finite(path, name, array)
        arrays[name] = array
    return Content(header, arrays, hashlib.sha256(raw).hexdigest())


_ACTION = "Get the student's folder anew from whoever trained it"


def _check_finite(path: Path | str, name: str, array: np.ndarray) -> None:
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise BadModel(f"{path}: {name[:40]!r} has a number that is not finite", "Such a student must not be used")
