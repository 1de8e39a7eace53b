"""What the coordinator checks of replies: each by itself, dealers together, complaints against each other.

A fault is described in the coordinator's own words, and its party is left out by name."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from consilium.protocol.identity import verify
from consilium.sums.agreement import check_order
from consilium.sums.curve import (
    ORDER,
    Addend,
    add_points,
    base_multiple,
    combination,
    decompress,
    is_nothing,
    montgomery,
)
from consilium.sums.errors import BadKey, BadShare, named
from consilium.sums.masks.messages import (
    ADVERT,
    CONSISTENCY,
    KEY_BYTES,
    KEYS_BYTES,
    MASKED,
    AdvertiseReply,
    ConsistencyReply,
    MaskedReply,
    SessionMessage,
    ShareReply,
    UnmaskReply,
    advert_parts,
    consistency_parts,
    masked_parts,
)
from consilium.sums.masks.ring import RING_DTYPES
from consilium.sums.masks.shares import combine, dual_weights, lagrange, point, share_value
from consilium.sums.masks.terms import MaskedTerms
from consilium.sums.roster import Roster


def advert_keys(reply: AdvertiseReply) -> bytes:
    """Cipher key, then the points of mask key, b and z, 128 bytes."""
    return reply.cipher_key + reply.mask_point + reply.self_point + reply.blind_point


def fault_of_address(reply: object, model: type[SessionMessage], sid: bytes, index: int) -> str | None:
    """Whether the reply is one of this stage, session and party."""
    if not isinstance(reply, model):
        return "answers with a message of another stage"
    if reply.sid != sid or getattr(reply, "party", None) != index:
        return "answers for another session or another party"
    return None


def fault_of_advert(reply: AdvertiseReply, roster: Roster, ctx: bytes) -> str | None:
    """Signature under the pinned key, keys not of low order, points on the curve."""
    parts = advert_parts(ctx, reply.party, advert_keys(reply))
    if not verify(roster.key(reply.party), reply.signature, ADVERT, *parts):
        return "signature on its advert does not verify under the key in the roster"
    try:
        check_order(reply.cipher_key, roster.name(reply.party))
    except BadKey:
        return "session key is of low order"
    if None in map(decompress, (reply.mask_point, reply.self_point, reply.blind_point)):
        return "a point of its advert is none, or of low order"
    return None


def mask_key(advert: np.ndarray) -> bytes:
    """The X25519 mask key of an accepted advert, uint8 (192,)."""
    return montgomery(advert[KEY_BYTES : 2 * KEY_BYTES].tobytes())


def twice(adverts: dict[int, np.ndarray]) -> set[int]:
    """Parties with a session key that another advert holds too: who copied from whom cannot be told."""
    holders: dict[bytes, list[int]] = {}
    for index, advert in adverts.items():
        for key in (advert[:KEY_BYTES].tobytes(), mask_key(advert)):
            holders.setdefault(key, []).append(index)
    return {index for indices in holders.values() if len(indices) > 1 for index in indices}


def fault_of_shares(reply: ShareReply, peers: int) -> str | None:
    """One ciphertext for each peer. What they hold is checked for all dealers at once (`dealings`)."""
    if len(reply.ciphertexts) != peers:
        return f"sends {len(reply.ciphertexts)} ciphertexts, {peers} are needed"
    return None


def fault_of_masked(
    reply: MaskedReply, roster: Roster, terms: MaskedTerms, ctx: bytes, u1: bytes, u2: bytes, sharers: Collection[int]
) -> str | None:
    """Type and shape of y, signature on y, complaints, U1 and U2."""
    if reply.y.dtype != RING_DTYPES[terms.ring]:
        return f"masked votes are {reply.y.dtype}, must be uint{terms.ring}"
    if reply.y.shape != terms.shape:
        return f"masked votes have shape {reply.y.shape}, must be {terms.shape}"
    parts = masked_parts(ctx, reply.party, u1, u2, reply.y, reply.complaints)
    if not verify(roster.key(reply.party), reply.signature, MASKED, *parts):
        return "signature on its masked votes does not verify"
    if not set(reply.complaints.tolist()) <= set(sharers) - {reply.party}:
        return "complains about parties that sent it no shares"
    return None


def fault_of_view(reply: ConsistencyReply, roster: Roster, ctx: bytes, u1: bytes, u2: bytes, u3: bytes) -> str | None:
    """Signature on U1, U2 and U3."""
    parts = consistency_parts(ctx, reply.party, u1, u2, u3)
    if not verify(roster.key(reply.party), reply.signature, CONSISTENCY, *parts):
        return "signature on the set of survivors does not verify"
    return None


def fault_of_unmask(reply: UnmaskReply, sharers: int) -> str | None:
    """One share per party of U2, each below l."""
    if len(reply.shares) != sharers:
        return f"gives {len(reply.shares)} shares, {sharers} are needed"
    if any(share_value(row.tobytes()) is None for row in reply.shares):
        return "gives a share that is out of range"
    return None


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


Disputes = dict[int, set[int]]
"""Places of those who complained, by place of the dealer."""


def gather(sharers: list[int], complaints: Mapping[int, np.ndarray]) -> Disputes:
    """Complainers by dealer. complaints: uint8 (|U2|,) by party of U3, 1 at each dealer that it complains about."""
    disputes: Disputes = {}
    for index, row in complaints.items():
        for place in np.flatnonzero(row).tolist():
            disputes.setdefault(sharers[place], set()).add(index)
    return disputes


def check_vouched(roster: Roster, survivors: list[int], disputes: Disputes) -> None:
    """Raise BadShare if fewer than t of the survivors vouch for some dealer, with the names of those to leave out."""
    lost = [dealer for dealer, against in sorted(disputes.items()) if len(survivors) - len(against) < roster.t]
    if not lost:
        return
    out = {index for index, opponents in _opponents(disputes).items() if len(opponents) > max(roster.n - roster.t, 1)}
    for dealer in lost:
        against = disputes[dealer] - out
        if dealer not in out and len(survivors) - len(against) < roster.t:
            out |= {dealer, min(against)}
    against = sorted(disputes[lost[0]])
    raise BadShare(
        roster.name(lost[0]),
        f"{len(survivors) - len(against)} of those in the sum vouch for it, {roster.t} are needed; not good says"
        f" {named(map(roster.name, against))}",
        [roster.name(index) for index in sorted(out)],
    )


def _opponents(disputes: Disputes) -> Disputes:
    """All with whom one is in dispute, as dealer or as receiver."""
    opponents: Disputes = {}
    for dealer, against in disputes.items():
        for index in against:
            opponents.setdefault(dealer, set()).add(index)
            opponents.setdefault(index, set()).add(dealer)
    return opponents
