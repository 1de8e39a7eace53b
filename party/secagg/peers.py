"""Checks of what the coordinator says about other parties: against the terms, the roster and what it said before."""

from __future__ import annotations

import numpy as np

from consilium.party.secagg.memory import Memory, matrix, secret
from consilium.protocol.rows.queries import canonical_queries, query_set_hash
from consilium.protocol.secagg.errors import BadSignature, InconsistentView, ThresholdNotMet
from consilium.protocol.secagg.identity import verify
from consilium.protocol.secagg.messages import MaskedRequest, UnmaskRequest
from consilium.protocol.secagg.roster import Roster
from consilium.protocol.secagg.session import SessionDescriptor
from consilium.protocol.secagg.stages import Stage
from consilium.protocol.secagg.statements import CONSISTENCY, consistency_parts


def checked_queries(request: MaskedRequest, terms: SessionDescriptor) -> np.ndarray:
    """The canonical queries, float32 (queries, features). Raises InconsistentView if they are not those of QH."""
    queries = canonical_queries(request.queries, request.queries.shape[1])
    if len(queries) != terms.queries or query_set_hash(queries) != terms.query_set:
        raise InconsistentView("the queries are not those of the session's terms")
    return queries


def check_subset(roster: Roster, me: int, small: str, inner: np.ndarray, large: str, outer: np.ndarray) -> None:
    """Raise InconsistentView unless `inner` is within `outer`, holds this party, and has at least u_min parties, two
    of them honest."""
    if not np.isin(inner, outer).all():
        raise InconsistentView(f"{small} names parties that are not in {large}")
    if me not in inner:
        raise InconsistentView(f"{small} lacks the party that is asked")
    if len(inner) < roster.u_min:
        raise InconsistentView(f"{small} has {len(inner)} parties, u_min is {roster.u_min}")
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
        if not verify(roster.key(index), signature.tobytes(), CONSISTENCY, *parts):
            raise BadSignature(roster.name(index), "view of the survivors")
