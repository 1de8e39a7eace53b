"""Bytes of messages and of saved states: a JSON head and the arrays behind it. Equal content gives equal bytes.

Used for what a node keeps on its own disk and for recognising a repeated request; the wire is `parties.records`.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
from collections.abc import Mapping
from typing import TypeVar

import numpy as np

from consilium.protocol.errors import MalformedMessage
from consilium.protocol.messages import WireModel

Value = int | float | str | bytes | np.ndarray
M = TypeVar("M", bound=WireModel)
DTYPES = ("uint8", "uint16", "uint32", "int64", "float32")


def pack(fields: Mapping[str, Value]) -> bytes:
    """Named values -> bytes. Arrays of the types in DTYPES, any shape."""
    head: dict[str, object] = {}
    blobs: list[bytes] = []
    for name, value in fields.items():
        if isinstance(value, np.ndarray):
            head[name] = {"dtype": value.dtype.name, "shape": list(value.shape)}
            blobs.append(np.ascontiguousarray(value, dtype=value.dtype.newbyteorder("<")).tobytes())
        elif isinstance(value, bytes):
            head[name] = {"bytes": value.hex()}
        else:
            head[name] = value
    text = json.dumps(head, separators=(",", ":"), allow_nan=False).encode()
    return b"".join([struct.pack(">Q", len(text)), text, *blobs])


def unpack(content: bytes) -> dict[str, Value]:
    """Bytes -> named values; arrays are read-only views.

    Raises
    ------
    MalformedMessage : not what `pack` writes.
    """
    try:
        start = 8 + struct.unpack_from(">Q", content)[0]
        head = json.loads(content[8:start])
        fields: dict[str, Value] = {}
        for name, value in head.items():
            if isinstance(value, dict) and "bytes" in value:
                fields[name] = bytes.fromhex(value["bytes"])
            elif isinstance(value, dict):
                if value["dtype"] not in DTYPES:
                    raise ValueError
                count = math.prod(value["shape"])
                dtype = np.dtype(value["dtype"]).newbyteorder("<")
                fields[name] = np.frombuffer(content, dtype, count, start).reshape(value["shape"])
                start += count * dtype.itemsize
            else:
                fields[name] = value
        if start != len(content):
            raise ValueError
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, struct.error):
        raise MalformedMessage("saved state is damaged or of another version") from None
    return fields


def pack_message(message: WireModel) -> bytes:
    """Message -> bytes."""
    return pack({"kind": message.kind, **{name: getattr(message, name) for name in type(message).model_fields}})


def unpack_message(content: bytes, model: type[M]) -> M:
    """Bytes of `pack_message` -> message. Raises MalformedMessage."""
    fields = unpack(content)
    if fields.pop("kind", None) != model.kind:
        raise MalformedMessage("saved message is of another kind")
    return model.model_validate(fields)


def message_digest(message: WireModel) -> bytes:
    """SHA-256 of a message: a repeated request is known by it."""
    return hashlib.sha256(pack_message(message)).digest()
