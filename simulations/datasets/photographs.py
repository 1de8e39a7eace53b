"""Photographs of 32x32 pixels in colour in a folder: CIFAR-10 and Street View House Numbers, and their file formats."""

from __future__ import annotations

import io
import math
import pickle
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from consilium.protocol.errors import DataError
from consilium.simulations.datasets.base import Dataset, Public
from consilium.simulations.datasets.folder import data_file

SIDE = 32
CHANNELS = 3
NUMBERS = SIDE * SIDE * CHANNELS
MOST_IMAGES = 1_000_000
"""In one file. The largest that was published has 531,131."""

COLOUR_PIXELS = tuple(
    f"pixel-{row:02d}-{column:02d}-{colour}"
    for row in range(SIDE)
    for column in range(SIDE)
    for colour in ("red", "green", "blue")
)


@dataclass(frozen=True)
class Photographs:
    """images: uint8 (n, 32, 32, 3), rows from the top. labels: int64 (n,)."""

    images: np.ndarray = field(repr=False)
    labels: np.ndarray = field(repr=False)


def of_photographs(
    private: Sequence[Photographs],
    test: Photographs,
    asked: int,
    where: Path,
    *,
    name: str,
    title: str,
    attribution: str,
    classes: tuple[str, ...],
) -> Dataset:
    """The parties' images and the public ones as a data set without owners; values are from 0 to 1.

    asked: how many of the test images, from the first on, the student may ask about; the others are held out.

    Raises
    ------
    DataError : a label is no class, or the test part has too few images to be divided.
    """
    parts = [*private, test]
    if not 0 < asked < len(test.labels):
        raise DataError(f"{where}: {len(test.labels)} test images cannot be divided", "Two are needed at least")
    y = np.concatenate([part.labels for part in parts])
    if not 0 <= y.min() <= y.max() < len(classes):
        raise DataError(f"{where} has labels that are none of the {len(classes)} classes", "Get the files anew")
    x = np.empty((len(y), NUMBERS), dtype=np.float32)
    start = 0
    for part in parts:  # one after the other: all of SVHN is 8 GB as numbers
        rows = x[start : start + len(part.labels)]
        rows[:] = part.images.reshape(len(rows), NUMBERS)
        rows /= np.float32(255)
        start += len(rows)
    queries = start - len(test.labels)
    return Dataset(
        name=name,
        title=title,
        attribution=attribution,
        features=COLOUR_PIXELS,
        classes=classes,
        owner_label="party",
        x=x,
        y=y,
        owner=np.zeros(len(y), dtype=np.int64),
        public=Public(np.arange(queries, queries + asked), np.arange(queries + asked, len(y))),
    )


def beside(folder: Path, *names: str) -> Path:
    """The first of the folders with these names in `folder` that is there, or `folder` itself."""
    return next((folder / name for name in names if (folder / name).is_dir()), folder)


MOST_BYTES = 256 * 2**20
"""Of a file: eight times that of one published batch of CIFAR-10."""

_BYTE_TYPES = ("u1", "B", "|u1", "uint8")
_ARRAY_MODULES = ("numpy.core.multiarray", "numpy._core.multiarray")
_BUFFER_MODULES = ("numpy.core.numeric", "numpy._core.numeric")


class KeptArray:
    """What a pickle says of an array of bytes, until `array` makes one."""

    def __init__(self) -> None:
        self.shape: Any = None
        self.kind: Any = None
        self.columns_first: Any = None
        self.content: Any = None

    def __setstate__(self, state: Any) -> None:
        """As numpy writes it: version, shape, type, whether columns come first, bytes."""
        _, self.shape, self.kind, self.columns_first, self.content = state

    def array(self) -> np.ndarray:
        """The array, uint8. Raises ValueError if it is none, or its bytes are not as many as its shape says."""
        kind = getattr(self.kind, "name", None)
        plain = isinstance(self.shape, tuple) and all(type(size) is int and size >= 0 for size in self.shape)
        if kind not in _BYTE_TYPES or not plain or not isinstance(self.content, bytes | bytearray):
            raise ValueError("an array that is not one of bytes")
        if math.prod(self.shape) != len(self.content):
            raise ValueError(f"an array of shape {self.shape} in {len(self.content)} bytes")
        order = "F" if self.columns_first in (True, "F") else "C"
        return np.frombuffer(self.content, np.uint8).reshape(self.shape, order=order)


