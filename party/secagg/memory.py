"""What a session keeps from one stage to the next: named values, secrets among them. Never printed, never logged."""

from __future__ import annotations

import numpy as np

from consilium.protocol.secagg.packing import Value

Memory = dict[str, Value]


def secret(memory: Memory, name: str) -> bytes:
    """A value of bytes: a key, a share, b, or a hash."""
    value = memory[name]
    assert isinstance(value, bytes)
    return value


def matrix(memory: Memory, name: str) -> np.ndarray:
    """A value of numbers: places in the roster, or a row of bytes per peer."""
    value = memory[name]
    assert isinstance(value, np.ndarray)
    return value
