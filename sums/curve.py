"""Points of edwards25519 (RFC 8032) for checks of public values: sums of multiples, and the way to X25519's coordinate.

Nothing here runs in constant time, so nothing here touches a secret that is still one: parties make their points with
`cryptography` (`sums.masks.shares`), the coordinator checks them and multiplies what has been given up.

Checks are cofactored: two points that differ by one of order 8 or less count as the same. That is what X25519 does
as well, whose keys are multiples of 8, so that such a part of a key can neither break a check nor change a mask.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import cast

FIELD_PRIME = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
"""Of the base point, and the modulus of all scalars: l in RFC 8032."""

POINT_BYTES = 32
SCALAR_BITS = 256
WINDOW = 4
SIGN = 1 << 255

_ORDER_8 = 2707385501144840649318225287225658788936804267575313519463743609750303402022
# The y of the points of order 1, 2, 4 and 8, and their non-canonical forms: under such a key anyone can sign.
SMALL_ORDER = {0, 1, FIELD_PRIME - 1, FIELD_PRIME, FIELD_PRIME + 1, _ORDER_8, FIELD_PRIME - _ORDER_8}

D = -121665 * pow(121666, -1, FIELD_PRIME) % FIELD_PRIME
ROOT_OF_MINUS_ONE = pow(2, (FIELD_PRIME - 1) // 4, FIELD_PRIME)
BASE_POINT = (4 * pow(5, -1, FIELD_PRIME) % FIELD_PRIME).to_bytes(POINT_BYTES, "little")

Point = tuple[int, int, int, int]
"""X, Y, Z and T = XY / Z (Hisil, Wong, Carter and Dawson 2008)."""

Addend = tuple[int, int, int]
"""y - x, y + x and 2dxy of an affine point: what an addition needs of it."""

NEUTRAL: Point = (0, 1, 1, 0)


def is_proper(content: bytes) -> bool:
    """Whether 32 bytes encode y canonically and are not of small order. They need not be on the curve.

    >>> is_proper(BASE_POINT), is_proper(bytes(32)), is_proper(b"\\xff" * 32)
    (True, False, False)
    """
    y = int.from_bytes(content, "little") & ~SIGN
    return len(content) == POINT_BYTES and y < FIELD_PRIME and y not in SMALL_ORDER


def decompress(content: bytes) -> Addend | None:
    """32 bytes -> a point of large order, or None if they are none (RFC 8032, section 5.1.3)."""
    if not is_proper(content):
        return None
    coded = int.from_bytes(content, "little")
    y = coded & ~SIGN
    u, v = (y * y - 1) % FIELD_PRIME, (D * y * y + 1) % FIELD_PRIME
    x = u * pow(v, 3, FIELD_PRIME) * pow(u * pow(v, 7, FIELD_PRIME), (FIELD_PRIME - 5) // 8, FIELD_PRIME) % FIELD_PRIME
    square = v * x * x % FIELD_PRIME
    if square == FIELD_PRIME - u:
        x = x * ROOT_OF_MINUS_ONE % FIELD_PRIME
    elif square != u:
        return None
    if x & 1 != coded >> 255:
        x = FIELD_PRIME - x
    return (y - x) % FIELD_PRIME, (y + x) % FIELD_PRIME, 2 * D * x * y % FIELD_PRIME


def montgomery(content: bytes) -> bytes:
    """The X25519 public key of an encoded point: u = (1 + y) / (1 - y) (RFC 7748, section 4.1), 32 bytes.

    Both points of one y have the same u. Needs `is_proper`, not that the point is on the curve: X25519 is safe on its
    twist.
    """
    y = int.from_bytes(content, "little") & ~SIGN
    return ((1 + y) * pow(1 - y, -1, FIELD_PRIME) % FIELD_PRIME).to_bytes(POINT_BYTES, "little")


def ladder(scalar: int, public: bytes) -> bytes:
    """X25519's u coordinate of `scalar` times the point whose u is given (RFC 7748, section 5), for any scalar below
    2^256: X25519 itself takes only those from 2^254 to 2^255 that are multiples of 8."""
    base = (int.from_bytes(public, "little") & ~SIGN) % FIELD_PRIME
    x2, z2, x3, z3 = 1, 0, base, 1
    for place in reversed(range(SCALAR_BITS)):
        bit = scalar >> place & 1
        if bit:
            x2, z2, x3, z3 = x3, z3, x2, z2
        plus, minus = x2 + z2, x2 - z2
        one, other = plus * plus % FIELD_PRIME, minus * minus % FIELD_PRIME
        cross, back = (x3 - z3) * plus % FIELD_PRIME, (x3 + z3) * minus % FIELD_PRIME
        x3, z3 = (cross + back) ** 2 % FIELD_PRIME, base * (cross - back) ** 2 % FIELD_PRIME
        gap = one - other
        x2, z2 = one * other % FIELD_PRIME, gap * (one + 121665 * gap) % FIELD_PRIME
        if bit:
            x2, z2, x3, z3 = x3, z3, x2, z2
    return (x2 * pow(z2, FIELD_PRIME - 2, FIELD_PRIME) % FIELD_PRIME).to_bytes(POINT_BYTES, "little")


def base_multiple(scalar: int) -> Point:
    """`scalar` (0 to 2^256) times the base point: 64 additions from a table."""
    total = NEUTRAL
    for row in _base_table():
        digit = scalar & (1 << WINDOW) - 1
        scalar >>= WINDOW
        if digit:
            total = add(total, row[digit - 1])
    return total


def combination(scalars: Sequence[int], points: Sequence[Addend]) -> Point:
    """The sum of all multiples, by Pippenger's buckets; scalars from 0 to 2^256."""
    width = max(2, len(points).bit_length() - 3)
    total = NEUTRAL
    for place in reversed(range(0, SCALAR_BITS, width)):
        for _ in range(width):
            total = double(total)
        buckets: list[Point | None] = [None] * (1 << width)
        for scalar, point in zip(scalars, points, strict=True):
            digit = scalar >> place & (1 << width) - 1
            if digit:
                held = buckets[digit]
                buckets[digit] = add(NEUTRAL if held is None else held, point)
        running, weighted = NEUTRAL, NEUTRAL
        for bucket in reversed(buckets[1:]):
            if bucket is not None:
                running = add_points(running, bucket)
            if running is not NEUTRAL:
                weighted = add_points(weighted, running)
        total = add_points(total, weighted)
    return total


