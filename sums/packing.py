"""Named values as bytes: a JSON head and the arrays behind it. Equal content gives equal bytes.

For what a party keeps on its own disk, and to recognise a repeated request; the wire is `protocol.records`."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np

from consilium.protocol.errors import MalformedMessage
from consilium.protocol.messages import WireModel

M = TypeVar("M", bound=WireModel)


def pack(fields: Mapping[str, Any]) -> bytes:
    """Numbers, texts, bytes and arrays of numbers, by name -> bytes."""
    head, blobs = {}, list[bytes]()
    for name, value in fields.items():
        if isinstance(value, bytes):
            value = {"bytes": value.hex()}
        elif isinstance(value, np.ndarray):
            blobs.append(np.ascontiguousarray(value, dtype=value.dtype.newbyteorder("<")).tobytes())
            value = {"dtype": value.dtype.name, "shape": value.shape}
        head[name] = value
    text = json.dumps(head, separators=(",", ":"), allow_nan=False).encode()
    return b"".join([len(text).to_bytes(8, "big"), text, *blobs])


def unpack(content: bytes) -> dict[str, Any]:
    """The inverse of `pack`; arrays are read-only views. Raises MalformedMessage."""
    try:
        start = 8 + int.from_bytes(content[:8], "big")
        fields = json.loads(content[8:start])
        for name, value in fields.items():
            if isinstance(value, dict) and "bytes" in value:
                fields[name] = bytes.fromhex(value["bytes"])
            elif isinstance(value, dict):
                dtype, count = np.dtype(value["dtype"]).newbyteorder("<"), math.prod(value["shape"])
                fields[name] = np.frombuffer(content, dtype, count, start).reshape(value["shape"])
                start += fields[name].nbytes
        if start != len(content):
            raise ValueError
        return fields
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise MalformedMessage("saved state is damaged or of another version") from None


def pack_message(message: WireModel) -> bytes:
    """Message -> bytes."""
    return pack({"kind": message.kind, **dict(message)})


def unpack_message(content: bytes, model: type[M]) -> M:
    """The inverse of `pack_message`. Raises MalformedMessage."""
    fields = unpack(content)
    if fields.pop("kind", None) != model.kind:
        raise MalformedMessage("saved message is of another kind")
    return model.model_validate(fields)


def message_digest(message: WireModel) -> bytes:
    """SHA-256 of a message: a repeated request is known by it."""
    return hashlib.sha256(pack_message(message)).digest()
