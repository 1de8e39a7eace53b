"""Shares of secrets modulo l, the order of the base point, and the proof that they belong to what their dealer is
committed to.

Shamir's sharing: a party's share lies at its place in the roster plus one. Plain Python integers: products of a 253-bit
number and a place are cheap, and the sum is reduced only every few steps.

Each dealer shares three secrets with polynomials of degree below t: b of its own mask, the private mask key, and a
blinder z. Its advert holds the points b G, k G and z G. With its sealed shares it publishes, for each receiver u, the
value w(u) = z(u) + r b(u) + r^2 k(u), where r is a hash of all it is committed to and of all that it sealed. The
coordinator checks that the values lie on one polynomial of degree below t, and that w(0) G = z G + r b G + r^2 k G;
a receiver checks that its own three shares give its value. False shares pass if the dealer has guessed r, and w tells
nothing but what the points tell: z hides it. This is Feldman's check (FOCS 1987) of one random combination instead of
every coefficient, made without interaction (Fiat and Shamir 1986)."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from consilium.sums.agreement import Agreement, UnclampedAgreement
from consilium.sums.curve import ORDER, POINT_BYTES, SIGN, add, base_multiple, decompress, is_nothing, negative

SHARE_BYTES = 32
LAZY = 24
"""Horner steps between two reductions: a number grows by ten bits a step, so it stays below 512 bits."""


def random_scalar() -> int:
    """Uniform modulo l, from the system's entropy."""
    return secrets.randbelow(ORDER)


def point(index: int) -> int:
    """Where the share of the party at this place lies; never 0, where the secret is."""
    return index + 1


def share_bytes(value: int) -> bytes:
    """A share or a secret, 32 bytes, little-endian as in RFC 8032."""
    return value.to_bytes(SHARE_BYTES, "little")


def share_value(content: bytes) -> int | None:
    """32 bytes -> a share, or None if they are none."""
    value = int.from_bytes(content, "little")
    return value if len(content) == SHARE_BYTES and value < ORDER else None


def split(secret: int, threshold: int, points: Sequence[int]) -> list[int]:
    """Shares of a secret at the given points; any `threshold` rebuild it, fewer tell nothing.

    Parameters
    ----------
    secret : below l.
    threshold : t, at most the number of points.
    points : distinct, from 1.

    Raises
    ------
    ValueError : the parameters cannot be.
    """
    if not 0 <= secret < ORDER or not 1 <= threshold <= len(points) or min(points) < 1:
        raise ValueError("a secret is below l, a threshold from 1 to the number of points, points from 1")
    return evaluate([secret, *(random_scalar() for _ in range(threshold - 1))], points)


def evaluate(coefficients: Sequence[int], points: Sequence[int]) -> list[int]:
    """Values of the polynomial, constant term first, at the points, modulo l."""
    falling = list(reversed(coefficients))
    blocks = [falling[start : start + LAZY] for start in range(0, len(falling), LAZY)]
    values = []
    for x in points:
        value = 0
        for block in blocks:
            for coefficient in block:
                value = value * x + coefficient
            value %= ORDER
        values.append(value)
    return values


def lagrange(points: Sequence[int]) -> list[int]:
    """Weights w with sum(w_i f(x_i)) = f(0) mod l: one vector serves all secrets that these parties share.

    Raises
    ------
    ValueError : two points are the same.
    """
    if len(set(points)) < len(points):
        raise ValueError("a point is given twice")
    product = 1
    for x in points:
        product = product * x % ORDER
    weights = []
    for x in points:
        below = x
        for other in points:
            if other != x:
                below = below * (other - x) % ORDER
        weights.append(product * pow(below, -1, ORDER) % ORDER)
    return weights


def combine(weights: Sequence[int], shares: Sequence[int]) -> int:
    """The secret, or with other weights another sum, modulo l."""
    return sum(weight * share for weight, share in zip(weights, shares, strict=True)) % ORDER


def dual_weights(points: Sequence[int], weights: Sequence[int], threshold: int) -> list[int]:
    """Random weights under which the shares of any polynomial of degree below `threshold` sum to zero, and other values
    but once in l: a word of the code that is dual to Shamir's (Cascudo and David 2017, SCRAPE, section 2.1).

    points, weights : all points, at least `threshold`, and `lagrange` of them.
    """
    check = [random_scalar() for _ in range(len(points) - threshold)]
    return [
        weight * x * value % ORDER for weight, x, value in zip(weights, points, evaluate(check, points), strict=True)
    ]


CLAMPED = 1 << 254
"""X25519's private keys are 2^254 + 8 m with m below 2^251."""
EIGHTH = pow(8, -1, ORDER)


def new_mask_key() -> tuple[bytes, bytes]:
    """A private X25519 key k, 32 bytes, and the point k G, encoded.

    `cryptography` multiplies the base point by no number of ours, but by the one that an Ed25519 key is hashed to (RFC
    8032, section 5.1.5), and that is a private key of X25519: so k G comes from its constant-time code.
    """
    seed = secrets.token_bytes(32)
    low = int.from_bytes(hashlib.sha512(seed).digest()[:32], "little")
    private = low & (CLAMPED - 8) | CLAMPED
    point = Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()
    return private.to_bytes(32, "little"), point


def new_scalar() -> tuple[int, bytes]:
    """A number modulo l, uniform but for 2^-125, and its multiple of the base point, encoded.

    Private keys are half of all numbers modulo l and their negatives the other half (-(2^254 + 8 m) = 2^254 + 8 m' with
    m' = l - 2^252 - m), so a random sign makes one of any.
    """
    private, point = new_mask_key()
    scalar = mask_secret(private)
    if secrets.randbits(1):
        flipped = int.from_bytes(point, "little") ^ SIGN
        return ORDER - scalar, flipped.to_bytes(POINT_BYTES, "little")
    return scalar, point


def mask_secret(private: bytes) -> int:
    """The number that is shared of a private mask key: k modulo l."""
    return int.from_bytes(private, "little") % ORDER


def mask_agreement(secret: int) -> Agreement | UnclampedAgreement:
    """What the owner of this shared number agrees with its peers.

    A number that is no private key's gives the same secrets as well: a dealer may have chosen it so that the masks of
    one that is gone could not be taken off.
    """
    m = (secret - CLAMPED) * EIGHTH % ORDER
    if m < 1 << 251:
        return Agreement((CLAMPED + 8 * m).to_bytes(32, "little"))
    return UnclampedAgreement(8 * (secret * EIGHTH % ORDER))


def blend(r: int, z: int, b: int, k: int) -> int:
    """w = z + r b + r^2 k modulo l, of three shares at one point or of three secrets."""
    return (z + r * (b + r * k)) % ORDER


def opens(point: bytes, secret: int) -> bool:
    """Whether the encoded point is `secret` times the base point, but for a part of small order."""
    committed = decompress(point)
    return committed is not None and is_nothing(add(base_multiple(secret), negative(committed)))
