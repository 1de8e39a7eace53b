"""Digests: SHA-256 in hex, by which nodes know that they have the same thing."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any

from pydantic import Field

Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
OptionalHash = Annotated[str, Field(pattern=r"^([0-9a-f]{64})?$")]


def canonical_digest(value: Any) -> str:
    """SHA-256, hex, of `value` as JSON with sorted keys and no spaces."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
