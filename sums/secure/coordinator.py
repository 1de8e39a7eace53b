"""One session at the coordinator: requests out, replies in, stage by stage; no transport.

Whatever a party replies, it is left out by name at most, and described in the coordinator's own words; but false shares
end the session. A stage that too few have answered is not lost: it may be sent again, parties answer a repeated request
with the same bytes, and the same state gives the same requests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from consilium.protocol.errors import ConfigError
from consilium.protocol.identity import Identity, is_low_order
from consilium.protocol.messages import WireModel
from consilium.protocol.queries import query_set_hash
from consilium.sums.errors import BadShare, RosterMismatch, StageOrder, ThresholdNotMet
from consilium.sums.roster import Roster
from consilium.sums.secure import messages
from consilium.sums.secure.masks import (
    KEY_BYTES,
    RING_DTYPE,
    Masks,
    are_shares,
    clip,
    decode,
    list_key,
    rebuild,
    unseal,
)
from consilium.sums.secure.messages import COMMITMENT_BYTES, REPLIES, STAGES, MaskedTerms, SecAggMessage, Stage, rows_of

PoolProof = tuple[np.ndarray, np.ndarray]
"""Places in the pool, uint32 (queries,), and proof, uint8 (hashes, 32)."""
NO_POOL: PoolProof = (np.zeros(0, dtype=np.uint32), np.zeros((0, 32), dtype=np.uint8))


@dataclass(frozen=True)
class SecureSum:
    """The sum of the survivors' votes and of all their noise: int64 (queries, classes), never printed. clipped: bool
    (queries,), rows that honest votes do not give, brought into range (`masks.clip`). survivors: U3, by name. Who
    dropped after `masked` is counted all the same."""

    sums: np.ndarray = field(repr=False)
    clipped: np.ndarray = field(repr=False)
    survivors: tuple[str, ...]


@dataclass
class State:
    """What was accepted of each stage, by place in the roster. A set of a stage is closed when `stage` moves on: U1 are
    those of ADVERTISE, U2 of SHARE, U3 of MASKED. invited: who was asked at all, by name. charged_as: under which name
    the ledger has what parties charge. stage: the one that is due; None where the sum is there. held: replies; of those
    that are no longer needed only who sent them. total: of all y. lists: `ShareReply.seeds`. dropped: reason by
    party."""

    terms: MaskedTerms
    invited: tuple[str, ...]
    charged_as: str = ""
    stage: Stage | None = STAGES[0]
    held: dict[Stage, dict[int, Any]] = field(default_factory=lambda: {stage: {} for stage in STAGES}, repr=False)
    total: np.ndarray | None = field(default=None, repr=False)
    lists: dict[int, bytes] = field(default_factory=dict, repr=False)
    dropped: dict[Stage, dict[str, str]] = field(default_factory=lambda: {stage: {} for stage in STAGES})
    result: SecureSum | None = field(default=None, repr=False)

    def places(self, stage: Stage) -> np.ndarray:
        """Of those whose reply of a stage was accepted, rising, uint16."""
        return np.array(sorted(self.held[stage]), dtype=np.uint16)

    def all(self, stage: Stage, name: str) -> list[Any]:
        return [getattr(reply, name) for _, reply in sorted(self.held[stage].items())]

    @property
    def u1(self) -> dict[str, np.ndarray]:
        adverts, signatures = (rows_of(self.all(Stage.ADVERTISE, name)) for name in ("advert", "signature"))
        return {"advertised": self.places(Stage.ADVERTISE), "adverts": adverts, "signatures": signatures}

    @property
    def gone(self) -> list[int]:
        """U2 without U3."""
        return sorted({*self.held[Stage.SHARE]} - {*self.held[Stage.MASKED]})


class SecureSession:
    """The coordinator's state machine of one sum. signer: the coordinator's key. state: of a new session, or of one
    that goes on with the same sets. queries: canonical float32 (queries, features). Raises RosterMismatch, ConfigError
    where these do not belong together."""

    def __init__(
        self, roster: Roster, signer: Identity, state: State, queries: np.ndarray, proof: PoolProof = NO_POOL
    ) -> None:
        state.terms.check(roster)
        if signer.public != roster.coordinator_key:
            raise RosterMismatch("the roster lists the coordinator with another key than this one")
        if query_set_hash(queries) != state.terms.query_set:
            raise ConfigError("the queries are not those of the sum", "Pass the queries that it was made for")
        self.state, self.terms, self._roster, self._signer = state, state.terms, roster, signer
        self._queries, self._proof = queries, proof

    def requests(self) -> dict[str, SecAggMessage]:
        """Of the stage that is due, for each party that is in and has not answered. Raises StageOrder if none is."""
        state, stage, t, sid = self.state, self.due(), self._roster.t, self.terms.sid_bytes
        waiting = {self._roster.name(place): place for place in self._waiting()}
        if stage is Stage.MASKED:
            return {name: self._masked_request(place) for name, place in waiting.items()}
        if stage is Stage.ADVERTISE:
            terms = self.terms
            request: SecAggMessage = messages.AdvertiseRequest(
                terms=terms.canonical(), signature=terms.sign(self._signer)
            )
        elif stage is Stage.SHARE:
            u1: dict[str, Any] = state.u1
            request = messages.ShareRequest(sid=sid, **u1)
        elif stage is Stage.CONSISTENCY:
            request = messages.ConsistencyRequest(sid=sid, survivors=state.places(Stage.MASKED))
        else:
            signatures = rows_of(state.all(Stage.CONSISTENCY, "signature")[:t])
            request = messages.UnmaskRequest(
                sid=sid, signers=state.places(Stage.CONSISTENCY)[:t], signatures=signatures
            )
        return dict.fromkeys(waiting, request)

    def _masked_request(self, receiver: int) -> SecAggMessage:
        """With what each other one in U2 sealed for this one: a sender has no row for itself."""
        column = sorted(self.state.held[Stage.ADVERTISE]).index(receiver)
        dealt = [
            reply.ciphertexts[column - (sender < receiver)].tobytes()
            for sender, reply in sorted(self.state.held[Stage.SHARE].items())
            if sender != receiver
        ]
        return messages.MaskedRequest(
            sid=self.terms.sid_bytes,
            sharers=self.state.places(Stage.SHARE),
            ciphertexts=rows_of(dealt),
            queries=self._queries,
            places=self._proof[0],
            proof=self._proof[1],
        )

    def take(self, replies: Mapping[str, WireModel | str]) -> None:
        """Check the replies of the stage that is due, by party, or why there is none, and close it, if enough are in.
        Raises ThresholdNotMet: too few valid replies. Those that came are kept, and the stage can be sent again;
        BadShare: what was shared or listed is false; the session cannot come to its end."""
        stage, state = self.due(), self.state
        reasons, held, view = state.dropped[stage], state.held[stage], self._view()
        for index in self._waiting():
            name = self._roster.name(index)
            reply = replies.get(name, "no answer")
            fault = reply if isinstance(reply, str) else self._fault(stage, index, reply, view)
            if fault is None:
                held[index] = reply
                reasons.pop(name, None)
            else:
                reasons[name] = fault
        if stage is Stage.ADVERTISE:
            keys = {index: reply.advert[:KEY_BYTES] for index, reply in held.items()}
            times = Counter(keys.values())  # who copied from whom cannot be told
            for index in [index for index, key in sorted(keys.items()) if times[key] > 1]:
                del held[index]
                reasons[self._roster.name(index)] = "session key is used twice"
        need = self._roster.t if stage in (Stage.CONSISTENCY, Stage.UNMASK) else self._roster.least
        if len(held) < need:
            raise ThresholdNotMet(stage, len(held), need, reasons)
        if stage is Stage.MASKED:
            state.total = np.add.reduce([reply.y for reply in held.values()], axis=0, dtype=RING_DTYPE)
            state.lists = {index: reply.seeds for index, reply in state.held[Stage.SHARE].items()}
            for done in (Stage.SHARE, Stage.MASKED):
                state.held[done] = dict.fromkeys(state.held[done])
        elif stage is Stage.UNMASK:
            state.result = self._result()
            state.held[stage] = dict.fromkeys(held)
        following = STAGES.index(stage) + 1
        state.stage = STAGES[following] if following < len(STAGES) else None

    def due(self) -> Stage:
        """The stage that comes next. Raises StageOrder where the sum is there."""
        if self.state.stage is None:
            raise StageOrder("the sum is done")
        return self.state.stage

    def _waiting(self) -> list[int]:
        place, held = STAGES.index(self.due()), self.state.held
        before = held[STAGES[place - 1]] if place else map(self._roster.place, self.state.invited)
        return sorted({*before} - {*held[STAGES[place]]})

    def _view(self) -> tuple[bytes, bytes, bytes]:
        """Hashes of U1, U2 and U3 as they are now: what parties must sign, once each is closed."""
        state, ctx = self.state, self.terms.ctx
        if state.stage in (Stage.ADVERTISE, Stage.SHARE):
            return b"", b"", b""
        return (
            messages.adverts_digest(ctx, **state.u1),
            messages.set_digest("U2", ctx, state.places(Stage.SHARE)),
            messages.set_digest("U3", ctx, state.places(Stage.MASKED)),
        )

    def _fault(self, stage: Stage, index: int, reply: WireModel, view: tuple[bytes, bytes, bytes]) -> str | None:
        state, ctx = self.state, self.terms.ctx

        def signed(statement: bytes, signature: bytes) -> bool:
            key = self._roster.key(index)
            return messages.first_unsigned(stage, ctx, key, (index,), statement, signature) is None

        if not isinstance(reply, REPLIES[stage]):
            return "answers with a message of another stage"
        if reply.sid != self.terms.sid_bytes or reply.party != index:
            return "answers for another session or another party"
        if isinstance(reply, messages.AdvertiseReply):
            if not signed(reply.advert, reply.signature):
                return "signature on its advert does not verify under the key in the roster"
            if is_low_order(reply.advert[:KEY_BYTES]):
                return "session key is of low order"
        elif isinstance(reply, messages.ShareReply):
            peers = len(state.held[Stage.ADVERTISE]) - 1
            if len(reply.ciphertexts) != peers:
                return f"sends {len(reply.ciphertexts)} ciphertexts, {peers} are needed"
            if len(reply.seeds) != messages.list_bytes(peers):
                return "its list is not of the seeds of its pairs"
        elif isinstance(reply, messages.MaskedReply):
            if reply.y.shape != self.terms.shape:
                return f"masked votes are {reply.y.shape}, must be {self.terms.shape}"
            if not signed(messages.masked_statement(*view[:2], reply.y), reply.signature):
                return "signature on its masked votes does not verify"
        elif isinstance(reply, messages.ConsistencyReply):
            if not signed(b"".join(view), reply.signature):
                return "signature on the set of survivors does not verify"
        elif isinstance(reply, messages.UnmaskReply):
            given, needed = (len(reply.shares), len(reply.seeds)), (len(state.held[Stage.SHARE]), len(state.gone))
            if given != needed:
                return "gives {} shares and {} seeds, {} and {} are needed".format(*given, *needed)
            if not are_shares(reply.shares):
                return "gives a share that is out of range"
        return None

    def _result(self) -> SecureSum:
        """Masks come off: all secrets are rebuilt and held against what their owners are committed to before the first
        does (Bonawitz et al. 2017, figure 4, round 4)."""
        terms, secrets, survivors = self.terms, self._rebuilt(), sorted(self.state.held[Stage.MASKED])
        seeds = {gone: self._seeds_of(gone, secrets[gone]) for gone in self.state.gone}
        total = np.array(self.state.total)
        masks = Masks(total, terms.ctx)
        for index in survivors:
            masks.subtract(secrets[index])
            for gone, of_peers in seeds.items():
                masks.add_pair(of_peers[index], gone, index)  # what it would have added cancels what the other did
        sums, clipped = clip(decode(total), terms.teachers * len(survivors), terms.deviation(len(survivors)))
        return SecureSum(sums, clipped, tuple(map(self._roster.name, survivors)))

    def _rebuilt(self) -> dict[int, bytes]:
        """b of each party of U3, K of each of U2 without U3. Raises BadShare."""
        state, t = self.state, self._roster.t
        shares = np.stack(state.all(Stage.UNMASK, "shares")[:t])
        rebuilt = rebuild(state.places(Stage.UNMASK)[:t].tolist(), shares)
        owners = sorted(state.held[Stage.SHARE])
        secrets = {owner: secret.tobytes() for owner, secret in zip(owners, rebuilt, strict=True)}
        for owner, secret in secrets.items():
            kind, start = ("b", KEY_BYTES) if owner in state.held[Stage.MASKED] else ("K", KEY_BYTES + COMMITMENT_BYTES)
            promised = state.held[Stage.ADVERTISE][owner].advert[start:][:COMMITMENT_BYTES]
            if messages.commitment(self.terms.ctx, owner, secret, kind) != promised:
                fault = "its shares do not give what it is committed to: it, or one of them, lies"
                raise BadShare(self._roster.name(owner), fault)
        return secrets

    def _seeds_of(self, gone: int, k: bytes) -> dict[int, bytes]:
        """By peer in U1, from the list of one that is lost. Raises BadShare where it does not open, or where a survivor
        says otherwise: one of the two lied."""
        state, ctx, name = self.state, self.terms.ctx, self._roster.name(gone)
        content = unseal(list_key(k, ctx, gone), state.lists[gone], self._view()[0])
        if content is None:
            raise BadShare(name, "its list of mask seeds does not open", [name])
        peers, row = sorted({*state.held[Stage.ADVERTISE]} - {gone}), state.gone.index(gone)
        seeds = {peer: content[at * KEY_BYTES :][:KEY_BYTES] for at, peer in enumerate(peers)}
        for holder, reply in sorted(state.held[Stage.UNMASK].items()):
            if reply.seeds[row].tobytes() != seeds[holder]:
                other = self._roster.name(holder)
                raise BadShare(name, f"its list and {other} give other seeds of their mask: one lies", [name, other])
        return seeds


Send = Callable[[Stage, Mapping[str, SecAggMessage]], Mapping[str, WireModel | str]]
"""Stage and request by party -> reply, or reason of failure, by party. It parses replies as `REPLIES[stage]`."""


def drive(
    session: SecureSession,
    send: Send,
    save: Callable[[State], object] = lambda state: None,
    progress: Callable[[Stage], object] = lambda stage: None,
) -> SecureSum:
    """Play the stages that are left. Raises as `SecureSession.take`. save: called before requests leave and after
    replies are in, so that the session can go on after a crash. progress: told of each stage when it is closed."""
    state = session.state
    save(state)
    while (result := state.result) is None:
        stage = session.due()
        replies = send(stage, session.requests())
        try:
            session.take(replies)
        finally:
            save(state)
        progress(stage)
    return result
