"""A pickle that somebody else wrote, read as data: dicts, lists, numbers, text, bytes, and numpy arrays of bytes.

A pickle is a program: it names functions and has them called, and `pickle.load` does what it says. Here the only names
it may give are those with which numpy writes an array, and what stands behind them is not numpy's but functions of
this module that keep what they are handed and do nothing. The array is made afterwards, from what was kept, once it is
plain bytes of the stated shape. Restricting globals is what the documentation of `pickle` describes for this purpose.
"""

from __future__ import annotations

import io
import math
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from consilium.protocol.errors import DataError

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
    """What the pickle holds, where every array is a `KeptArray`; nothing of it is run.

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
