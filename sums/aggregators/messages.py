"""The bodies of the four messages between the aggregators. Each has one length for its number of parties and of keys.

batch     leader -> helper    for each upload its part and what the leader opens of it
checked   helper -> leader    digest of the batch; for each upload a code and what the helper opens of it; for each seal
                              that it cannot use, its private key of that place
asked     leader -> helper    places of all accepted; commitment to the leader's total
given     helper -> leader    digest of the question; the helper's total, and the nonce of its own commitment
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np

from consilium.protocol.identity import digest
from consilium.sums.aggregators.half import Half
from consilium.sums.aggregators.proof import DIGEST_BYTES, NONCE_BYTES, SPACE, VoteGrid, opening_elements
from consilium.sums.aggregators.sealing import KEY_BYTES
from consilium.sums.aggregators.uploads import PART_BYTES
from consilium.sums.errors import SHOWN, BadLink, VoteFault
from consilium.sums.field import Field

MOST_BATCH = 1024
"""Uploads in one message between the aggregators."""
_COUNT, _COUNTS = struct.Struct(">I"), struct.Struct(">II")
_FORM = "a message between the aggregators has not the form of this session"


def body_digest(body: bytes) -> bytes:
    """SHA-256, by which an answer says what it answers."""
    return digest(SPACE + "body", body)


def write_batch(field: Field, parts: Sequence[bytes], opened: Sequence[np.ndarray]) -> bytes:
    """parts: of PART_BYTES bytes. opened: numbers below the prime (opening_elements,) each."""
    return _COUNT.pack(len(parts)) + b"".join(parts) + b"".join(map(field.write, opened))


def read_batch(body: bytes, grid: VoteGrid) -> tuple[list[bytes], np.ndarray]:
    """Parts, and numbers below the prime (n, opening_elements). Raises BadLink."""
    width = opening_elements(grid) * grid.field.wire_bytes
    count = _counted(body, PART_BYTES + width)
    parts = [
        body[start : start + PART_BYTES] for start in range(_COUNT.size, _COUNT.size + count * PART_BYTES, PART_BYTES)
    ]
    return parts, _openings(grid.field, body[_COUNT.size + count * PART_BYTES :], count)


def write_checked(field: Field, batch: bytes, codes: bytes, opened: np.ndarray, reasons: Sequence[bytes]) -> bytes:
    """batch: digest of the body. codes: 0, or the fault by its number from 1. opened: numbers below the prime
    (n, opening_elements). reasons: a private key for each code of `SHOWN`, in order."""
    return _COUNT.pack(len(codes)) + batch + codes + field.write(opened) + b"".join(reasons)


def read_checked(
    body: bytes, grid: VoteGrid, batch: bytes, count: int, codes_of: Sequence[VoteFault]
) -> tuple[list[VoteFault | None], np.ndarray, dict[int, bytes]]:
    """Faults by their codes from 1, openings, and private keys by the place in the batch, of the answer to this batch
    of `count`.

    Raises
    ------
    BadLink : not the form, or the answer to another batch.
    """
    width = opening_elements(grid) * grid.field.wire_bytes
    start = _COUNT.size + DIGEST_BYTES
    codes, end = body[start : start + count], start + count * (1 + width)
    if body[:start] != _COUNT.pack(count) + batch or len(body) < end:
        raise BadLink("the helper answers another batch than the one that is out")
    if any(code > len(codes_of) for code in codes):
        raise BadLink("the helper names a fault that there is not")
    faults = [codes_of[code - 1] if code else None for code in codes]
    shown = [row for row, fault in enumerate(faults) if fault in SHOWN]
    if len(body) != end + KEY_BYTES * len(shown):
        raise BadLink(_FORM)
    reasons = {row: body[end + KEY_BYTES * i : end + KEY_BYTES * (i + 1)] for i, row in enumerate(shown)}
    return faults, _openings(grid.field, body[start + count : end], count), reasons


def write_asked(places: Sequence[int], left_out: Sequence[tuple[int, int]], commitment: bytes) -> bytes:
    """places: of the accepted, rising. left_out: place and code of the others that the leader knows. commitment: to the
    leader's total (`binder.commit_total`)."""
    codes = bytes(code for _, code in left_out)
    listed = np.asarray([*places, *(place for place, _ in left_out)], dtype=">u4").tobytes()
    return _COUNTS.pack(len(places), len(left_out)) + listed + codes + commitment


def read_asked(body: bytes, most: int) -> tuple[list[int], dict[int, int], bytes]:
    """Places of the accepted, codes from 1 to `most` by place of the left out, and the commitment. Raises BadLink."""
    if len(body) < _COUNTS.size:
        raise BadLink(_FORM)
    count, left = _COUNTS.unpack_from(body)
    if len(body) != _COUNTS.size + 4 * count + 5 * left + DIGEST_BYTES:
        raise BadLink(_FORM)
    places = np.frombuffer(body, dtype=">u4", count=count + left, offset=_COUNTS.size).tolist()
    codes = body[len(body) - DIGEST_BYTES - left : len(body) - DIGEST_BYTES]
    if any(not 1 <= code <= most for code in codes):
        raise BadLink("the leader names a fault that there is not")
    return places[:count], dict(zip(places[count:], codes, strict=True)), body[-DIGEST_BYTES:]


def write_given(field: Field, question: bytes, half: Half) -> bytes:
    """question: digest of the body."""
    return question + half.nonce + field.write(half.total)


def read_given(body: bytes, grid: VoteGrid, question: bytes) -> Half:
    """The helper's half. Raises BadLink."""
    shape, start = (grid.queries, grid.classes), DIGEST_BYTES + NONCE_BYTES
    if len(body) != start + shape[0] * shape[1] * grid.field.wire_bytes or body[:DIGEST_BYTES] != question:
        raise BadLink("the helper's total is none, or of another set of parties")
    total = grid.field.read(body[start:])
    if total is None:
        raise BadLink("the helper's total has numbers above the prime")
    return Half(body[DIGEST_BYTES:start], total.reshape(shape))


def _counted(body: bytes, width: int, more: int = 0) -> int:
    """How many rows of `each` bytes the body says and has."""
    count = _COUNT.unpack_from(body)[0] if len(body) >= _COUNT.size else -1
    if not 0 <= count <= MOST_BATCH or len(body) != _COUNT.size + more + count * width:
        raise BadLink(_FORM)
    return count


def _openings(field: Field, content: bytes, count: int) -> np.ndarray:
    opened = field.read(content)
    if opened is None:
        raise BadLink("a message between the aggregators has numbers above the prime")
    return opened.reshape(count, -1)
