"""Secrets in shares (Shamir 1979): each is 13 uniform numbers modulo a prime, and each number has a random polynomial
of its own. A party's share lies at its place in the roster plus one.

What is shared are seeds, from which keys are derived. Numbers are below 2^21, so that sums of 2,000 products of two
are whole in float64, and matrix products of floats are what processors do fastest."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

PRIME = 2_097_143
"""2^21 - 9."""
BITS = 21
WORDS = 13
WORD = np.dtype("<u4")
SEED_BYTES = SHARE_BYTES = WORDS * WORD.itemsize
SPARE = 64


def new_seeds(count: int) -> np.ndarray:
    """Uniform, uint8 (count, 52)."""
    return uniform(count * WORDS).view(np.uint8).reshape(count, SEED_BYTES)


def uniform(count: int) -> np.ndarray:
    """Numbers below the prime, uint32 (count,), from the system's entropy: 21 bits each, those above it left out."""
    while True:
        drawn = np.frombuffer(secrets.token_bytes((count + SPARE) * WORD.itemsize), dtype=WORD) & (2**BITS - 1)
        numbers = drawn[drawn < PRIME][:count]
        if len(numbers) == count:
            return numbers


def are_shares(shares: np.ndarray) -> bool:
    """Whether rows, uint8 (..., 52), hold numbers of the field only."""
    return bool((np.ascontiguousarray(shares).view(WORD) < PRIME).all())


def split(seeds: np.ndarray, threshold: int, places: Sequence[int]) -> np.ndarray:
    """Shares of seeds uint8 (seeds, 52): uint8 (places, seeds, 52). Any `threshold` rebuild them, fewer tell nothing.
    Raises ValueError: the threshold is not from 1 to the number of places."""
    if not 1 <= threshold <= len(places):
        raise ValueError(f"threshold {threshold} must be from 1 to {len(places)}")
    words = seeds.reshape(-1).view(WORD)
    coefficients = np.concatenate([words, uniform((threshold - 1) * len(words))]).reshape(threshold, -1)
    shares = (_powers(tuple(places), threshold) @ coefficients.astype(np.float64)) % PRIME
    return shares.astype(WORD).view(np.uint8).reshape(len(places), len(seeds), SHARE_BYTES)


@lru_cache(maxsize=4)  # the same for all who share with each other
def _powers(places: tuple[int, ...], threshold: int) -> np.ndarray:
    points = np.array(places, dtype=np.float64) + 1
    powers = np.ones((len(points), threshold))
    for power in range(1, threshold):
        powers[:, power] = powers[:, power - 1] * points % PRIME
    return powers


def rebuild(places: Sequence[int], shares: np.ndarray) -> np.ndarray:
    """The seeds, uint8 (seeds, 52), from as many shares as the threshold says, uint8 (places, seeds, 52)."""
    words = np.ascontiguousarray(shares).reshape(len(places), -1).view(WORD).astype(np.float64)
    seeds = (_weights(tuple(places)) @ words) % PRIME
    return seeds.astype(WORD).view(np.uint8).reshape(-1, SEED_BYTES)


def _weights(places: tuple[int, ...]) -> np.ndarray:
    """float64 (places,): weights w with sum(w_i f(x_i)) = f(0) (Lagrange)."""
    points = [place + 1 for place in places]
    weights = []
    for point in points:
        above = below = 1
        for other in points:
            if other != point:
                above, below = above * other % PRIME, below * (other - point) % PRIME
        weights.append(above * pow(below, -1, PRIME) % PRIME)
    return np.array(weights, dtype=np.float64)
