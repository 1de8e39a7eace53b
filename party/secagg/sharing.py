"""Shares of a party's secrets, sealed for its peers, and its peers' shares, opened.

b and the private mask key are shared t-out-of-|U1|; later one of the two is given for each peer, never both
(Bonawitz et al. 2017, figure 4, rounds 1 and 2). A third secret, z, blinds the proof that the shares are good
(`protocol.secagg.commitments`). Ciphertexts are opened and checked with the masked votes, before anything is unmasked:
who shared falsely is named to the coordinator.
"""

from __future__ import annotations

import secrets

import numpy as np

from consilium.party.secagg.memory import Memory, matrix, secret
from consilium.protocol.secagg.agreement import NONCE_BYTES, Agreement, seal, sealing_key, unseal
from consilium.protocol.secagg.commitments import blend, mask_secret
from consilium.protocol.secagg.curve import is_proper, montgomery
from consilium.protocol.secagg.errors import BadKey, BadSignature, InconsistentView, ThresholdNotMet
from consilium.protocol.secagg.identity import verify
from consilium.protocol.secagg.messages import KEY_BYTES, MaskedRequest, ShareReply, ShareRequest
from consilium.protocol.secagg.roster import Roster
from consilium.protocol.secagg.shamir import SHARE_BYTES, point, share_bytes, share_value, split
from consilium.protocol.secagg.stages import Stage
from consilium.protocol.secagg.statements import ADVERT, advert_parts, adverts_digest, challenge, set_digest


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
        if not is_proper(content[KEY_BYTES : 2 * KEY_BYTES]):
            raise BadKey(name, "is of low order, or not in canonical form")
        for key in (content[:KEY_BYTES], _mask_key(content)):
            if key in seen:
                raise BadKey(name, "is used twice")
            seen.add(key)


def share_secrets(
    roster: Roster, me: int, ctx: bytes, memory: Memory, request: ShareRequest
) -> tuple[ShareReply, Memory]:
    """The sealed shares for each peer of U1 with their proof, and what is kept: not the private keys, only what they
    agreed.

    Raises
    ------
    BadKey : a key is of low order.
    """
    advertised = request.advertised.tolist()
    points = [point(index) for index in advertised]
    b, z = (int.from_bytes(secret(memory, name), "little") for name in ("b", "z"))
    shares = list(
        zip(*(split(shared, roster.t, points) for shared in (b, mask_secret(secret(memory, "mask")), z)), strict=True)
    )
    cipher, pair = Agreement(secret(memory, "cipher")), Agreement(secret(memory, "mask"))
    nonce = secrets.token_bytes(NONCE_BYTES)
    cipher_secrets, mask_secrets, sealed, own = [], [], [], b""
    for peer, keys, dealt in zip(advertised, request.keys, shares, strict=True):
        plain = b"".join(map(share_bytes, dealt))
        if peer == me:
            own = plain[:SHARE_BYTES]
            continue
        content, name = keys.tobytes(), roster.name(peer)
        agreed = cipher.with_peer(content[:KEY_BYTES], name)
        sealed.append(seal(sealing_key(agreed, ctx, me, peer), nonce, plain, ctx, me, peer))
        cipher_secrets.append(agreed)
        mask_secrets.append(pair.with_peer(_mask_key(content), name))
    u1 = adverts_digest(ctx, request.advertised, request.keys, request.signatures)
    ciphertexts = _rows(sealed)
    r = challenge(ctx, me, u1, nonce, ciphertexts)
    values = _rows([share_bytes(blend(r, z_share, b_share, mask_share)) for b_share, mask_share, z_share in shares])
    kept: Memory = {
        "b": memory["b"],
        "u1": u1,
        "advertised": request.advertised,
        "cipher_secrets": _rows(cipher_secrets),
        "mask_secrets": _rows(mask_secrets),
        "own_share": own,
    }
    return ShareReply(sid=request.sid, party=me, nonce=nonce, ciphertexts=ciphertexts, values=values), kept


def open_shares(
    roster: Roster, me: int, ctx: bytes, memory: Memory, request: MaskedRequest
) -> tuple[Memory, dict[int, bytes], np.ndarray]:
    """What is kept for the next stages, the X25519 mask secret by peer in U2, and the places of the peers whose shares
    are not good, uint16: their ciphertext does not open, or what it holds does not give their value.
    """
    peers = [index for index in matrix(memory, "advertised").tolist() if index != me]
    cipher_secrets = dict(zip(peers, matrix(memory, "cipher_secrets"), strict=True))
    mask_secrets = dict(zip(peers, matrix(memory, "mask_secrets"), strict=True))
    b_shares = np.zeros((len(request.sharers), SHARE_BYTES), dtype=np.uint8)
    mask_shares = np.zeros_like(b_shares)
    pairs: dict[int, bytes] = {}
    complaints: list[int] = []
    sealed = zip(request.nonces, request.ciphertexts, request.challenges, request.values, strict=True)
    for at, peer in enumerate(request.sharers.tolist()):
        if peer == me:
            b_shares[at] = np.frombuffer(secret(memory, "own_share"), dtype=np.uint8)
            continue
        pairs[peer] = mask_secrets[peer].tobytes()
        nonce, ciphertext, r, value = (part.tobytes() for part in next(sealed))
        key = sealing_key(cipher_secrets[peer].tobytes(), ctx, peer, me)
        plain = unseal(key, nonce, ciphertext, ctx, peer, me)
        if plain is None or not _is_good(plain, r, value):
            complaints.append(peer)
            continue
        b_shares[at], mask_shares[at], _ = np.frombuffer(plain, dtype=np.uint8).reshape(3, SHARE_BYTES)
    kept: Memory = {
        "u1": memory["u1"],
        "u2": set_digest("U2", ctx, request.sharers),
        "sharers": request.sharers,
        "b_shares": b_shares,
        "mask_shares": mask_shares,
    }
    return kept, pairs, np.array(complaints, dtype=np.uint16)


def _is_good(plain: bytes, r: bytes, value: bytes) -> bool:
    """Whether the three shares give the dealer's value."""
    content = plain + r
    b, k, z, factor = (share_value(content[at : at + SHARE_BYTES]) for at in range(0, len(content), SHARE_BYTES))
    if b is None or k is None or z is None or factor is None:
        return False
    return share_bytes(blend(factor, z, b, k)) == value


def _mask_key(keys: bytes) -> bytes:
    """The X25519 key of an advert's mask point."""
    return montgomery(keys[KEY_BYTES : 2 * KEY_BYTES])


def _rows(contents: list[bytes]) -> np.ndarray:
    """Byte strings of one length -> uint8 (n, length)."""
    return np.frombuffer(b"".join(contents), dtype=np.uint8).reshape(len(contents), -1)
