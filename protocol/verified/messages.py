"""The bodies of the four messages between the aggregators. Each has one length for its number of parties.

batch     leader -> helper    for each upload its part and what the leader opens of it
checked   helper -> leader    digest of the batch; for each upload a code and what the helper opens of it
asked     leader -> helper    places of all accepted
given     helper -> leader    digest of the question; the helper's total
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np

from consilium.protocol.secagg.framing import digest
from consilium.protocol.verified.binder import DIGEST_BYTES, SPACE
from consilium.protocol.verified.errors import BadLink
from consilium.protocol.verified.field import WIRE_DTYPE, is_canonical
from consilium.protocol.verified.grid import VoteGrid
from consilium.protocol.verified.proof import opening_elements
from consilium.protocol.verified.uploads import PART_BYTES

MOST_BATCH = 1024
"""Uploads in one message between the aggregators."""
_COUNT = struct.Struct(">I")


def body_digest(body: bytes) -> bytes:
    """SHA-256, by which an answer says what it answers."""
    return digest(SPACE + "body", body)


def write_batch(parts: Sequence[bytes], opened: Sequence[np.ndarray]) -> bytes:
    """parts: of PART_BYTES bytes. opened: uint16 (opening_elements,) each."""
    return _COUNT.pack(len(parts)) + b"".join(parts) + b"".join(each.tobytes() for each in opened)


def read_batch(body: bytes, grid: VoteGrid) -> tuple[list[bytes], np.ndarray]:
    """Parts, and uint16 (n, opening_elements). Raises BadLink."""
    width = opening_elements(grid) * WIRE_DTYPE.itemsize
    count = _counted(body, PART_BYTES + width)
    parts = [body[at : at + PART_BYTES] for at in range(_COUNT.size, _COUNT.size + count * PART_BYTES, PART_BYTES)]
    return parts, _openings(body[_COUNT.size + count * PART_BYTES :], count)


def write_checked(batch: bytes, codes: bytes, opened: np.ndarray) -> bytes:
    """batch: digest of the body. codes: 0, or the fault by its number from 1. opened: uint16 (n, opening_elements)."""
    return _COUNT.pack(len(codes)) + batch + codes + opened.tobytes()


def read_checked(body: bytes, grid: VoteGrid, batch: bytes, count: int, most: int) -> tuple[bytes, np.ndarray]:
    """Codes up to `most`, and openings, of the answer to this batch of `count`.

    Raises
    ------
    BadLink : not the form, or the answer to another batch.
    """
    width = opening_elements(grid) * WIRE_DTYPE.itemsize
    start = _COUNT.size + DIGEST_BYTES
    if _counted(body, 1 + width, DIGEST_BYTES) != count or body[_COUNT.size : start] != batch:
        raise BadLink("the helper answers another batch than the one that is out")
    codes = body[start : start + count]
    if any(code > most for code in codes):
        raise BadLink("the helper names a fault that there is not")
    return codes, _openings(body[start + count :], count)


def write_asked(places: Sequence[int]) -> bytes:
    """places: of the accepted, rising."""
    return _COUNT.pack(len(places)) + np.asarray(places, dtype=">u4").tobytes()


def read_asked(body: bytes) -> list[int]:
    """Places. Raises BadLink."""
    count = _counted(body, 4, most=None)
    return np.frombuffer(body, dtype=">u4", count=count, offset=_COUNT.size).tolist()


def write_given(asked: bytes, total: np.ndarray) -> bytes:
    """asked: digest of the body. total: uint16 (queries, classes)."""
    return asked + total.tobytes()


def read_given(body: bytes, grid: VoteGrid, asked: bytes) -> np.ndarray:
    """The helper's total, uint16 (queries, classes). Raises BadLink."""
    shape = grid.queries, grid.classes
    if len(body) != DIGEST_BYTES + shape[0] * shape[1] * WIRE_DTYPE.itemsize or body[:DIGEST_BYTES] != asked:
        raise BadLink("the helper's total is none, or of another set of parties")
    total = np.frombuffer(body, dtype=WIRE_DTYPE, offset=DIGEST_BYTES)
    if not is_canonical(total):
        raise BadLink("the helper's total has numbers above the prime")
    return total.reshape(shape)


def _counted(body: bytes, each: int, more: int = 0, most: int | None = MOST_BATCH) -> int:
    """How many rows of `each` bytes the body says and has."""
    count = _COUNT.unpack_from(body)[0] if len(body) >= _COUNT.size else -1
    if count < 0 or (most is not None and count > most) or len(body) != _COUNT.size + more + count * each:
        raise BadLink("a message between the aggregators has not the form of this session")
    return count


def _openings(content: bytes, count: int) -> np.ndarray:
    opened = np.frombuffer(content, dtype=WIRE_DTYPE)
    if not is_canonical(opened):
        raise BadLink("a message between the aggregators has numbers above the prime")
    return opened.reshape(count, -1)
