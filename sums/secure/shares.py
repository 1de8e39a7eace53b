"""Secrets in shares (Shamir 1979), all of a party's at once: each is 13 uniform numbers of `FIELD`, and each number
has a random polynomial of its own. A party's share lies at its place in the roster plus one.

What is shared is a seed: of the party's own mask, or of its private mask key (`mask_private`)."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from consilium.protocol.identity import derive
from consilium.sums.field import FIELD, KEY_BYTES

WORDS = 13
SEED_BYTES = SHARE_BYTES = WORDS * FIELD.dtype.itemsize


def new_seed() -> bytes:
    """Uniform, from the system's entropy: 52 bytes."""
    return FIELD.elements(secrets.token_bytes(KEY_BYTES), WORDS).tobytes()


def mask_private(seed: bytes) -> bytes:
    """The X25519 private key of a seed, 32 bytes."""
    return derive(seed, "mask-key")


def are_shares(shares: np.ndarray) -> bool:
    """Whether rows, uint8 (..., 52), hold numbers of the field only."""
    return FIELD.is_canonical(np.ascontiguousarray(shares).view(FIELD.dtype))


def split(seeds: Sequence[bytes], threshold: int, places: Sequence[int]) -> np.ndarray:
    """Shares of seeds, uint8 (places, seeds, 52); any `threshold` rebuild them, fewer tell nothing.

    Raises
    ------
    ValueError : the threshold is not from 1 to the number of places.
    """
    if not 1 <= threshold <= len(places):
        raise ValueError(f"threshold {threshold} must be from 1 to {len(places)}")
    words = np.frombuffer(b"".join(seeds), dtype=FIELD.dtype)
    drawn = FIELD.elements(secrets.token_bytes(KEY_BYTES), (threshold - 1) * len(words))
    coefficients = np.concatenate([words, drawn]).reshape(threshold, -1).astype(np.float64)
    shares = FIELD.to_wire(FIELD.product(_powers(tuple(places), threshold), coefficients))
    return shares.view(np.uint8).reshape(len(places), len(seeds), SHARE_BYTES)


@lru_cache(maxsize=4)  # the same for all who share with each other
def _powers(places: tuple[int, ...], threshold: int) -> np.ndarray:
    """float64 (places, threshold), reduced: the powers of each point from 0 on."""
    points = np.array(places, dtype=np.float64) + 1
    powers = np.ones((len(points), threshold))
    for power in range(1, threshold):
        powers[:, power] = FIELD.reduce(powers[:, power - 1] * points)
    return powers


def rebuild(places: Sequence[int], shares: np.ndarray) -> np.ndarray:
    """The seeds, uint8 (seeds, 52), from as many shares as the threshold says, uint8 (places, seeds, 52).

    Raises
    ------
    ValueError : a place is given twice.
    """
    words = np.ascontiguousarray(shares).reshape(len(places), -1).view(FIELD.dtype).astype(np.float64)
    seeds = FIELD.to_wire(FIELD.product(_weights(places)[None], words))
    return seeds.view(np.uint8).reshape(-1, SEED_BYTES)


def _weights(places: Sequence[int]) -> np.ndarray:
    """float64 (places,), reduced: weights w with sum(w_i f(x_i)) = f(0)."""
    if len(set(places)) < len(places):
        raise ValueError("a place is given twice")
    prime, points = FIELD.prime, np.array(places, dtype=np.int64) + 1
    above, below = np.ones_like(points), np.ones_like(points)
    for point in points:
        above = above * np.where(points == point, 1, point) % prime
        below = below * np.where(points == point, 1, point - points) % prime
    inverses = np.array([pow(number, -1, prime) for number in below.tolist()])
    return FIELD.reduce((above * inverses % prime).astype(np.float64))
