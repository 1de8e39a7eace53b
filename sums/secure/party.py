"""A party's computations in a session, without its disk: shares dealt and opened, what the coordinator says of others
checked, votes and noise under the masks.

b and the seed of the private mask key are shared t-out-of-|U1|; later one of the two is given for each peer, never both
(Bonawitz et al. 2017, figure 4, rounds 1 and 2). Ciphertexts are opened with the masked votes, before anything is
unmasked: a party whose peer's does not open gives nothing and names it. Whether what is in them are shares of what the
peer is committed to shows only when it is rebuilt. y = votes + noise share + PRG(b) + sum over peers of +-PRG(pair), in
the ring (figure 4, round 2)."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

import numpy as np

from consilium.protocol.identity import verify
from consilium.protocol.messages import VOTE_DTYPE
from consilium.protocol.queries import canonical_queries, query_set_hash
from consilium.protocol.refusals import Refused, Rule
from consilium.sums.agreement import Agreement, seal, unseal
from consilium.sums.errors import BadKey, BadShare, BadSignature, InconsistentView, ThresholdNotMet
from consilium.sums.packing import Value
from consilium.sums.roster import Roster
from consilium.sums.secure.messages import (
    ADVERT,
    CONSISTENCY,
    KEY_BYTES,
    MaskedRequest,
    ShareReply,
    ShareRequest,
    Stage,
    UnmaskRequest,
    advert_parts,
    adverts_digest,
    consistency_parts,
    set_digest,
)
from consilium.sums.secure.ring import MaskAdder, encode, pair_key, self_key
from consilium.sums.secure.shares import SHARE_BYTES, are_shares, mask_private, split
from consilium.sums.secure.terms import MaskedTerms

Memory = dict[str, Value]
verified = lru_cache(maxsize=8192)(verify)
"""The same signatures are shown to all parties: in a process that simulates many, each is checked once."""
T = TypeVar("T", bytes, np.ndarray)


def secret(memory: Memory, name: str) -> bytes:
    """A value of bytes: a key, a share, b, or a hash."""
    return _of(memory, name, bytes)


def matrix(memory: Memory, name: str) -> np.ndarray:
    """A value of numbers: places in the roster, or a row of bytes per peer."""
    return _of(memory, name, np.ndarray)


def _of(memory: Memory, name: str, kind: type[T]) -> T:
    value = memory[name]
    if not isinstance(value, kind):
        raise TypeError(f"{name} in a session's memory is {type(value).__name__}")
    return value


def checked_queries(request: MaskedRequest, terms: MaskedTerms) -> np.ndarray:
    """The canonical queries, float32 (queries, features). Raises InconsistentView if they are not those of QH."""
    queries = canonical_queries(request.queries, request.queries.shape[1])
    if len(queries) != terms.queries or query_set_hash(queries) != terms.query_set:
        raise InconsistentView("the queries are not those of the session's terms")
    return queries


def check_subset(roster: Roster, me: int, small: str, inner: np.ndarray, large: str, outer: np.ndarray) -> None:
    """Raise InconsistentView unless `inner` is within `outer`, holds this party, and has enough parties, two
    of them honest."""
    if not np.isin(inner, outer).all():
        raise InconsistentView(f"{small} names parties that are not in {large}")
    if me not in inner:
        raise InconsistentView(f"{small} lacks the party that is asked")
    if len(inner) < roster.least:
        raise InconsistentView(f"{small} has {len(inner)} parties, {roster.least} are needed")
    if len(inner) - roster.c < 2:
        raise InconsistentView(f"{small} has {len(inner)} parties, two more than c = {roster.c} are needed")


def check_wanted(memory: Memory, request: UnmaskRequest) -> None:
    """Raise InconsistentView unless shares are asked for exactly U3 (b) and U2 without U3 (mask key): one kind each."""
    sharers, survivors = matrix(memory, "sharers"), matrix(memory, "survivors")
    gone = np.setdiff1d(sharers, survivors, assume_unique=True)
    if not (np.array_equal(request.survivors, survivors) and np.array_equal(request.dropped, gone)):
        raise InconsistentView("shares are asked for other sets than this party signed")


def check_signatures(roster: Roster, ctx: bytes, memory: Memory, request: UnmaskRequest) -> None:
    """Raise unless at least t survivors signed this party's own U1, U2 and U3."""
    signers, survivors = request.signers.tolist(), matrix(memory, "survivors").tolist()
    if not set(signers) <= set(survivors):
        raise InconsistentView("a signer is not among the survivors")
    if len(signers) < roster.t:
        missing = (roster.name(index) for index in survivors if index not in signers)
        raise ThresholdNotMet(Stage.UNMASK, len(signers), roster.t, missing)
    hashes = secret(memory, "u1"), secret(memory, "u2"), secret(memory, "u3")
    for index, signature in zip(signers, request.signatures, strict=True):
        parts = consistency_parts(ctx, index, *hashes)
        if not verified(roster.key(index), signature.tobytes(), CONSISTENCY, *parts):
            raise BadSignature(roster.name(index), "view of the survivors")


