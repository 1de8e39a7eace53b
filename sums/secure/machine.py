"""One session at the coordinator: requests out, replies in, stage by stage; no transport.

Whatever a party replies, it is left out by name at most, and described in the coordinator's own words; but false shares
end the session. A stage that too few have answered is not lost: it may be sent again, parties answer a repeated request
with the same bytes, and the same state gives the same requests."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import numpy as np

from consilium.protocol.errors import ConfigError, MalformedMessage
from consilium.protocol.files import replacing
from consilium.protocol.identity import Identity
from consilium.protocol.messages import WireModel
from consilium.protocol.queries import query_set_hash
from consilium.sums.agreement import check_order
from consilium.sums.errors import BadKey, RosterMismatch, StageOrder, ThresholdNotMet
from consilium.sums.packing import Value, pack, unpack
from consilium.sums.roster import Roster
from consilium.sums.secure.messages import (
    ADVERT,
    CONSISTENCY,
    KEY_BYTES,
    KEYS_BYTES,
    MASKED,
    REPLIES,
    STAGES,
    AdvertiseReply,
    AdvertiseRequest,
    ConsistencyReply,
    ConsistencyRequest,
    MaskedReply,
    MaskedRequest,
    SecAggMessage,
    SessionMessage,
    ShareReply,
    ShareRequest,
    Stage,
    UnmaskReply,
    UnmaskRequest,
    advert_parts,
    adverts_digest,
    consistency_parts,
    masked_parts,
    set_digest,
)
from consilium.sums.secure.party import verified
from consilium.sums.secure.ring import RING_DTYPES, sigma_total
from consilium.sums.secure.shares import are_shares
from consilium.sums.secure.terms import MaskedTerms
from consilium.sums.secure.unmasking import clip, remove_masks

T = TypeVar("T")
NOTHING = np.zeros(0, dtype=np.uint8)


@dataclass
class SessionState:
    """What was accepted of each stage, by place in the roster. A set of a stage is closed when `stage` moves on: U1 are
    those of ADVERTISE, U2 of SHARE, U3 of MASKED.

    terms: the descriptor. invited: who was asked at all. stage: the one that is due; None when the sum is there.
    held: uint8. Of ADVERTISE keys and signature, (160,); of SHARE ciphertexts, (|U1| - 1, 132), and of MASKED the bytes
    of y, both forgotten when U3 is closed, since who is in the sum is chosen then; of CONSISTENCY signatures on U3; of
    UNMASK shares, (|U2|, 52), forgotten with the masks.
    total: sum of all y of U3, in the ring. dropped: reason by party by stage. sums: int64 (queries, classes), at the
    end, as they came out of the ring.
    """

    terms: MaskedTerms
    invited: tuple[int, ...]
    stage: Stage | None
    total: np.ndarray = field(repr=False)
    held: dict[Stage, dict[int, np.ndarray]] = field(repr=False)
    dropped: dict[Stage, dict[str, str]] = field(default_factory=dict)
    sums: np.ndarray | None = field(default=None, repr=False)

    @classmethod
    def begin(cls, terms: MaskedTerms, invited: tuple[int, ...]) -> SessionState:
        """Before the first request."""
        total = np.zeros(terms.shape, dtype=RING_DTYPES[terms.ring])
        return cls(terms, invited, STAGES[0], total, {stage: {} for stage in STAGES})

    def places(self, stage: Stage) -> np.ndarray:
        """Of those whose reply of a stage was accepted, rising, uint16."""
        return np.array(sorted(self.held[stage]), dtype=np.uint16)

    def rows(self, stage: Stage) -> np.ndarray:
        """What was accepted, in the order of `places`."""
        return np.stack([self.held[stage][index] for index in sorted(self.held[stage])])

    def forget(self, stage: Stage) -> None:
        """Who answered stays known."""
        self.held[stage] = dict.fromkeys(self.held[stage], NOTHING)

    def save(self, path: Path) -> None:
        """Write the file, mode 0600, durably and as a whole: a crash leaves the old one or the new one."""
        fields: dict[str, Value] = {
            "terms": self.terms.canonical(),
            "invited": np.array(self.invited, dtype=np.uint16),
            "stage": self.stage or "",
            "total": self.total,
            "dropped": json.dumps(self.dropped),
        }
        for stage in STAGES:
            fields[f"{stage}_of"] = self.places(stage)
            fields[stage] = self.rows(stage) if self.held[stage] else NOTHING
        if self.sums is not None:
            fields["sums"] = self.sums
        with replacing(path, mode=0o600) as file:
            file.write(pack(fields))

    @classmethod
    def load(cls, path: Path) -> SessionState:
        """Read what `save` wrote.

        Raises
        ------
        ConfigError : no such file, or not a saved session.
        """
        try:
            fields = unpack(path.read_bytes())
            held = {
                stage: dict(
                    zip(_of(fields[f"{stage}_of"], np.ndarray).tolist(), _of(fields[stage], np.ndarray), strict=True)
                )
                for stage in STAGES
            }
            return cls(
                terms=MaskedTerms.parse(_of(fields["terms"], bytes)),
                invited=tuple(_of(fields["invited"], np.ndarray).tolist()),
                stage=Stage(fields["stage"]) if fields["stage"] else None,
                total=_of(fields["total"], np.ndarray).copy(),
                held=held,
                dropped={Stage(stage): reasons for stage, reasons in json.loads(_of(fields["dropped"], str)).items()},
                sums=_of(fields["sums"], np.ndarray).copy() if "sums" in fields else None,
            )
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror}", "Start a new session") from None
        except (MalformedMessage, KeyError, ValueError, TypeError):
            raise ConfigError(f"{path}: not a saved session of this version", "Start a new session") from None


def _of(value: Value, kind: type[T]) -> T:
    if not isinstance(value, kind):
        raise TypeError
    return value


PoolProof = tuple[np.ndarray, np.ndarray]
"""Places in the pool, uint32 (queries,), and proof, uint8 (hashes, 32)."""
NO_POOL: PoolProof = (np.zeros(0, dtype=np.uint32), np.zeros((0, 32), dtype=np.uint8))


@dataclass(frozen=True)
class View:
    """Hashes of U1, U2 and U3 as they are now."""

    u1: bytes
    u2: bytes
    u3: bytes


def view_of(state: SessionState) -> View:
    """What parties must sign, once U1 is closed."""
    ctx, adverts = state.terms.ctx, state.rows(Stage.ADVERTISE)
    return View(
        adverts_digest(ctx, state.places(Stage.ADVERTISE), adverts[:, :KEYS_BYTES], adverts[:, KEYS_BYTES:]),
        set_digest("U2", ctx, state.places(Stage.SHARE)),
        set_digest("U3", ctx, state.places(Stage.MASKED)),
    )


@dataclass(frozen=True)
class StageReport:
    """Who is in after a stage, and who is not, by reason."""

    stage: Stage
    present: tuple[str, ...]
    dropped: dict[str, str]


@dataclass(frozen=True)
class SecureSum:
    """The sum of the survivors' votes and of all their noise: int64 (queries, classes), never printed.

    clipped: bool (queries,), rows that honest votes do not give, brought into range (`unmasking.clip`).
    dropped: reason by party, by stage. Who dropped after `masked` is counted all the same.
    """

    sums: np.ndarray = field(repr=False)
    clipped: np.ndarray = field(repr=False)
    survivors: tuple[str, ...]
    dropped: dict[Stage, dict[str, str]]


class Aggregation:
    """The coordinator's state machine.

    Parameters
    ----------
    roster, signer : the pinned roster, and the key of its coordinator.
    state : of a new session (`begin`), or of one that goes on with the same U1, U2 and U3 (`load`).
    queries : canonical float32 (queries, features), those of the descriptor.
    proof : places in the pool and proof, as `protocol.messages.VoteRequest` has them.

    Raises
    ------
    RosterMismatch, UnsafeSession, OverflowRisk : roster, signer and terms do not belong together.
    ConfigError : the queries are not those of the descriptor.
    """

    def __init__(
        self, roster: Roster, signer: Identity, state: SessionState, queries: np.ndarray, proof: PoolProof = NO_POOL
    ) -> None:
        state.terms.check(roster)
        if signer.public.hex() != roster.coordinator_pk:
            raise RosterMismatch("the roster lists the coordinator with another key than this one")
        if len(queries) != state.terms.queries or query_set_hash(queries) != state.terms.query_set:
            raise ConfigError("the queries are not those of the session", "Pass the queries that it was made for")
        self._roster, self._signer, self._state = roster, signer, state
        self._queries, self._proof = queries, proof
        self._ctx, self._sid = state.terms.ctx, state.terms.sid_bytes

    @classmethod
    def begin(
        cls,
        roster: Roster,
        signer: Identity,
        terms: MaskedTerms,
        queries: np.ndarray,
        invited: Collection[str],
        proof: PoolProof = NO_POOL,
    ) -> Aggregation:
        """A new session with these terms (`MaskedTerms.create`). invited: names of the parties that are asked."""
        places = tuple(sorted({roster.place(name) for name in invited}))
        return cls(roster, signer, SessionState.begin(terms, places), queries, proof)

    @classmethod
    def load(
        cls, path: Path, roster: Roster, signer: Identity, queries: np.ndarray, proof: PoolProof = NO_POOL
    ) -> Aggregation:
        """Go on from a saved state. Raises as `__init__`, and ConfigError for the file."""
        return cls(roster, signer, SessionState.load(path), queries, proof)

    def save(self, path: Path) -> None:
        """Write the state durably, mode 0600. Call it before the requests of a stage leave."""
        self._state.save(path)

    @property
    def stage(self) -> Stage | None:
        """The stage that is due; None when the sum is there."""
        return self._state.stage

    @property
    def terms(self) -> MaskedTerms:
        """The session's descriptor."""
        return self._state.terms

    @property
    def summed(self) -> tuple[int, ...]:
        """Places of the parties in the sum, U3, once the masked stage is closed."""
        return tuple(self._state.places(Stage.MASKED).tolist())

    @property
    def dropped(self) -> dict[Stage, dict[str, str]]:
        """Reasons by party, by stage, so far; stages that lost none are not named."""
        return {stage: dict(reasons) for stage, reasons in self._state.dropped.items() if reasons}

    def requests(self) -> dict[str, SecAggMessage]:
        """The request of the stage that is due, for each party that is in and has not answered it.

        Raises
        ------
        StageOrder : the session is done.
        """
        state, receivers = self._state, self._waiting()
        match self._due():
            case Stage.MASKED:
                return self._masked_requests(receivers)
            case Stage.ADVERTISE:
                request: SecAggMessage = AdvertiseRequest(
                    descriptor=state.terms.canonical(), signature=state.terms.sign(self._signer)
                )
            case Stage.SHARE:
                adverts = state.rows(Stage.ADVERTISE)
                request = ShareRequest(
                    sid=self._sid,
                    advertised=state.places(Stage.ADVERTISE),
                    keys=adverts[:, :KEYS_BYTES],
                    signatures=adverts[:, KEYS_BYTES:],
                )
            case Stage.CONSISTENCY:
                request = ConsistencyRequest(sid=self._sid, survivors=state.places(Stage.MASKED))
            case Stage.UNMASK:
                survivors, t = state.places(Stage.MASKED), self._roster.t
                request = UnmaskRequest(
                    sid=self._sid,
                    survivors=survivors,
                    dropped=np.setdiff1d(state.places(Stage.SHARE), survivors),
                    signers=state.places(Stage.CONSISTENCY)[:t],
                    signatures=state.rows(Stage.CONSISTENCY)[:t],
                )
        return {self._roster.name(index): request for index in receivers}

    def _masked_requests(self, receivers: list[int]) -> dict[str, SecAggMessage]:
        """Each receiver gets its own column of ciphertexts only."""
        advertised, sharers = self._state.places(Stage.ADVERTISE), self._state.places(Stage.SHARE)
        ciphertexts, at_sender = self._state.rows(Stage.SHARE), np.searchsorted(advertised, sharers)
        places, proof = self._proof
        requests: dict[str, SecAggMessage] = {}
        for index in receivers:
            others = sharers != index
            column = int(np.searchsorted(advertised, index))
            row = column - (column > at_sender[others])  # a sender has no row for itself
            requests[self._roster.name(index)] = MaskedRequest(
                sid=self._sid,
                sharers=sharers,
                ciphertexts=ciphertexts[np.flatnonzero(others), row],
                queries=self._queries,
                places=places,
                proof=proof,
            )
        return requests

    def take(self, replies: Mapping[str, WireModel | str]) -> StageReport:
        """Check the replies of the stage that is due and close it, if enough are in.

        Parameters
        ----------
        replies : by party: its reply, or why there is none; a party that is not named gave none.

        Raises
        ------
        ThresholdNotMet : too few valid replies. Those that came are kept, and the stage can be sent again.
        BadShare : a seed is rebuilt that its owner is not committed to; the session cannot come to its end.
        StageOrder : the session is done.
        """
        stage, state = self._due(), self._state
        reasons = state.dropped.setdefault(stage, {})
        view = view_of(state) if stage not in (Stage.ADVERTISE, Stage.SHARE) else None
        for index in self._waiting():
            name = self._roster.name(index)
            reply = replies.get(name, "no answer")
            fault = reply if isinstance(reply, str) else self._fault(stage, index, reply, view)
            if fault is None:
                reasons.pop(name, None)
            else:
                reasons[name] = fault
        if stage is Stage.ADVERTISE:
            for index in sorted(_twice(state.held[stage])):
                del state.held[stage][index]
                reasons[self._roster.name(index)] = "session key is used twice"
        present = sorted(state.held[stage])
        need = self._roster.t if stage in (Stage.CONSISTENCY, Stage.UNMASK) else self._roster.least
        if len(present) < need:
            raise ThresholdNotMet(stage, len(present), need, reasons)
        if stage is Stage.MASKED:
            self._add_up()
        if stage is Stage.UNMASK:
            self._finish()
        following = STAGES.index(stage) + 1
        state.stage = STAGES[following] if following < len(STAGES) else None
        return StageReport(stage, tuple(self._roster.name(index) for index in present), dict(reasons))

    def result(self) -> SecureSum:
        """The sum.

        Raises
        ------
        StageOrder : stages are left.
        """
        if self._state.sums is None:
            raise StageOrder(f"there is no sum yet: stage {self._state.stage} is due")
        survivors, terms = tuple(self._roster.name(index) for index in self.summed), self.terms
        deviation = sigma_total(terms.sigma, terms.noise_shares, len(survivors))
        sums, clipped = clip(self._state.sums, terms.ring, terms.teachers * len(survivors), deviation)
        return SecureSum(sums, clipped, survivors, self.dropped)

    def _due(self) -> Stage:
        if self._state.stage is None:
            raise StageOrder("the session is done")
        return self._state.stage

    def _waiting(self) -> list[int]:
        stage, held = self._due(), self._state.held
        before = self._state.invited if stage is STAGES[0] else held[STAGES[STAGES.index(stage) - 1]]
        return sorted(set(before) - set(held[stage]))

    def _fault(self, stage: Stage, index: int, reply: WireModel, view: View | None) -> str | None:
        """Accept the reply and return None, or say what is wrong with it."""
        if not isinstance(reply, REPLIES[stage]):
            return "answers with a message of another stage"
        if reply.sid != self._sid or getattr(reply, "party", None) != index:
            return "answers for another session or another party"
        accepted = self._accepted(index, reply, view)
        if isinstance(accepted, str):
            return accepted
        self._state.held[stage][index] = accepted
        return None

    def _accepted(self, index: int, reply: SessionMessage, view: View | None) -> np.ndarray | str:
        """What is kept of a reply; or what is wrong with it."""
        ctx, terms, key = self._ctx, self._state.terms, self._roster.key(index)
        if isinstance(reply, AdvertiseReply):
            if not verified(key, reply.signature, ADVERT, *advert_parts(ctx, index, reply.keys)):
                return "signature on its advert does not verify under the key in the roster"
            try:
                for start in (0, KEY_BYTES):
                    check_order(reply.keys[start : start + KEY_BYTES], self._roster.name(index))
            except BadKey:
                return "session key is of low order"
            return _row(reply.keys + reply.signature)
        if isinstance(reply, ShareReply):
            peers = len(self._state.held[Stage.ADVERTISE]) - 1
            if len(reply.ciphertexts) != peers:
                return f"sends {len(reply.ciphertexts)} ciphertexts, {peers} are needed"
            return reply.ciphertexts
        if isinstance(reply, MaskedReply) and view is not None:
            if reply.y.dtype != RING_DTYPES[terms.ring]:
                return f"masked votes are {reply.y.dtype}, must be uint{terms.ring}"
            if reply.y.shape != terms.shape:
                return f"masked votes have shape {reply.y.shape}, must be {terms.shape}"
            if not verified(key, reply.signature, MASKED, *masked_parts(ctx, index, view.u1, view.u2, reply.y)):
                return "signature on its masked votes does not verify"
            return _row(reply.y.tobytes())
        if isinstance(reply, ConsistencyReply) and view is not None:
            parts = consistency_parts(ctx, index, view.u1, view.u2, view.u3)
            if not verified(key, reply.signature, CONSISTENCY, *parts):
                return "signature on the set of survivors does not verify"
            return _row(reply.signature)
        if isinstance(reply, UnmaskReply):
            sharers = len(self._state.held[Stage.SHARE])
            if len(reply.shares) != sharers:
                return f"gives {len(reply.shares)} shares, {sharers} are needed"
            return reply.shares if are_shares(reply.shares) else "gives a share that is out of range"
        raise TypeError(type(reply).__name__)

    def _add_up(self) -> None:
        """Close U3: sum y of all, and forget each."""
        state = self._state
        for y in state.held[Stage.MASKED].values():
            np.add(state.total, y.view(state.total.dtype).reshape(state.total.shape), out=state.total)
        state.forget(Stage.MASKED)
        state.forget(Stage.SHARE)

    def _finish(self) -> None:
        state = self._state
        adverts, shares = state.held[Stage.ADVERTISE], state.held[Stage.UNMASK]
        sharers, survivors = sorted(state.held[Stage.SHARE]), sorted(state.held[Stage.MASKED])
        state.sums = remove_masks(state.total, state.terms, self._roster, adverts, sharers, survivors, shares)
        state.forget(Stage.UNMASK)


