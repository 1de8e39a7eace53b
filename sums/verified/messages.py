"""The bodies of the four messages between the aggregators.

batch     leader -> helper    for each upload its part and what the leader opens of it
checked   helper -> leader    digest of the batch; for each upload a code and what the helper opens of it
asked     leader -> helper    places of all accepted and of the left out, with why; commitment to the leader's total
given     helper -> leader    digest of the question; the helper's total, and the nonce of its own commitment
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from consilium.protocol.errors import MalformedMessage
from consilium.protocol.identity import digest
from consilium.sums.errors import BadLink
from consilium.sums.field import FIELD
from consilium.sums.packing import Value, pack, unpack
from consilium.sums.verified.half import FAULT_CODES, Half, restored, restored_bytes
from consilium.sums.verified.proof import DIGEST_BYTES, NONCE_BYTES, SPACE, VoteGrid, opening_elements
from consilium.sums.verified.uploads import PART_BYTES

MOST_BATCH = 1024
"""Uploads in one message between the aggregators."""


def body_digest(body: bytes) -> bytes:
    """SHA-256, by which an answer says what it answers."""
    return digest(SPACE + "body", body)


def write_batch(parts: Sequence[bytes], opened: Sequence[np.ndarray]) -> bytes:
    """parts: of PART_BYTES bytes. opened: numbers below the prime (opening_elements,) each."""
    rows = np.frombuffer(b"".join(parts), dtype=np.uint8).reshape(len(parts), PART_BYTES)
    return pack({"parts": rows, "opened": np.stack(opened)})


def read_batch(body: bytes, grid: VoteGrid) -> tuple[list[bytes], np.ndarray]:
    """Parts, and numbers below the prime (n, opening_elements). Raises BadLink."""
    fields = _fields(body)
    parts = _array(fields, "parts", (-1, PART_BYTES), "uint8")
    if len(parts) > MOST_BATCH:
        raise BadLink(f"a batch has {len(parts)} uploads, at most {MOST_BATCH} fit")
    return [row.tobytes() for row in parts], _numbers(fields, "opened", (len(parts), opening_elements(grid)))


def write_checked(batch: bytes, codes: bytes, opened: np.ndarray) -> bytes:
    """batch: digest of the body. codes: 0, or the fault by its number from 1. opened: numbers below the prime
    (n, opening_elements)."""
    return pack({"batch": batch, "codes": np.frombuffer(codes, dtype=np.uint8), "opened": opened})


def read_checked(body: bytes, grid: VoteGrid, batch: bytes, count: int) -> tuple[list[int], np.ndarray]:
    """Codes and openings of the answer to this batch of `count`.

    Raises
    ------
    BadLink : not the form, or the answer to another batch.
    """
    fields = _fields(body)
    if _bytes(fields, "batch", DIGEST_BYTES) != batch:
        raise BadLink("the helper answers another batch than the one that is out")
    return _codes(fields, count), _numbers(fields, "opened", (count, opening_elements(grid)))


def write_asked(places: Sequence[int], left_out: Sequence[tuple[int, int]], commitment: bytes) -> bytes:
    """places: of the accepted, rising. left_out: place and code of the others that the leader knows. commitment: to the
    leader's total (`proof.commit_total`)."""
    return pack(
        {
            "accepted": np.array(places, dtype=np.uint32),
            "left_out": np.array([place for place, _ in left_out], dtype=np.uint32),
            "codes": np.array([code for _, code in left_out], dtype=np.uint8),
            "commitment": commitment,
        }
    )


def read_asked(body: bytes) -> tuple[list[int], dict[int, int], bytes]:
    """Places of the accepted, codes by place of the left out, and the commitment. Raises BadLink."""
    fields = _fields(body)
    places, left_out = (_array(fields, name, (-1,), "uint32").tolist() for name in ("accepted", "left_out"))
    codes = _codes(fields, len(left_out))
    return places, dict(zip(left_out, codes, strict=True)), _bytes(fields, "commitment", DIGEST_BYTES)


def write_given(question: bytes, half: Half) -> bytes:
    """question: digest of the body."""
    return pack({"question": question, "nonce": half.nonce, "total": half.total})


def read_given(body: bytes, grid: VoteGrid, question: bytes) -> Half:
    """The helper's half. Raises BadLink."""
    fields = _fields(body)
    if _bytes(fields, "question", DIGEST_BYTES) != question:
        raise BadLink("the helper's total is of another set of parties")
    total = _numbers(fields, "total", (grid.queries, grid.classes))
    return Half(_bytes(fields, "nonce", NONCE_BYTES), total)


_FORM = "a message between the aggregators has not the form of this session"


def _fields(body: bytes) -> dict[str, Value]:
    try:
        return unpack(body)
    except MalformedMessage:
        raise BadLink(_FORM) from None


def _array(fields: dict[str, Value], name: str, shape: tuple[int, ...], dtype: np.dtype | str) -> np.ndarray:
    try:
        return restored(fields, name, shape, dtype)
    except MalformedMessage:
        raise BadLink(_FORM) from None


def _bytes(fields: dict[str, Value], name: str, length: int) -> bytes:
    try:
        value = restored_bytes(fields, name)
    except MalformedMessage:
        raise BadLink(_FORM) from None
    if len(value) != length:
        raise BadLink(_FORM)
    return value


def _codes(fields: dict[str, Value], count: int) -> list[int]:
    codes = _array(fields, "codes", (count,), "uint8").tolist()
    if any(code > len(FAULT_CODES) for code in codes):
        raise BadLink("the other aggregator names a fault that there is not")
    return codes


def _numbers(fields: dict[str, Value], name: str, shape: tuple[int, ...]) -> np.ndarray:
    numbers = _array(fields, name, shape, FIELD.dtype)
    if not FIELD.is_canonical(numbers):
        raise BadLink("a message between the aggregators has numbers above the prime")
    return numbers