def check_adverts(roster: Roster, me: int, ctx: bytes, request: ShareRequest, keys_sent: bytes) -> None:
    """Raise unless U1 is large enough, holds this party's own keys unaltered, and every advert is by its party."""
    advertised = request.advertised.tolist()
    if len(advertised) < roster.t:
        missing = (roster.name(index) for index in range(roster.n) if index not in advertised)
        raise ThresholdNotMet(Stage.SHARE, len(advertised), roster.t, missing)
    if advertised[-1] >= roster.n:
        raise InconsistentView("U1 names a place that the roster does not have")
    if me not in advertised or request.keys[advertised.index(me)].tobytes() != keys_sent:
        raise InconsistentView("this party's own advert is missing from U1, or altered")
    seen: set[bytes] = set()
    for index, keys, signature in zip(advertised, request.keys, request.signatures, strict=True):
        name, content = roster.name(index), keys.tobytes()
        if not verified(roster.key(index), signature.tobytes(), ADVERT, *advert_parts(ctx, index, content)):
            raise BadSignature(name, "advert")
        for key in (content[:KEY_BYTES], content[KEY_BYTES : 2 * KEY_BYTES]):
            if key in seen:
                raise BadKey(name, "is used twice")
            seen.add(key)


def share_secrets(
    roster: Roster, me: int, ctx: bytes, memory: Memory, request: ShareRequest
) -> tuple[ShareReply, Memory]:
    """The sealed shares for each peer of U1, and the memory after: no private keys, only what they agreed.

    Raises
    ------
    BadKey : a key is of low order.
    """
    advertised = request.advertised.tolist()
    seeds = secret(memory, "b"), secret(memory, "mask_seed")
    cipher, pair = Agreement(secret(memory, "cipher")), Agreement(mask_private(seeds[1]))
    cipher_secrets, mask_secrets, sealed, own_share = [], [], [], b""
    for peer, keys, dealt in zip(advertised, request.keys, split(seeds, roster.t, advertised), strict=True):
        if peer == me:
            own_share = dealt[0].tobytes()
            continue
        content, name = keys.tobytes(), roster.name(peer)
        agreed = cipher.with_peer(content[:KEY_BYTES], name)
        sealed.append(seal(agreed, dealt.tobytes(), ctx, me, peer))
        cipher_secrets.append(agreed)
        mask_secrets.append(pair.with_peer(content[KEY_BYTES : 2 * KEY_BYTES], name))
    memory_after: Memory = {
        "b": memory["b"],
        "u1": adverts_digest(ctx, request.advertised, request.keys, request.signatures),
        "advertised": request.advertised,
        "cipher_secrets": _rows(cipher_secrets),
        "mask_secrets": _rows(mask_secrets),
        "own_share": own_share,
    }
    return ShareReply(sid=request.sid, party=me, ciphertexts=_rows(sealed)), memory_after


