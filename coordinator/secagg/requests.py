"""The requests of each stage, from what was accepted so far: the same state always gives the same requests."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from consilium.coordinator.secagg.state import SessionState
from consilium.protocol.secagg.identity import Identity
from consilium.protocol.secagg.messages import (
    KEYS_BYTES,
    AdvertiseRequest,
    ConsistencyRequest,
    MaskedRequest,
    SecAggMessage,
    ShareRequest,
    UnmaskRequest,
)
from consilium.protocol.secagg.session import SessionDescriptor
from consilium.protocol.secagg.shamir import share_bytes
from consilium.protocol.secagg.stages import Stage
from consilium.protocol.secagg.statements import adverts_digest, challenge, set_digest

PoolProof = tuple[np.ndarray, np.ndarray]
"""Places in the pool, uint32 (queries,), and proof, uint8 (hashes, 32)."""
NO_POOL: PoolProof = (np.zeros(0, dtype=np.uint32), np.zeros((0, 32), dtype=np.uint8))


@dataclass(frozen=True)
class Question:
    """Canonical queries, float32 (queries, features), and that they are rows of the pool."""

    queries: np.ndarray = field(repr=False)
    places: np.ndarray = field(repr=False)
    proof: np.ndarray = field(repr=False)


@dataclass(frozen=True)
class View:
    """Hashes of U1, U2 and U3 as they are now."""

    u1: bytes
    u2: bytes
    u3: bytes


def view(state: SessionState) -> View:
    """What parties must sign, once U1 is closed."""
    ctx = state.terms.ctx()
    return View(
        adverts_digest(ctx, *_adverts(state)),
        set_digest("U2", ctx, _places(state.nonces)),
        set_digest("U3", ctx, _places(state.evidence)),
    )


def challenges(state: SessionState, u1: bytes) -> dict[int, int]:
    """r by dealer, of all whose sealed shares are there."""
    ctx = state.terms.ctx()
    return {
        index: challenge(ctx, index, u1, nonce.tobytes(), state.ciphertexts[index])
        for index, nonce in state.nonces.items()
    }


def of_stage(
    stage: Stage, state: SessionState, signer: Identity, question: Question, t: int, receivers: list[int]
) -> dict[int, SecAggMessage]:
    """Request by place in the roster, for each receiver."""
    match stage:
        case Stage.MASKED:
            return _masked(state, question, receivers)
        case Stage.ADVERTISE:
            request: SecAggMessage = _advertise(state.terms, signer)
        case Stage.SHARE:
            advertised, keys, signatures = _adverts(state)
            request = ShareRequest(sid=state.terms.sid_bytes(), advertised=advertised, keys=keys, signatures=signatures)
        case Stage.CONSISTENCY:
            request = ConsistencyRequest(sid=state.terms.sid_bytes(), survivors=_places(state.evidence))
        case Stage.UNMASK:
            request = _unmask(state, t)
    return dict.fromkeys(receivers, request)


def _advertise(terms: SessionDescriptor, signer: Identity) -> AdvertiseRequest:
    return AdvertiseRequest(descriptor=terms.canonical(), signature=terms.sign(signer))


def _adverts(state: SessionState) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """U1, keys and signatures."""
    advertised = _places(state.adverts)
    rows = np.stack([state.adverts[index] for index in advertised.tolist()])
    return advertised, rows[:, :KEYS_BYTES], rows[:, KEYS_BYTES:]


def _masked(state: SessionState, question: Question, receivers: list[int]) -> dict[int, SecAggMessage]:
    """Each receiver gets its own column of ciphertexts only."""
    advertised, sharers = _places(state.adverts), _places(state.nonces)
    nonces = np.stack([state.nonces[index] for index in sharers.tolist()])
    ciphertexts = np.stack([state.ciphertexts[index] for index in sharers.tolist()])
    values = np.stack([state.values[index] for index in sharers.tolist()])
    drawn = challenges(state, adverts_digest(state.terms.ctx(), *_adverts(state)))
    factors = np.array([list(share_bytes(drawn[index])) for index in sharers.tolist()], dtype=np.uint8)
    at_sender = np.searchsorted(advertised, sharers)
    made: dict[int, SecAggMessage] = {}
    for index in receivers:
        others = sharers != index
        at = int(np.searchsorted(advertised, index))
        row = at - (at > at_sender[others])  # a sender has no row for itself
        made[index] = MaskedRequest(
            sid=state.terms.sid_bytes(),
            sharers=sharers,
            nonces=nonces[others],
            ciphertexts=ciphertexts[np.flatnonzero(others), row],
            challenges=factors[others],
            values=values[others, at],
            queries=question.queries,
            places=question.places,
            proof=question.proof,
        )
    return made


def _unmask(state: SessionState, t: int) -> UnmaskRequest:
    survivors = _places(state.evidence)
    signers = sorted(state.views)[:t]
    return UnmaskRequest(
        sid=state.terms.sid_bytes(),
        survivors=survivors,
        dropped=np.setdiff1d(_places(state.nonces), survivors),
        signers=np.array(signers, dtype=np.uint16),
        signatures=np.stack([state.views[index] for index in signers]),
    )


def _places(held: dict[int, np.ndarray]) -> np.ndarray:
    return np.array(sorted(held), dtype=np.uint16)
