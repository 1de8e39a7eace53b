"""A party's side: its votes become one message, and nothing has to be kept or answered afterwards."""

from __future__ import annotations

import secrets
from collections.abc import Callable

import numpy as np

from consilium.protocol.secagg.errors import RosterMismatch
from consilium.protocol.secagg.identity import Identity
from consilium.protocol.verified.binder import (
    BLIND_BYTES,
    SEED_BYTES,
    challenge_of,
    commit_helper,
    commit_leader,
    commit_proof,
    expand_seed,
)
from consilium.protocol.verified.errors import NotVotes
from consilium.protocol.verified.extension import DEGREE
from consilium.protocol.verified.field import PRIME, from_wire, reduce, to_wire
from consilium.protocol.verified.proof import Prover, proof_elements
from consilium.protocol.verified.roster import VerifiedRoster
from consilium.protocol.verified.sealing import SignedKey
from consilium.protocol.verified.session import VerifiedSession
from consilium.protocol.verified.streams import KEY_BYTES, elements
from consilium.protocol.verified.uploads import HelperPart, Upload


class VoteClient:
    """One party in one session.

    Parameters
    ----------
    session : terms that the party has accepted (`session.open_session`).
    roster : the party's own copy.
    name, identity : of the party.
    helper_key : the second aggregator's key for this party in this session, with its signature.
    entropy : so many random bytes; the operating system's but in tests.
    prover : one that several parties of one process use in turn.

    Raises
    ------
    RosterMismatch : the party is not in the roster with this key, or the session is of another roster.
    BadSignature : the second aggregator has not signed that key for this party and session.
    """

    def __init__(
        self,
        session: VerifiedSession,
        roster: VerifiedRoster,
        name: str,
        identity: Identity,
        helper_key: SignedKey,
        entropy: Callable[[int], bytes] = secrets.token_bytes,
        prover: Prover | None = None,
    ) -> None:
        session.check(roster)
        self._place = roster.place(name)
        if roster.key(self._place) != identity.public:
            raise RosterMismatch(f"the roster has another key for {name} than this node")
        helper_key.check(session.ctx, self._place, bytes.fromhex(roster.helper.ed25519_pk))
        self._session, self._roster, self._identity, self._entropy = session, roster, identity, entropy
        self._helper_key = helper_key.public
        self._prove = prover or Prover(session.grid)

    def upload(self, votes: np.ndarray) -> bytes:
        """What the leader is sent. Call it once in a session and keep the bytes: a second upload is refused.

        votes: integers (queries, classes), as many in each row as the party has teachers.

        Raises
        ------
        NotVotes : they are none.
        """
        grid = self._session.grid
        _check(votes, (grid.queries, grid.classes), grid.teachers)
        return self._upload(grid.picks(votes))

    def _upload(self, picks: np.ndarray) -> bytes:
        grid, ctx, place = self._session.grid, self._session.ctx, self._place
        seed, blind = self._entropy(SEED_BYTES), self._entropy(BLIND_BYTES)
        share = PRIME - expand_seed(ctx, place, seed, "votes", grid.cells)
        where = np.arange(0, grid.cells, grid.classes) + picks
        share[share == PRIME] = 0
        share[where] += 1
        share[share == PRIME] = 0
        to_leader, to_helper = commit_leader(ctx, place, blind, share.tobytes()), commit_helper(ctx, place, seed)
        challenge = challenge_of(grid, ctx, place, to_leader, to_helper)
        starts = reduce(from_wire(elements(self._entropy(KEY_BYTES), grid.lines * DEGREE))).reshape(-1, DEGREE)
        values = self._prove(picks, challenge, starts)
        given = expand_seed(ctx, place, seed, "proof", proof_elements(grid))
        proof = to_wire(np.concatenate((starts, values)).ravel() - given)
        commitments = to_leader, to_helper, commit_proof(ctx, place, blind, proof.tobytes())
        part = HelperPart.make(ctx, place, commitments, seed, self._helper_key, self._identity, self._entropy)
        return Upload(part, blind, proof, share).write()


def _check(votes: np.ndarray, shape: tuple[int, int], teachers: int) -> None:
    if votes.shape != shape or votes.dtype.kind not in "iu":
        raise NotVotes(f"must be integers {shape}")
    if (votes < 0).any() or (votes > teachers).any() or (votes.sum(axis=1) != teachers).any():
        raise NotVotes(f"must be {teachers} for each query")