def _twice(adverts: Mapping[int, np.ndarray]) -> set[int]:
    """Parties with a session key that another advert holds too: who copied from whom cannot be told."""
    holders: dict[bytes, list[int]] = {}
    for index, advert in adverts.items():
        for start in (0, KEY_BYTES):
            holders.setdefault(advert[start : start + KEY_BYTES].tobytes(), []).append(index)
    return {index for indices in holders.values() if len(indices) > 1 for index in indices}


def _row(content: bytes) -> np.ndarray:
    return np.frombuffer(content, dtype=np.uint8)


Send = Callable[[Stage, Mapping[str, SecAggMessage]], Mapping[str, WireModel | str]]
"""Stage and request by party -> reply, or reason of failure, by party. It parses replies as `REPLIES[stage]`."""


def drive(
    machine: Aggregation,
    send: Send,
    *,
    path: Path | None = None,
    progress: Callable[[StageReport], None] = lambda report: None,
) -> SecureSum:
    """Run the stages that are left.

    Parameters
    ----------
    path : where the state is saved before each stage's requests leave and after its replies are in, so that
        `Aggregation.load` can go on after a crash; None: nowhere.
    progress : told after each stage who is in and who dropped.

    Raises
    ------
    ThresholdNotMet, BadShare : see `Aggregation.take`.
    """
    while machine.stage is not None:
        if path is not None:
            machine.save(path)
        replies = send(machine.stage, machine.requests())
        try:
            report = machine.take(replies)
        finally:
            if path is not None:
                machine.save(path)
        progress(report)
    return machine.result()
