"""Masks come off: seeds are rebuilt from shares and held against what their owners are committed to (Bonawitz et al.
2017, figure 4, round 4), and cells are brought into the range that votes and noise can give."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from consilium.sums.agreement import Agreement, public_of
from consilium.sums.errors import BadShare
from consilium.sums.roster import Roster
from consilium.sums.secure.messages import KEY_BYTES, KEYS_BYTES, self_commitment
from consilium.sums.secure.ring import MaskAdder, RingBits, decode, pair_key, self_key
from consilium.sums.secure.shares import mask_private, rebuild
from consilium.sums.secure.terms import MaskedTerms
from consilium.sums.terms import TAIL


def remove_masks(
    total: np.ndarray,
    terms: MaskedTerms,
    roster: Roster,
    adverts: Mapping[int, np.ndarray],
    sharers: Sequence[int],
    survivors: Sequence[int],
    shares: Mapping[int, np.ndarray],
) -> np.ndarray:
    """Sum of all y -> sum of votes and noise, int64 (queries, classes).

    All seeds are rebuilt and verified before the first mask comes off.

    Parameters
    ----------
    total : of the survivors' y, in the ring.
    adverts : keys and signature by place. sharers, survivors : U2 and U3.
    shares : uint8 (|U2|, 52) by shareholder, at least t of them, rows in the order of U2.

    Raises
    ------
    BadShare : a seed is not what its owner is committed to. Dealer or shareholder lied: nobody can tell which.
    """
    ctx, holders = terms.ctx, sorted(shares)[: roster.t]
    seeds = rebuild(holders, np.stack([shares[holder] for holder in holders]))
    seed_of = {owner: seed.tobytes() for owner, seed in zip(sharers, seeds, strict=True)}
    alive = frozenset(survivors)
    for owner, seed in seed_of.items():
        keys = adverts[owner].tobytes()
        if owner in alive:
            good = self_commitment(ctx, owner, seed) == keys[2 * KEY_BYTES : KEYS_BYTES]
        else:
            good = public_of(mask_private(seed)) == keys[KEY_BYTES : 2 * KEY_BYTES]
        if not good:
            raise BadShare(
                roster.name(owner), "its shares do not give what it is committed to: it, or one of them, lies"
            )
    result, adder = total.copy(), MaskAdder(terms.shape, terms.ring)
    for index in survivors:
        adder.subtract(result, self_key(seed_of[index], ctx, index))
    for gone in sorted(set(sharers) - alive):
        agreement = Agreement(mask_private(seed_of[gone]))
        for index in survivors:
            secret = agreement.with_peer(adverts[index][KEY_BYTES : 2 * KEY_BYTES].tobytes(), roster.name(index))
            adder.remove_pair(result, pair_key(secret, ctx, index, gone), index, gone)
    return decode(result, terms.ring)


def clip(sums: np.ndarray, ring: RingBits, votes: int, deviation: float) -> tuple[np.ndarray, np.ndarray]:
    """Cells of a sum within what its votes and their noise can give, and the rows that were not.

    A false vote may put a cell anywhere in the ring, also to its edge, where one honest vote more takes it from the
    highest to the lowest number. So the map is one of the circle: the identity on [-r, votes + r], and nowhere steeper
    than one for one. One vote moved then moves each cell by one at most, which is what the noise is sized for that is
    added afterwards. r is nine standard deviations of the noise in the sum, less where the ring is too small for it.

    Parameters
    ----------
    sums : int64 (queries, classes), as they came out of the ring.
    votes : of all parties in the sum on one query.
    deviation : of the noise in a cell, of all who are summed.

    Returns
    -------
    int64 (queries, classes), and bool (queries,): rows of which a cell was out of range, or whose total is further from
    `votes` than nine standard deviations of its noise. Honest ones are so once in 10^18; both are functions of the sums
    alone.
    """
    half, reach = 2 ** (ring - 1), math.ceil(TAIL * deviation)
    out = np.any((sums < -reach) | (sums > votes + reach), axis=1)
    out |= np.abs(sums.sum(axis=1) - votes) > TAIL * deviation * math.sqrt(sums.shape[1])
    room = min(reach, (half - votes) // 2)
    around, width = (sums + room) % (2 * half), votes + 2 * room
    counts = np.where(around < half, np.minimum(around, width), np.maximum(width - (around - half), 0)) - room
    return counts, out
