"""Unambiguous bytes for hashes, signatures, key derivation and associated data."""

from __future__ import annotations

import hashlib
import hmac
import json
import struct
from typing import Any

import numpy as np

DOMAIN = b"consilium/secagg/2/"
NO_SALT = bytes(32)


def frame(label: str, *parts: bytes) -> bytes:
    """Domain, label and parts, each with its length (8 bytes, big-endian): two inputs never share one framing.

    >>> frame("a", b"bc").hex()
    '0000000000000014636f6e73696c69756d2f7365636167672f322f6100000000000000026263'
    """
    pieces = []
    for part in (DOMAIN + label.encode("ascii"), *parts):
        pieces += [struct.pack(">Q", len(part)), part]
    return b"".join(pieces)


def digest(label: str, *parts: bytes) -> bytes:
    """SHA-256 of the framing, 32 bytes."""
    return hashlib.sha256(frame(label, *parts)).digest()


def derive(secret: bytes, label: str, *parts: bytes) -> bytes:
    """HKDF-SHA256 (RFC 5869) without salt: 32 bytes from `secret` under the framing of label and parts as info.

    Written with `hmac.digest`: a key is derived per pair of parties, and a HKDF object takes longer.
    """
    extracted = hmac.digest(NO_SALT, secret, "sha256")
    return hmac.digest(extracted, frame(label, *parts) + b"\x01", "sha256")


def index_bytes(index: int) -> bytes:
    """A party's place in the roster, 2 bytes, big-endian."""
    return struct.pack(">H", index)


def indices_bytes(indices: np.ndarray) -> bytes:
    """Places in the roster, uint16 (n,), 2 bytes each, big-endian."""
    return indices.astype(">u2").tobytes()


def canonical_json(value: Any) -> bytes:
    """JSON with sorted keys, no spaces and ASCII only: the one text of a value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode()