def negative(point: Addend) -> Addend:
    """The point's inverse."""
    minus, plus, product = point
    return plus, minus, -product % FIELD_PRIME


def is_nothing(point: Point) -> bool:
    """Whether eight times the point is the neutral element."""
    x, y, z, _ = double(double(double(point)))
    return x == 0 and y == z


def add(point: Point, other: Addend) -> Point:
    """Sum; complete, so any two points (Hisil et al. 2008, section 3.1, for a = -1)."""
    x, y, z, t = point
    minus, plus, product = other
    a, b, c, d = (y - x) * minus % FIELD_PRIME, (y + x) * plus % FIELD_PRIME, t * product % FIELD_PRIME, 2 * z
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % FIELD_PRIME, g * h % FIELD_PRIME, f * g % FIELD_PRIME, e * h % FIELD_PRIME


def add_points(point: Point, other: Point) -> Point:
    """Sum of two points in full coordinates."""
    x1, y1, z1, t1 = point
    x2, y2, z2, t2 = other
    a, b = (y1 - x1) * (y2 - x2) % FIELD_PRIME, (y1 + x1) * (y2 + x2) % FIELD_PRIME
    c, d = 2 * D * t1 * t2 % FIELD_PRIME, 2 * z1 * z2
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % FIELD_PRIME, g * h % FIELD_PRIME, f * g % FIELD_PRIME, e * h % FIELD_PRIME


def double(point: Point) -> Point:
    """Twice the point."""
    x, y, z, _ = point
    a, b = x * x % FIELD_PRIME, y * y % FIELD_PRIME
    h = a + b
    e, g = h - (x + y) ** 2, a - b
    f = 2 * z * z + g
    return e * f % FIELD_PRIME, g * h % FIELD_PRIME, f * g % FIELD_PRIME, e * h % FIELD_PRIME


@cache
def _base_table() -> list[list[Addend]]:
    """Row i holds 1 to 15 times 16^i times the base point."""
    table, point = [], add(NEUTRAL, cast(Addend, decompress(BASE_POINT)))
    for _ in range(SCALAR_BITS // WINDOW):
        row = [point]
        for _ in range((1 << WINDOW) - 2):
            row.append(add_points(row[-1], point))
        table.append([_addend(multiple) for multiple in row])
        point = add_points(row[-1], point)
    return table


def _addend(point: Point) -> Addend:
    x, y, z, _ = point
    inverse = pow(z, -1, FIELD_PRIME)
    x, y = x * inverse % FIELD_PRIME, y * inverse % FIELD_PRIME
    return (y - x) % FIELD_PRIME, (y + x) % FIELD_PRIME, 2 * D * x * y % FIELD_PRIME
