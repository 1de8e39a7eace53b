"""Masks come off: secrets rebuilt from shares, held against what their owners committed to, and the sum checked
(Bonawitz et al. 2017, figure 4, round 4)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from coordinator.secagg.repair import correct
from protocol.secagg.agreement import Agreement, public_of
from protocol.secagg.errors import BadShare, BadSum, named
from protocol.secagg.masks import MaskAdder, pair_key, self_key
from protocol.secagg.messages import KEY_BYTES
from protocol.secagg.ring import decode
from protocol.secagg.roster import Roster
from protocol.secagg.session import SessionDescriptor
from protocol.secagg.shamir import combine, lagrange, point
from protocol.secagg.statements import commitment


class SecretRebuilder:
    """Secrets of all parties from the same t shareholders, with one Lagrange vector.

    Who is found to have given a wrong share is not used again; `liars` names their places. At least t are always left:
    a secret is only taken from t shares that fit each other.

    shares : uint8 (|U2|, 33) by shareholder, at least t of them, rows in the order of `sharers`, all below p.
    """

    def __init__(self, roster: Roster, sharers: list[int], shares: dict[int, np.ndarray]) -> None:
        self._roster = roster
        self._row = {index: at for at, index in enumerate(sharers)}
        self._shares = shares
        self.liars: list[int] = []
        self._choose()

    def rebuild(self, owner: int, accept: Callable[[bytes], bool]) -> bytes:
        """The secret of `owner`, 32 bytes, that `accept` verifies.

        Raises
        ------
        BadShare : no choice of shares gives it.
        """
        secret = combine(self._weights, [self._share(holder, owner) for holder in self._chosen])
        if secret is not None and accept(secret):
            return secret
        honest = [holder for holder in sorted(self._shares) if holder not in self.liars]
        found = correct(
            [point(holder) for holder in honest],
            [self._share(holder, owner) for holder in honest],
            self._roster.t,
            accept,
        )
        if found is None:
            raise BadShare(
                self._roster.name(owner),
                "no choice of shares gives the secret that it is committed to: it shared falsely, or too many of"
                f" these lie: {named(self._roster.name(holder) for holder in honest)}",
            )
        secret, wrong = found
        self.liars += [honest[at] for at in wrong]
        self._choose()
        return secret

    def _choose(self) -> None:
        honest = [holder for holder in sorted(self._shares) if holder not in self.liars]
        self._chosen = honest[: self._roster.t]
        self._weights = lagrange([point(holder) for holder in self._chosen])

    def _share(self, holder: int, owner: int) -> int:
        return int.from_bytes(self._shares[holder][self._row[owner]].tobytes(), "big")


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
    BadShare : see `SecretRebuilder.rebuild`.
    """
    ctx = terms.ctx()
    own: dict[int, bytes] = {}
    for index in survivors:
        committed = adverts[index][2 * KEY_BYTES : 3 * KEY_BYTES].tobytes()
        own[index] = rebuilder.rebuild(index, lambda b, i=index, h=committed: commitment(b, ctx, i) == h)
    private: dict[int, bytes] = {}
    for index in dropped:
        public = _mask_key(adverts[index])
        private[index] = rebuilder.rebuild(index, lambda key, public=public: public_of(key) == public)
    result = total.copy()
    adder = MaskAdder(terms.shape, terms.ring)
    for index, b in own.items():
        adder.subtract(result, self_key(b, ctx, index))
    for gone, key in private.items():
        agreement = Agreement(key)
        for index in survivors:
            secret = agreement.with_peer(_mask_key(adverts[index]), str(index))
            adder.remove_pair(result, pair_key(secret, ctx, index, gone), index, gone)
    return decode(result, terms.ring)


def check_sum(sums: np.ndarray, terms: SessionDescriptor, survivors: int) -> None:
    """Raise BadSum where a row of an exact sum has another number of votes than its parties give, modulo the ring.

    Honest rows have that number whatever is voted, so that only false ones decide whether this is raised: a range of
    single cells would be a threshold on honest votes that a liar sets. Noisy sums pass.
    """
    if terms.sigma == 0 and ((sums.sum(axis=1) - terms.teachers * survivors) % 2**terms.ring).any():
        raise BadSum


def clip(sums: np.ndarray, terms: SessionDescriptor, survivors: int) -> tuple[np.ndarray, np.ndarray]:
    """Cells of an exact sum in [0, votes], votes = teachers * survivors, and the rows where that changed one.

    A false vote may put a cell anywhere in the ring, also to its edge, where one honest vote more takes it from the
    highest to the lowest number. So the map is one of the circle: the identity on [0, votes], and nowhere steeper than
    one for one. One vote moved then moves each cell by one at most, which is what the mechanisms' noise is sized for.

    Returns
    -------
    int64 (queries, classes), and bool (queries,). Noisy sums are left as they are.
    """
    if terms.sigma > 0:
        return sums, np.zeros(len(sums), dtype=bool)
    votes, half = terms.teachers * survivors, 2 ** (terms.ring - 1)
    around = sums % (2 * half)
    kept = np.where(around < half, np.minimum(around, votes), np.maximum(votes - (around - half), 0))
    return kept, (kept != sums).any(axis=1)


def _mask_key(advert: np.ndarray) -> bytes:
    return advert[KEY_BYTES : 2 * KEY_BYTES].tobytes()