class _KeptType:
    def __init__(self, name: Any) -> None:
        self.name = name.decode("latin-1") if isinstance(name, bytes) else name

    def __setstate__(self, state: Any) -> None:
        """Byte order and alignment, which bytes have none of."""


class _PlainUnpickler(pickle.Unpickler):
    """Every file finds functions of its own behind the names: a pickle may set attributes of what it finds."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, encoding="bytes")
        names: dict[tuple[str, str], Callable[..., Any]] = {
            ("numpy", "ndarray"): lambda *shape: None,
            ("numpy", "dtype"): lambda name, align=False, copy=True: _KeptType(name),
            ("_codecs", "encode"): lambda text, codec: _latin_bytes(text, codec),
        }
        names |= {(module, "bytes"): lambda: b"" for module in ("__builtin__", "builtins")}  # how none are written
        names |= {(module, "_reconstruct"): lambda *of: KeptArray() for module in _ARRAY_MODULES}
        names |= {(module, "_frombuffer"): lambda *of: _from_buffer(*of) for module in _BUFFER_MODULES}
        self._names = names

    def find_class(self, module_name: str, global_name: str, /) -> Any:
        """See `pickle.Unpickler.find_class`. Raises UnpicklingError for any other name; nothing is imported."""
        if (module_name, global_name) not in self._names:
            raise pickle.UnpicklingError(f"it names {module_name}.{global_name}, which plain data do not need")
        return self._names[module_name, global_name]


def _latin_bytes(text: str, codec: str) -> bytes:
    """How protocol 2 writes bytes."""
    if codec not in ("latin1", "latin-1"):
        raise pickle.UnpicklingError(f"it has bytes as text in {codec!r}")
    return text.encode("latin-1")


def _from_buffer(content: Any, kind: Any, shape: Any, order: Any) -> KeptArray:
    """How protocol 5 writes an array."""
    kept = KeptArray()
    kept.__setstate__((1, shape, kind, order, content))
    return kept


def read_plain(path: Path, source: str) -> Any:
    """A pickle that somebody else wrote, read as data: dicts, lists, numbers, text, bytes, and numpy arrays of bytes.

    A pickle is a program: it names functions and has them called, and `pickle.load` does what it says. Here the only
    names it may give are those with which numpy writes an array, and what stands behind them is not numpy's but
    functions of this module that keep what they are handed and do nothing. The array is made afterwards, from what was
    kept, once it is plain bytes of the stated shape. Restricting globals is what the documentation of `pickle`
    describes for this purpose.

    What the pickle holds, where every array is a `KeptArray`; nothing of it is run.

    source: where to get the file, for who has a damaged one.

    Raises
    ------
    DataError : it is too large, no pickle, cut off, or holds more than plain data.
    """
    try:
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise DataError(f"{path} has {size:,} bytes, the limit is {MOST_BYTES:,}", f"Get it anew from {source}")
        return _PlainUnpickler(io.BytesIO(path.read_bytes())).load()
    except (
        pickle.UnpicklingError,
        OSError,
        EOFError,
        ValueError,
        TypeError,
        LookupError,
        AttributeError,
        ArithmeticError,
        MemoryError,
        RecursionError,
    ) as error:
        what = f"cannot read {path}: {error or type(error).__name__}; nothing of it was run"
        raise DataError(what, f"Get it anew from {source}") from None


MOST_MAT_BYTES = 2**31
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
    """Arrays of numbers out of a MATLAB 5 file that somebody else wrote.

    The format is MathWorks' "MAT-File Format", level 5. Only numeric arrays are read: a file may hold functions and
    objects as well, and these are passed over. `scipy.io.loadmat` reads more, and crashes the whole process on some
    damaged files (scipy 1.17.1: three altered bytes or fewer did it); here all that a file says of its own sizes is
    looked at first.

    The arrays of these names, in the shape and the type of number in which they are stored.

    most: how many numbers an array of each name may have; more are not unpacked. source: where to get the file.

    Raises
    ------
    DataError : it is no such file, damaged, has no array of such a name or two, or one that is too large.
    """
    try:
        if path.stat().st_size > MOST_MAT_BYTES:
            raise ValueError(f"more than {MOST_MAT_BYTES:,} bytes")
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


SOURCE = "https://www.cs.toronto.edu/~kriz/cifar.html (the binary version or the Python version, unpacked)"
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
BINARY, PYTHON = "cifar-10-batches-bin", "cifar-10-batches-py"
BATCHES = tuple(f"data_batch_{number}" for number in range(1, 6))
TEST = "test_batch"


@cache
def load_cifar10(folder: Path) -> Dataset:
    """CIFAR-10: what is on the photograph? 32x32 pixels in colour, ten kinds of things.

    Krizhevsky, Learning multiple layers of features from tiny images, 2009. The 50,000 training images are the
    parties'; of the 10,000 test images the first nine tenths are asked, the last are held out, as of MNIST. Two of the
    published forms are read: the binary one (a byte for the label, then 1,024 each of red, green and blue), and the
    Python one, of pickles, which are taken for data and never run (`plain_pickle`).

    Rows of all six batches, in a folder with its published name in `folder`, or in `folder`; of both forms the
    binary one. Without owners (every row's owner is 0).

    Raises
    ------
    DataError : a file is not there, damaged, or holds anything else.
    """
    place = beside(folder, BINARY, PYTHON, "cifar10")
    python = any((place / name).is_file() for name in (*BATCHES, TEST))
    binary = (place / f"{TEST}.bin").is_file() or not python
    ending, read = (".bin", read_binary) if binary else ("", read_python)
    parts = [_part(place, f"{name}{ending}", read) for name in (*BATCHES, TEST)]
    return of_photographs(
        parts[:-1],
        parts[-1],
        len(parts[-1].labels) * 9 // 10,
        place,
        name="cifar10",
        title="CIFAR-10",
        attribution="Krizhevsky A. Learning multiple layers of features from tiny images. 2009.",
        classes=CLASSES,
    )


def _part(place: Path, name: str, read: Callable[[Path], Photographs]) -> Photographs:
    part = read(data_file(place, name, SOURCE))
    if not 0 < len(part.labels) <= MOST_IMAGES:
        raise DataError(f"{place / name} has {len(part.labels)} images, 1 to {MOST_IMAGES} are read", f"See {SOURCE}")
    if not 0 <= part.labels.min() <= part.labels.max() < len(CLASSES):
        raise DataError(f"{place / name} has labels other than 0 to {len(CLASSES) - 1}", f"Get it anew from {SOURCE}")
    return part


def read_binary(path: Path) -> Photographs:
    """Images and labels of one file of the binary version.

    Raises
    ------
    DataError : its size is not that of whole images.
    """
    try:
        size = path.stat().st_size
        if size % (1 + NUMBERS):
            raise DataError(
                f"{path} has {size:,} bytes, no multiple of the {1 + NUMBERS:,} of one image: cut off, or no batch",
                f"Get it anew from {SOURCE}",
            )
        rows = np.fromfile(path, dtype=np.uint8).reshape(-1, 1 + NUMBERS)
    except OSError as error:
        raise DataError(f"cannot read {path}: {error}", f"Get it anew from {SOURCE}") from None
    return Photographs(_pixels(rows[:, 1:]), rows[:, 0].astype(np.int64))


def read_python(path: Path) -> Photographs:
    """Images and labels of one file of the Python version: a pickled dict with `data` uint8 (n, 3072) and `labels`.

    Raises
    ------
    DataError : it is no such pickle; nothing of it is run.
    """
    held = read_plain(path, SOURCE)
    data, labels = _entry(held, "data"), _entry(held, "labels")
    try:
        rows = data.array() if isinstance(data, KeptArray) else None
    except ValueError as error:
        raise DataError(f"{path}: data is {error}", f"Get it anew from {SOURCE}") from None
    if rows is None or rows.ndim != 2 or rows.shape[1] != NUMBERS:
        form = "no array" if rows is None else f"uint8 {rows.shape}"
        raise DataError(f"{path}: data is {form}, not uint8 (n, {NUMBERS})", f"Get it anew from {SOURCE}")
    if not isinstance(labels, list) or len(labels) != len(rows) or not all(type(label) is int for label in labels):
        raise DataError(f"{path}: labels are no list of {len(rows)} whole numbers", f"Get it anew from {SOURCE}")
    if any(not 0 <= label < len(CLASSES) for label in labels):
        raise DataError(f"{path} has labels other than 0 to {len(CLASSES) - 1}", f"Get it anew from {SOURCE}")
    return Photographs(_pixels(rows), np.array(labels, dtype=np.int64))


def _entry(held: Any, name: str) -> Any:
    """Of a dict, whose keys Python 2 wrote as bytes; None where there is none."""
    return held.get(name.encode(), held.get(name)) if isinstance(held, dict) else None


def _pixels(rows: np.ndarray) -> np.ndarray:
    """uint8 (n, 3072), a plane for each colour -> (n, 32, 32, 3)."""
    return rows.reshape(-1, CHANNELS, SIDE, SIDE).transpose(0, 2, 3, 1)


SVHN_SOURCE = "http://ufldl.stanford.edu/housenumbers/ (format 2, cropped digits)"
TRAIN, SVHN_TEST, EXTRA = "train_32x32.mat", "test_32x32.mat", "extra_32x32.mat"
ASKED, PUBLISHED = 10_000, 26_032
"""Of the published test images; of a smaller file the same share."""


@cache
def load_svhn(folder: Path) -> Dataset:
    """Street View House Numbers: which digit is in the middle? Photographs of 32x32 pixels in colour, cropped digits.

    Netzer, Wang, Coates, Bissacco, Wu, Ng, Reading digits in natural images with unsupervised feature learning, NIPS
    workshop 2011. Published as MATLAB 5 files: `X` uint8 (32, 32, 3, n) and `y` (n, 1), with 10 for the digit 0. The
    files `train_32x32.mat` (73,257 images) and, where it is there, `extra_32x32.mat` (531,131, easier ones) are the
    parties'; of the 26,032 test images the first 10,000 are asked and the others held out (Papernot et al. 2017,
    section 4.2).

    Rows of all files in `folder`/svhn, or in `folder`; without owners (every row's owner is 0).

    Raises
    ------
    DataError : a file is not there, damaged, or holds anything else.
    """
    place = beside(folder, "svhn")
    private = [read_mat(data_file(place, TRAIN, SVHN_SOURCE))]
    if (place / EXTRA).is_file():
        private.append(read_mat(place / EXTRA))
    test = read_mat(data_file(place, SVHN_TEST, SVHN_SOURCE))
    return of_photographs(
        private,
        test,
        len(test.labels) * ASKED // PUBLISHED,
        place,
        name="svhn",
        title="Street View House Numbers",
        attribution="Netzer Y et al. Reading digits in natural images with unsupervised feature learning. NIPS workshop"
        " 2011. For non-commercial use.",
        classes=tuple(str(digit) for digit in range(10)),
    )


def read_mat(path: Path) -> Photographs:
    """The images and digits of one file.

    Raises
    ------
    DataError : it is no MATLAB 5 file of these two arrays, or damaged, or a label is not 1 to 10.
    """
    arrays = read_mat_arrays(path, {"X": MOST_IMAGES * NUMBERS, "y": MOST_IMAGES}, SVHN_SOURCE)
    x, y = arrays["X"], arrays["y"]
    if x.dtype != np.uint8 or y.shape != (y.size, 1) or x.shape != (SIDE, SIDE, CHANNELS, y.size) or not y.size:
        what = f"{path}: X is {x.dtype} {x.shape} and y {y.shape}, not uint8 (32, 32, 3, n) and (n, 1)"
        raise DataError(what, f"Get it anew from {SVHN_SOURCE}")
    if not np.isin(y, np.arange(1, 11)).all():
        raise DataError(
            f"{path} has labels other than 1 to 10 (which is the digit 0)", f"Get it anew from {SVHN_SOURCE}"
        )
    return Photographs(x.transpose(3, 0, 1, 2), y.reshape(-1).astype(np.int64) % 10)
