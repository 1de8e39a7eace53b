"""Arrays of numbers out of a MATLAB 5 file that somebody else wrote.

The format is MathWorks' "MAT-File Format", level 5. Only numeric arrays are read: a file may hold functions and objects
as well, and these are passed over. `scipy.io.loadmat` reads more, and crashes the whole process on some damaged files
(scipy 1.17.1: three altered bytes or fewer did it); here all that a file says of its own sizes is looked at first.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from consilium.protocol.errors import DataError

MOST_BYTES = 2**31
"""Of a file: more than the largest of SVHN has, 1.3 GB."""

_HEADER = 128
_HEAD = 4096
"""Bytes that are unpacked of an array before it is known whether it is wanted: flags, shape and name."""

_MATRIX, _COMPRESSED = 14, 15
_NUMBERS = {
    1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8",
}  # fmt: skip
_NUMERIC_CLASSES = range(6, 16)
_COMPLEX = 0x0800
_MOST_DIMENSIONS = 32


@dataclass(frozen=True)
class _Element:
    """kind: what it holds. start, size: of its content, in bytes. end: where the next one begins."""

    kind: int
    start: int
    size: int
    end: int


@dataclass(frozen=True)
class _Head:
    """An array before its numbers. number: their type for numpy, with its byte order. data: where they are."""

    name: str
    shape: tuple[int, ...]
    number: np.dtype
    data: _Element


def read_mat_arrays(path: Path, most: Mapping[str, int], source: str) -> dict[str, np.ndarray]:
    """The arrays of these names, in the shape and the type of number in which they are stored.

    most: how many numbers an array of each name may have; more are not unpacked. source: where to get the file.

    Raises
    ------
    DataError : it is no such file, damaged, has no array of such a name or two, or one that is too large.
    """
    try:
        if path.stat().st_size > MOST_BYTES:
            raise ValueError(f"more than {MOST_BYTES:,} bytes")
        content = path.read_bytes()
        order = {b"IM": "<", b"MI": ">"}.get(content[126:128])
        if order is None:
            raise ValueError("no MATLAB file of level 5")
        found: dict[str, np.ndarray] = {}
        for part in _matrices(content, order):
            for name, array in _numbers(part, order, most):
                if name in found:
                    raise ValueError(f"two arrays {name}")
                found[name] = array
    except (OSError, ValueError, MemoryError, struct.error, zlib.error) as error:
        what = f"cannot read {path}: {error or type(error).__name__}"
        raise DataError(what, f"Get it anew from {source}") from None
    if missing := set(most) - set(found):
        raise DataError(f"{path} has no array {min(missing)}", f"Get it anew from {source}")
    return found


def _matrices(content: bytes, order: str) -> Iterator[tuple[memoryview, bool]]:
    """The content of each element at the top, and whether it is compressed."""
    view, at = memoryview(content), _HEADER
    while at < len(content):
        element = _element(view, at, order, pad=False)
        if element.kind in (_MATRIX, _COMPRESSED):
            yield view[element.start : element.start + element.size], element.kind == _COMPRESSED
        at = element.end


def _numbers(part: tuple[memoryview, bool], order: str, most: Mapping[str, int]) -> Iterator[tuple[str, np.ndarray]]:
    """Name and numbers of an array, if it is wanted."""
    packed, compressed = part
    begin = memoryview(zlib.decompressobj().decompress(packed[: 16 * _HEAD], _HEAD)) if compressed else packed
    start = 0
    if compressed:
        inner = _element(begin, 0, order, pad=False, whole=False)
        if inner.kind != _MATRIX:
            return
        start = inner.start
    head = _head(begin, start, order)
    if head is None or head.name not in most:
        return
    count = math.prod(head.shape)
    if count > most[head.name]:
        raise ValueError(f"array {head.name} has {count:,} numbers, the limit is {most[head.name]:,}")
    if head.data.size != count * head.number.itemsize:
        raise ValueError(f"array {head.name} of shape {head.shape} in {head.data.size:,} bytes")
    end = head.data.start + head.data.size
    whole = zlib.decompressobj().decompress(packed, end) if compressed and end > len(begin) else begin
    if len(whole) < end:
        raise ValueError("cut off")
    numbers = np.frombuffer(whole, head.number, count, head.data.start)
    yield head.name, numbers.reshape(head.shape, order="F")


def _head(view: memoryview, at: int, order: str) -> _Head | None:
    """What is said of an array; None where it is none of real numbers. A name or shape that is too long is neither."""
    flags = _element(view, at, order)
    shape = _element(view, flags.end, order)
    name = _element(view, shape.end, order)
    if flags.size != 8 or shape.size > 4 * _MOST_DIMENSIONS or shape.size % 4:
        raise ValueError("an array without a shape")
    (flag,) = struct.unpack_from(f"{order}I", view, flags.start)
    if flag & 0xFF not in _NUMERIC_CLASSES or flag & _COMPLEX:
        return None
    sizes = struct.unpack_from(f"{order}{shape.size // 4}i", view, shape.start)
    if min(sizes, default=-1) < 0:
        raise ValueError("an array of a negative size")
    data = _element(view, name.end, order, whole=False)
    if data.kind not in _NUMBERS:
        raise ValueError(f"numbers of the unknown kind {data.kind}")
    text = bytes(view[name.start : name.start + name.size]).decode("latin-1")
    return _Head(text, sizes, np.dtype(f"{order}{_NUMBERS[data.kind]}"), data)


def _element(view: memoryview, at: int, order: str, pad: bool = True, whole: bool = True) -> _Element:
    """The element that begins at a byte. pad: whether the next begins at a multiple of eight bytes. whole: whether its
    content must be there."""
    kind, size = struct.unpack_from(f"{order}II", view, at)
    start, end = at + 8, at + 8 + size
    if kind >> 16:  # of four bytes at most, which stand in the tag itself
        kind, size, start, end = kind & 0xFFFF, kind >> 16, at + 4, at + 8
        if size > 4:
            raise ValueError("a short element that is long")
    elif pad:
        end += -size % 8
    if whole and start + size > len(view):
        raise ValueError("cut off")
    return _Element(kind, start, size, end)
