"""What a session keeps from one stage to the next: named values, secrets among them. Never printed, never logged."""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from consilium.protocol.secagg.packing import Value

Memory = dict[str, Value]
T = TypeVar("T", bytes, np.ndarray)


def secret(memory: Memory, name: str) -> bytes:
    """A value of bytes: a key, a share, b, or a hash."""
    return _of(memory, name, bytes)


def matrix(memory: Memory, name: str) -> np.ndarray:
    """A value of numbers: places in the roster, or a row of bytes per peer."""
    return _of(memory, name, np.ndarray)


def _of(memory: Memory, name: str, kind: type[T]) -> T:
    value = memory[name]
    if not isinstance(value, kind):
        raise TypeError(f"{name} in a session's memory is {type(value).__name__}")
    return value
