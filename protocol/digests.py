"""Digests: SHA-256 in hex, by which nodes know that they have the same thing."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any

from pydantic import Field

Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
OptionalHash = Annotated[str, Field(pattern=r"^([0-9a-f]{64})?$")]


def canonical_json(value: Any) -> bytes:
    """JSON with sorted keys, no spaces and ASCII only: the one text of a value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode()


def canonical_digest(value: Any) -> str:
    """SHA-256, hex, of `canonical_json`."""
    return hashlib.sha256(canonical_json(value)).hexdigest()
