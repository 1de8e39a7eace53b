"""Shares of a party's secrets, sealed for its peers, and its peers' shares, opened.

b and the private mask key are shared t-out-of-|U1|; later one of the two is given for each peer, never both
(Bonawitz et al. 2017, figure 4, rounds 1 and 2). A ciphertext is opened before masked votes are given: a peer that
sends rubbish costs a session, not a query.
"""

from __future__ import annotations

import secrets

import numpy as np

from party.secagg.memory import Memory, matrix, secret
from protocol.secagg.agreement import NONCE_BYTES, Agreement, seal, sealing_key, unseal
from protocol.secagg.errors import BadKey, BadShare, BadSignature, InconsistentView, ThresholdNotMet
from protocol.secagg.identity import verify
from protocol.secagg.messages import KEY_BYTES, MaskedRequest, ShareReply, ShareRequest
from protocol.secagg.roster import Roster
from protocol.secagg.shamir import SHARE_BYTES, point, share_bytes, share_value, split
from protocol.secagg.stages import Stage
from protocol.secagg.statements import ADVERT, advert_parts, adverts_digest, set_digest


def check_adverts(roster: Roster, me: int, ctx: bytes, request: ShareRequest, own: bytes) -> None:
    """Raise unless U1 is large enough, holds this party's own keys unaltered, and every advert is by its party."""
    advertised = request.advertised.tolist()
    if len(advertised) < roster.t:
        missing = (roster.name(index) for index in range(roster.n) if index not in advertised)
        raise ThresholdNotMet(Stage.SHARE, len(advertised), roster.t, missing)
    if advertised[-1] >= roster.n:
        raise InconsistentView("U1 names a place that the roster does not have")
    if me not in advertised or request.keys[advertised.index(me)].tobytes() != own:
        raise InconsistentView("this party's own advert is missing from U1, or altered")
    seen: set[bytes] = set()
    for index, keys, signature in zip(advertised, request.keys, request.signatures, strict=True):
        name, content = roster.name(index), keys.tobytes()
        if not verify(roster.key(index), signature.tobytes(), ADVERT, *advert_parts(ctx, index, content)):
            raise BadSignature(name, "advert")
        for key in (content[:KEY_BYTES], content[KEY_BYTES : 2 * KEY_BYTES]):
            if key in seen:
                raise BadKey(name, "is used twice")
            seen.add(key)


def share_secrets(
    roster: Roster, me: int, ctx: bytes, memory: Memory, request: ShareRequest
) -> tuple[ShareReply, Memory]:
    """The sealed shares for each peer of U1, and what is kept: the private keys are not, only what they agreed.

    Raises
    ------
    BadKey : a key is of low order.
    """
    advertised = request.advertised.tolist()
    points = [point(index) for index in advertised]
    b_shares = split(secret(memory, "b"), roster.t, points)
    mask_shares = split(secret(memory, "mask"), roster.t, points)
    cipher, pair = Agreement(secret(memory, "cipher")), Agreement(secret(memory, "mask"))
    nonce = secrets.token_bytes(NONCE_BYTES)
    cipher_secrets, mask_secrets, sealed, own = [], [], [], b""
    for peer, keys, b_share, mask_share in zip(advertised, request.keys, b_shares, mask_shares, strict=True):
        if peer == me:
            own = share_bytes(b_share)
            continue
        content, name = keys.tobytes(), roster.name(peer)
        agreed = cipher.with_peer(content[:KEY_BYTES], name)
        plain = share_bytes(b_share) + share_bytes(mask_share)
        sealed.append(seal(sealing_key(agreed, ctx, me, peer), nonce, plain, ctx, me, peer))
        cipher_secrets.append(agreed)
        mask_secrets.append(pair.with_peer(content[KEY_BYTES : 2 * KEY_BYTES], name))
    kept: Memory = {
        "b": memory["b"],
        "u1": adverts_digest(ctx, request.advertised, request.keys, request.signatures),
        "advertised": request.advertised,
        "cipher_secrets": _rows(cipher_secrets),
        "mask_secrets": _rows(mask_secrets),
        "own_share": own,
    }
    return ShareReply(sid=request.sid, party=me, nonce=nonce, ciphertexts=_rows(sealed)), kept


def open_shares(
    roster: Roster, me: int, ctx: bytes, memory: Memory, request: MaskedRequest
) -> tuple[Memory, dict[int, bytes]]:
    """What is kept for the next stages, and the X25519 mask secret by peer in U2.

    Raises
    ------
    BadShare : a ciphertext does not open, or holds no share.
    """
    peers = [index for index in matrix(memory, "advertised").tolist() if index != me]
    cipher_secrets = dict(zip(peers, matrix(memory, "cipher_secrets"), strict=True))
    mask_secrets = dict(zip(peers, matrix(memory, "mask_secrets"), strict=True))
    b_shares = np.zeros((len(request.sharers), SHARE_BYTES), dtype=np.uint8)
    mask_shares = np.zeros_like(b_shares)
    pairs: dict[int, bytes] = {}
    sealed = zip(request.nonces, request.ciphertexts, strict=True)
    for at, peer in enumerate(request.sharers.tolist()):
        if peer == me:
            b_shares[at] = np.frombuffer(secret(memory, "own_share"), dtype=np.uint8)
            continue
        nonce, ciphertext = (part.tobytes() for part in next(sealed))
        key = sealing_key(cipher_secrets[peer].tobytes(), ctx, peer, me)
        plain = unseal(key, nonce, ciphertext, ctx, peer, me)
        if plain is None:
            raise BadShare(roster.name(peer), "its ciphertext does not open")
        if share_value(plain[:SHARE_BYTES]) is None or share_value(plain[SHARE_BYTES:]) is None:
            raise BadShare(roster.name(peer), "its ciphertext holds no share")
        content = np.frombuffer(plain, dtype=np.uint8)
        b_shares[at], mask_shares[at] = content[:SHARE_BYTES], content[SHARE_BYTES:]
        pairs[peer] = mask_secrets[peer].tobytes()
    kept: Memory = {
        "u1": memory["u1"],
        "u2": set_digest("U2", ctx, request.sharers),
        "sharers": request.sharers,
        "b_shares": b_shares,
        "mask_shares": mask_shares,
    }
    return kept, pairs


def _rows(contents: list[bytes]) -> np.ndarray:
    """Byte strings of one length -> uint8 (n, length)."""
    return np.frombuffer(b"".join(contents), dtype=np.uint8).reshape(len(contents), -1)
