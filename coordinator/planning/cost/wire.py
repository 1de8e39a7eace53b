"""Bytes that nodes send for one exchange of votes: exact for what a message holds, and for Flower's form of it to some
tens of bytes a message. What travels once, whatever the queries (the first greeting, the schema), is left out: some kB.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from consilium.coordinator.planning.cost.load import CostedMode, Load
from consilium.protocol.identity import SIGNATURE_BYTES
from consilium.protocol.parties.choices import choice_dtype
from consilium.sums.aggregators.leader import BATCH_SIZE
from consilium.sums.aggregators.proof import DIGEST_BYTES, opening_elements
from consilium.sums.aggregators.proof import NONCE_BYTES as NONCE_BYTES_OF_TOTAL
from consilium.sums.aggregators.sealing import SIGNED_KEY_BYTES
from consilium.sums.aggregators.uploads import PART_BYTES, upload_bytes
from consilium.sums.agreement import NONCE_BYTES, TAG_BYTES
from consilium.sums.masks.messages import CIPHERTEXT_BYTES, KEY_BYTES, KEYS_BYTES
from consilium.sums.masks.shares import SHARE_BYTES
from consilium.sums.terms import SID_BYTES

MESSAGE, ARRAYS, ARRAY, EMPTY, FIELD = 280, 155, 311, 240, 17
"""Of Flower's form: a message, its record of arrays, each array with its name (and one that is empty), each field."""
HASH = 64
NAME = 12
TERMS = 550
"""Of the terms of a session, as JSON: to some tens of bytes."""
LEADER_KEY = 80
"""Of the leader's key of the session, in terms of verified votes."""
PLACE = 2
FLOAT = 4


def form(fields: tuple[int, ...], arrays: tuple[int, ...] = ()) -> int:
    """Bytes of a message with values of so many bytes.

    fields: of each text or number. arrays: of each array.
    """
    held = MESSAGE + sum(FIELD + each for each in fields)
    return held + (ARRAYS + sum(ARRAY + each if each else EMPTY for each in arrays) if arrays else 0)


def proof_bytes(load: Load) -> int:
    """Most bytes of the proof that the queries are rows of the pool: none where all are asked, or there is no pool.

    A level of the tree with s nodes lacks at most as many siblings as rows are asked, and as there are others.

    >>> proof_bytes(Load(10, 100, 2, pool=100)), proof_bytes(Load(10, 1, 2, pool=1024))
    (0, 320)
    """
    hashes, size, known = 0, load.pool, min(load.queries, load.pool)
    while size > 1:
        hashes += min(known, size - known)
        size = (size + 1) // 2
        known = min(known, size)
    return hashes * DIGEST_BYTES


def question_arrays(load: Load) -> tuple[int, int, int]:
    """Queries, their places in the pool, the proof."""
    places = load.queries * 4 if load.pool else 0
    return load.queries * load.features * FLOAT, places, proof_bytes(load)


@dataclass(frozen=True)
class Sent:
    """Bytes by one party up and down, and between the two aggregators. A party that stays to the end."""

    up: int
    down: int
    to_second: int = 0
    from_second: int = 0


def clear(load: Load) -> Sent:
    """`VoteRequest`, `VoteReply`."""
    choices = load.votes * choice_dtype(load.classes).itemsize
    down = form((HASH, HASH, HASH, 8, HASH), question_arrays(load))
    return Sent(up=form((NAME, HASH), (choices,)), down=down)


def _masked(load: Load, sigma: float) -> Sent:
    n, left, me = load.parties, load.parties - load.gone, 8
    peers = n - 1
    ups = (
        form((SID_BYTES, me, *[KEY_BYTES] * 4, SIGNATURE_BYTES)),
        form((SID_BYTES, me, NONCE_BYTES), (peers * CIPHERTEXT_BYTES, n * SHARE_BYTES)),
        form((SID_BYTES, me, SIGNATURE_BYTES), (load.cells * load.ring_bytes(sigma), 0)),
        form((SID_BYTES, me, SIGNATURE_BYTES)),
        form((SID_BYTES, me), (n * SHARE_BYTES,)),
    )
    dealt = (PLACE * n, *(peers * each for each in (NONCE_BYTES, CIPHERTEXT_BYTES, SHARE_BYTES, SHARE_BYTES)))
    downs = (
        form((TERMS, SIGNATURE_BYTES)),
        form((SID_BYTES,), (PLACE * n, n * KEYS_BYTES, n * SIGNATURE_BYTES)),
        form((SID_BYTES,), (*dealt, *question_arrays(load))),
        form((SID_BYTES,), (PLACE * left,)),
        form((SID_BYTES,), (PLACE * left, PLACE * load.gone, PLACE * left, left * SIGNATURE_BYTES)),
    )
    return Sent(up=sum(ups), down=sum(downs))


def secure(load: Load) -> Sent:
    """The ten messages of `sums.masks.messages`."""
    return _masked(load, 0.0)


def distributed(load: Load) -> Sent:
    """The same; counts with noise may need a larger ring."""
    return _masked(load, load.sigma)


def verified(load: Load) -> Sent:
    """Terms, queries and a key down, one upload up; between the aggregators the keys of all parties, all batches, the
    question and the half."""
    grid, n = load.grid, load.parties
    opened, sealed = 2 * opening_elements(grid), 2 + NONCE_BYTES + TAG_BYTES
    batches = math.ceil(n / BATCH_SIZE)
    carried = form((SID_BYTES,), (sealed,))
    answered = form((SID_BYTES, 0, 0), (sealed,))
    terms, questions = TERMS + LEADER_KEY, question_arrays(load)
    session, keys = form((terms, SIGNATURE_BYTES), questions), form((SID_BYTES, 8), ((n + 1) * SIGNED_KEY_BYTES,))
    half = NONCE_BYTES_OF_TOTAL + 2 * load.cells
    return Sent(
        up=form((SID_BYTES, NAME), (upload_bytes(grid),)),
        down=form((terms, SIGNATURE_BYTES, SIGNED_KEY_BYTES, 0), questions),
        to_second=session + batches * (carried + 4) + n * (PART_BYTES + opened) + carried + 4 + 4 * n + DIGEST_BYTES,
        from_second=keys + (batches + 1) * (answered + DIGEST_BYTES) + 4 * batches + n * (1 + opened) + half,
    )


SENT: dict[CostedMode, Callable[[Load], Sent]] = {
    "clear": clear,
    "secure": secure,
    "distributed": distributed,
    "verified": verified,
}