def open_shares(
    roster: Roster, me: int, ctx: bytes, memory: Memory, request: MaskedRequest
) -> tuple[Memory, dict[int, bytes]]:
    """What is kept for the next stages, and the X25519 mask secret by peer in U2.

    Raises
    ------
    BadShare : a peer's ciphertext does not open, or holds no shares.
    """
    peers = [index for index in matrix(memory, "advertised").tolist() if index != me]
    cipher_secrets = dict(zip(peers, matrix(memory, "cipher_secrets"), strict=True))
    mask_secrets = dict(zip(peers, matrix(memory, "mask_secrets"), strict=True))
    shares = np.zeros((len(request.sharers), 2, SHARE_BYTES), dtype=np.uint8)
    pairs: dict[int, bytes] = {}
    sealed = iter(request.ciphertexts)
    for row, peer in enumerate(request.sharers.tolist()):
        if peer == me:
            shares[row, 0] = np.frombuffer(secret(memory, "own_share"), dtype=np.uint8)
            continue
        pairs[peer] = mask_secrets[peer].tobytes()
        plain = unseal(cipher_secrets[peer].tobytes(), next(sealed).tobytes(), ctx, peer, me)
        if plain is None:
            raise BadShare(roster.name(peer), "what it sealed does not open")
        shares[row] = np.frombuffer(plain, dtype=np.uint8).reshape(2, SHARE_BYTES)
        if not are_shares(shares[row]):
            raise BadShare(roster.name(peer), "what it sealed are no shares")
    memory_after: Memory = {
        "u1": memory["u1"],
        "u2": set_digest("U2", ctx, request.sharers),
        "sharers": request.sharers,
        "b_shares": shares[:, 0],
        "mask_shares": shares[:, 1],
    }
    return memory_after, pairs


def _rows(contents: list[bytes]) -> np.ndarray:
    """Byte strings of one length -> uint8 (n, length)."""
    return np.frombuffer(b"".join(contents), dtype=np.uint8).reshape(len(contents), -1)


VotesOn = Callable[[np.ndarray], np.ndarray]
"""Canonical queries, float32 (queries, features) -> votes, uint16 (queries, classes). Charges the party's budget."""

NoiseOf = Callable[[float, tuple[int, int]], np.ndarray]
"""Standard deviation and shape -> discrete Gaussian noise, int64, from the system's entropy."""


def checked_votes(votes: np.ndarray, terms: MaskedTerms) -> np.ndarray:
    """The votes as int64 (queries, classes).

    Raises
    ------
    Refused : they are not uint16 of the session's shape with `teachers` in each row; the fault is the party's own.
    """
    if votes.dtype != VOTE_DTYPE or votes.shape != terms.shape:
        raise Refused(Rule.INTERNAL, detail=f"teachers gave {votes.dtype} {votes.shape}, not uint16 {terms.shape}")
    wide = votes.astype(np.int64)
    if (wide.sum(axis=1) != terms.teachers).any():
        raise Refused(Rule.INTERNAL, detail="votes of a query do not sum to teachers")
    return wide


def noise_share(noise: NoiseOf, terms: MaskedTerms) -> np.ndarray:
    """This party's share of the noise, int64 (queries, classes). Raises Refused where the sampler gives another."""
    share = noise(terms.sigma_share, terms.shape)
    if share.dtype != np.int64 or share.shape != terms.shape:
        raise Refused(Rule.INTERNAL, detail=f"noise is {share.dtype} {share.shape}, not int64 {terms.shape}")
    return share


def mask(values: np.ndarray, terms: MaskedTerms, party: int, b: bytes, secrets: dict[int, bytes]) -> np.ndarray:
    """y in the ring, uint16 or uint32 (queries, classes).

    Parameters
    ----------
    values : int64 (queries, classes), votes and noise.
    party : own place in the roster.
    b : secret of the own mask.
    secrets : X25519 secret by peer, for each of U2 but oneself.
    """
    ctx = terms.ctx
    y = encode(values, terms.ring)
    adder = MaskAdder(terms.shape, terms.ring)
    adder.add(y, self_key(b, ctx, party))
    for peer, secret in secrets.items():
        adder.add_pair(y, pair_key(secret, ctx, party, peer), party, peer)
    return y
