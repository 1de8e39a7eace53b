"""Masks come off: secrets are rebuilt from shares and compared with their owners' commitments, and the sum is checked
(Bonawitz et al. 2017, figure 4, round 4).

That the shares were good when they were dealt is known by now (`dealings`, `disputes`); whoever holds them may still
give others."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable

import numpy as np

from consilium.coordinator.secagg.disputes import Disputes
from consilium.coordinator.secagg.intake import mask_key
from consilium.coordinator.secagg.repair import correct
from consilium.protocol.secagg.commitments import mask_agreement, opens
from consilium.protocol.secagg.errors import BadShare, BadSum, ThresholdNotMet, named
from consilium.protocol.secagg.masks import MaskAdder, pair_key, self_key
from consilium.protocol.secagg.messages import KEY_BYTES
from consilium.protocol.secagg.ring import TAIL, RingBits, decode
from consilium.protocol.secagg.roster import Roster
from consilium.protocol.secagg.session import SessionDescriptor
from consilium.protocol.secagg.shamir import combine, lagrange, point, share_bytes
from consilium.protocol.secagg.stages import Stage

MASK_POINT, SELF_POINT = 1, 2
"""Which of the four keys of an advert these are."""


class SecretRebuilder:
    """Secrets of all parties from the same t shareholders, with one Lagrange vector. Who complained about most is asked
    last; who complained about an owner is not asked for that owner's secret.

    Who is found to have given a wrong share is not used again; `liars` names their places. At least t are always left:
    a secret is only taken from t shares that fit each other.

    shares : uint8 (|U2|, 32) by shareholder, at least t of them, rows in the order of `sharers`, all below l.
    disputes : places of those that have no good share, by owner.
    """

    def __init__(self, roster: Roster, sharers: list[int], shares: dict[int, np.ndarray], disputes: Disputes) -> None:
        self._roster, self._disputes = roster, disputes
        self._row = {index: at for at, index in enumerate(sharers)}
        self._shares = shares
        complained = Counter(index for against in disputes.values() for index in against)
        self._holders = sorted(shares, key=lambda index: (complained[index], index))
        self._weights: dict[tuple[int, ...], list[int]] = {}
        self.liars: list[int] = []

    def rebuild(self, owner: int, accept: Callable[[int], bool]) -> int:
        """The secret of `owner` that `accept` verifies.

        Raises
        ------
        ThresholdNotMet : fewer than t of those who vouched for the owner's shares are there.
        BadShare : no choice of shares gives it.
        """
        unfit = {*self.liars, *self._disputes.get(owner, ())}
        honest = [holder for holder in self._holders if holder not in unfit]
        if len(honest) < self._roster.t:
            missing = [self._roster.name(index) for index in self._row if index not in {*self._shares, *unfit}]
            raise ThresholdNotMet(Stage.UNMASK, len(honest), self._roster.t, missing)
        chosen = tuple(honest[: self._roster.t])
        if chosen not in self._weights:
            self._weights[chosen] = lagrange([point(holder) for holder in chosen])
        secret = combine(self._weights[chosen], [self._share(holder, owner) for holder in chosen])
        if accept(secret):
            return secret
        found = correct(
            [point(holder) for holder in honest],
            [self._share(holder, owner) for holder in honest],
            self._roster.t,
            accept,
        )
        if found is None:
            raise BadShare(
                self._roster.name(owner),
                "no choice of shares gives the secret that it is committed to: too many of these lie:"
                f" {named(self._roster.name(holder) for holder in honest)}",
            )
        secret, wrong = found
        self.liars += [honest[at] for at in wrong]
        return secret

    def _share(self, holder: int, owner: int) -> int:
        return int.from_bytes(self._shares[holder][self._row[owner]].tobytes(), "little")


def remove_masks(
    total: np.ndarray,
    terms: SessionDescriptor,
    adverts: dict[int, np.ndarray],
    survivors: list[int],
    dropped: list[int],
    rebuilder: SecretRebuilder,
) -> np.ndarray:
    """Sum of all y -> sum of votes and noise, int64 (queries, classes).

    All secrets are rebuilt and verified before the first mask comes off.

    Raises
    ------
    BadShare, ThresholdNotMet : see `SecretRebuilder.rebuild`.
    """
    ctx = terms.ctx()

    def rebuilt(index: int, at: int) -> int:
        committed = adverts[index][at * KEY_BYTES : (at + 1) * KEY_BYTES].tobytes()
        return rebuilder.rebuild(index, lambda secret: opens(committed, secret))

    own = {index: rebuilt(index, SELF_POINT) for index in survivors}
    private = {index: rebuilt(index, MASK_POINT) for index in dropped}
    result = total.copy()
    adder = MaskAdder(terms.shape, terms.ring)
    for index, b in own.items():
        adder.subtract(result, self_key(share_bytes(b), ctx, index))
    publics = {index: mask_key(adverts[index]) for index in survivors} if dropped else {}
    for gone, key in private.items():
        agreement = mask_agreement(key)
        for index, public in publics.items():
            secret = agreement.with_peer(public, str(index))
            adder.remove_pair(result, pair_key(secret, ctx, index, gone), index, gone)
    return decode(result, terms.ring)


def check_sum(sums: np.ndarray, terms: SessionDescriptor, votes: int) -> None:
    """Raise BadSum where a row of an exact sum has another number of votes than its parties give, modulo the ring.

    votes : of all parties in the sum on one query, each counted by its weight.

    Honest rows have that number whatever is voted, so that only false ones decide whether this is raised: a range of
    single cells would be a threshold on honest votes that a liar sets. Noisy sums pass.
    """
    if terms.sigma == 0 and ((sums.sum(axis=1) - votes) % 2**terms.ring).any():
        raise BadSum


def clip(sums: np.ndarray, ring: RingBits, votes: int, deviation: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Cells of a sum within what its votes and their noise can give, as in `check_sum`, and the rows that were not.

    A false vote may put a cell anywhere in the ring, also to its edge, where one honest vote more takes it from the
    highest to the lowest number. So the map is one of the circle: the identity on [-r, votes + r], and nowhere steeper
    than one for one. One vote moved then moves each cell by one at most, which is what the noise is sized for that is
    added afterwards. r is nine standard deviations of the noise in the sum, less where the ring is too small for it.

    Parameters
    ----------
    sums : int64 (queries, classes), as they came out of the ring.
    votes : of all parties in the sum on one query, each counted by its weight.
    deviation : of the noise in a cell, of all who are summed; 0 without noise.

    Returns
    -------
    int64 (queries, classes), and bool (queries,): rows of which a cell was out of range, or whose total is further from
    `votes` than nine standard deviations of its noise. Honest ones are so once in 10^18 (never without noise); both are
    functions of the sums alone.
    """
    half, reach = 2 ** (ring - 1), math.ceil(TAIL * deviation)
    out = np.any((sums < -reach) | (sums > votes + reach), axis=1)
    if deviation > 0:
        out |= np.abs(sums.sum(axis=1) - votes) > TAIL * deviation * math.sqrt(sums.shape[1])
    room = min(reach, (half - votes) // 2)
    around, width = (sums + room) % (2 * half), votes + 2 * room
    kept = np.where(around < half, np.minimum(around, width), np.maximum(width - (around - half), 0)) - room
    return kept, out
