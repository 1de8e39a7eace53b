"""Whether the shares that dealers publish values of belong to one polynomial each, and that to what they are committed
to (`protocol.secagg.commitments`). Checked as soon as they arrive, all dealers at once.

Who fails here is left out before any votes are given. What this cannot see is whether a sealed share gives the value
that was published for it: its receiver says that with its masked votes (`coordinator.secagg.disputes`).
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from consilium.protocol.secagg.curve import (
    ORDER,
    Addend,
    add_points,
    base_multiple,
    combination,
    decompress,
    is_nothing,
)
from consilium.protocol.secagg.messages import KEY_BYTES, KEYS_BYTES
from consilium.protocol.secagg.shamir import combine, dual_weights, lagrange, point, share_value

WEIGHT_BITS = 128
"""Of the random weights of a batch: a false dealer stays unseen in it once in 2^128, and then its receivers see it."""


def false_dealers(
    dealers: Collection[int],
    adverts: Mapping[int, np.ndarray],
    values: Mapping[int, np.ndarray],
    challenges: Mapping[int, int],
    threshold: int,
) -> set[int]:
    """Places of the dealers whose values are no shares of what they are committed to.

    Parameters
    ----------
    dealers : places of those to check.
    adverts : uint8 (192,) by place, of all of U1: four keys and a signature; points that decompress.
    values : uint8 (|U1|, 32) by dealer, w at the point of each of U1.
    challenges : r by dealer.
    threshold : t.
    """
    points = [point(index) for index in sorted(adverts)]
    at_zero = lagrange(points)
    dual = dual_weights(points, at_zero, threshold)
    false, constants = set(), {}
    for dealer in dealers:
        shares = [share_value(row.tobytes()) for row in values[dealer]]
        known = [share for share in shares if share is not None]
        if len(known) < len(points) or combine(dual, known) != 0:
            false.add(dealer)
        else:
            constants[dealer] = combine(at_zero, known)
    committed = {dealer: _points(adverts[dealer]) for dealer in constants}
    if not _belong(list(constants), constants, challenges, committed):
        false |= {dealer for dealer in constants if not _belong([dealer], constants, challenges, committed)}
    return false


def _belong(
    dealers: Sequence[int],
    constants: Mapping[int, int],
    challenges: Mapping[int, int],
    committed: Mapping[int, Sequence[Addend]],
) -> bool:
    """Whether w(0) G = z G + r b G + r^2 k G for all of them, by one sum with random weights."""
    scalars, points, total = [], [], 0
    for dealer in dealers:
        weight, r = secrets.randbits(WEIGHT_BITS), challenges[dealer]
        total += weight * constants[dealer]
        scalars += [weight * r * r % ORDER, weight * r % ORDER, weight]
        points += committed[dealer]
    return is_nothing(add_points(base_multiple(-total % ORDER), combination(scalars, points)))


def _points(advert: np.ndarray) -> list[Addend]:
    """k G, b G and z G."""
    rows = advert[KEY_BYTES:KEYS_BYTES].reshape(3, KEY_BYTES)
    return [known for known in (decompress(row.tobytes()) for row in rows) if known is not None]
