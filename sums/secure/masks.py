"""Votes modulo 2^32, the masks that are added to them, the secrets of pairs of parties that masks come from, and shares
of what they are rebuilt from.

HKDF-SHA256 (RFC 5869) gives independent keys of the one X25519 secret (RFC 7748) that two parties agree on. The hash of
the session's terms is the salt. Label and both places are in each key's info: a key of another party's, altered so that
the same secret comes out (its highest bit, or a point of low order added), gives other keys.

Secrets are shared (Shamir 1979): each is 13 uniform numbers modulo a prime, and each number has a random polynomial of
its own. A party's share lies at its place in the roster plus one. What is shared are seeds, of which keys are derived.
Numbers are below 2^21, so that sums of 2,000 products of two are whole in float64, and matrix products of floats are
what processors do fastest."""

from __future__ import annotations

import hmac
import math
import secrets
import struct
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from consilium.protocol.identity import derive, frame, index_bytes
from consilium.sums.errors import OverflowRisk
from consilium.sums.roster import MOST_PARTIES
from consilium.sums.terms import TAIL

KEY_BYTES, NONCE_BYTES, TAG_BYTES = 32, 12, 16
RING_BITS = 32
RING_DTYPE, SIGNED_DTYPE = np.dtype("<u4"), np.dtype("<i4")

public_key = lru_cache(maxsize=2 * MOST_PARTIES)(X25519PublicKey.from_public_bytes)
"""Public values alone: a process that simulates many parties reads each key once."""


def extract(salt: bytes, secret: bytes) -> bytes:
    """HKDF-Extract, 32 bytes."""
    return hmac.digest(salt, secret, "sha256")


def expand(extracted: bytes, info: bytes) -> bytes:
    """The first block of HKDF-Expand, 32 bytes."""
    return hmac.digest(extracted, info + b"\x01", "sha256")


class Agreement:
    """One party's private key of one session, X25519, 32 bytes, to agree with each peer once. ctx: of its terms."""

    def __init__(self, private: bytes, ctx: bytes, me: int) -> None:
        self._key, self._ctx, self._me = X25519PrivateKey.from_private_bytes(private), ctx, me
        self.public = self._key.public_key().public_bytes_raw()

    def keys(self, peer: int, public: bytes) -> tuple[bytes, bytes]:
        """What the two have in common, 32 bytes each: a key that seals shares, and the seed of their mask. Raises
        ValueError: `public` is of low order: the secret would be zero, known to all (RFC 7748, section 6.1)."""
        extracted = extract(self._ctx, self._key.exchange(public_key(public)))
        pair = between(min(self._me, peer), max(self._me, peer))
        return expand(extracted, frame("share-key") + pair), expand(extracted, frame("mask-seed") + pair)


def list_key(k: bytes, ctx: bytes, party: int) -> bytes:
    """By which a party seals the list of its pairs' mask seeds, 32 bytes, from its secret K."""
    return derive(k, "list-key", ctx, index_bytes(party))


def between(sender: int, receiver: int) -> bytes:
    """What is sealed for a peer is bound to: both directions of a pair have one key."""
    return struct.pack(">HH", sender, receiver)


def seal(key: bytes, plaintext: bytes, bound: bytes) -> bytes:
    """A random nonce and AES-256-GCM. bound: authenticated with it."""
    nonce = secrets.token_bytes(NONCE_BYTES)
    return nonce + AESGCM(key).encrypt(nonce, plaintext, bound)


def unseal(key: bytes, sealed: bytes, bound: bytes) -> bytes | None:
    """The plaintext, or None where it is not what was sealed."""
    try:
        return AESGCM(key).decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], bound)
    except InvalidTag:
        return None


def check_ring(largest: int, noise: float) -> None:
    """Raise OverflowRisk unless the ring holds `largest` votes in a cell plus nine times `noise`, with either sign."""
    reach, most = largest + TAIL * noise, 2 ** (RING_BITS - 1)
    if reach >= most:
        raise OverflowRisk(reach, most)


def encode(values: np.ndarray) -> np.ndarray:
    """int64 -> uint32, modulo 2^32."""
    return values.astype(SIGNED_DTYPE, casting="unsafe").view(RING_DTYPE)


def decode(values: np.ndarray) -> np.ndarray:
    """uint32 -> int64 in [-2^31, 2^31)."""
    return values.view(SIGNED_DTYPE).astype(np.int64)


class Masks:
    """Adds and takes off masks in a matrix of the ring, in place, of the sum whose terms have this hash. A mask is the
    keystream of AES-256 in counter mode, by the cipher that makes a new one fastest: AES-GCM's ciphertext of zeros is
    that keystream from its second block on (SP 800-38D), and its tag is left out. The key comes from a secret of one
    sum, b or a pair's seed, and the hash: two that were told other terms have other masks. No key is used for two
    streams, so the nonce is zero."""

    def __init__(self, total: np.ndarray, ctx: bytes) -> None:
        self._total, self._info, self._zeros = total.reshape(-1), frame("mask", ctx), bytes(total.nbytes)

    def add(self, seed: bytes) -> None:
        np.add(self._total, self._mask(seed), out=self._total)

    def subtract(self, seed: bytes) -> None:
        np.subtract(self._total, self._mask(seed), out=self._total)

    def add_pair(self, seed: bytes, party: int, peer: int) -> None:
        """What `party` adds for its pair with `peer`: the two signs cancel in the sum."""
        if party < peer:
            self.add(seed)
        else:
            self.subtract(seed)

    def _mask(self, seed: bytes) -> np.ndarray:
        stream = AESGCM(expand(seed, self._info)).encrypt(bytes(NONCE_BYTES), self._zeros, None)
        return np.frombuffer(stream, dtype=self._total.dtype, count=self._total.size)


def clip(sums: np.ndarray, votes: int, deviation: float) -> tuple[np.ndarray, np.ndarray]:
    """Cells of a sum within what its votes and their noise can give, and the rows that were not. A false vote may put a
    cell anywhere in the ring, also to its edge, where one honest vote more takes it from the highest to the lowest
    number. So the map is one of the circle: the identity on [-r, votes + r], and nowhere steeper than one for one. One
    vote moved then moves each cell by one at most, which is what the noise is sized for. r is nine standard deviations
    of the noise in the sum, less where the ring is too small for it. sums: int64 (queries, classes). votes: of all
    parties in it on one query. deviation: of all noise in a cell. Returns the same, and bool (queries,): rows of which
    a cell was out of range, or whose total is further from `votes` than nine deviations of its noise: honest ones once
    in 10^18."""
    half, reach = 2 ** (RING_BITS - 1), math.ceil(TAIL * deviation)
    out = np.any((sums < -reach) | (sums > votes + reach), axis=1)
    out |= np.abs(sums.sum(axis=1) - votes) > TAIL * deviation * math.sqrt(sums.shape[1])
    room = min(reach, (half - votes) // 2)
    around, width = (sums + room) % (2 * half), votes + 2 * room
    counts = np.where(around < half, np.minimum(around, width), np.maximum(width - (around - half), 0)) - room
    return counts, out


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
