"""One session at the coordinator: requests out, replies in, stage by stage; no transport.

Whatever a party sends, it can at most be left out by name. A stage that too few have answered is not lost: it may be
sent again, parties answer a repeated request with the same bytes, and the same state gives the same requests."""

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
from consilium.sums.errors import RosterMismatch, StageOrder, ThresholdNotMet, named
from consilium.sums.masks import checks
from consilium.sums.masks.checks import check_vouched, false_dealers, gather
from consilium.sums.masks.messages import (
    KEYS_BYTES,
    REPLIES,
    STAGES,
    AdvertiseReply,
    AdvertiseRequest,
    ConsistencyReply,
    ConsistencyRequest,
    MaskedReply,
    MaskedRequest,
    SecAggMessage,
    ShareReply,
    ShareRequest,
    Stage,
    UnmaskReply,
    UnmaskRequest,
    adverts_digest,
    challenge,
    ring_digest,
    set_digest,
)
from consilium.sums.masks.ring import RING_DTYPES, sigma_total
from consilium.sums.masks.shares import share_bytes
from consilium.sums.masks.terms import MaskedTerms
from consilium.sums.masks.unmasking import SecretRebuilder, clip, remove_masks
from consilium.sums.packing import Value, pack, unpack
from consilium.sums.roster import Roster

T = TypeVar("T")
PER_PARTY = ("adverts", "nonces", "ciphertexts", "values", "masked", "complaints", "evidence", "views", "shares")


@dataclass
class SessionState:
    """Accepted replies, by place in the roster. A set of a stage is closed when `stage` moves on: U1 is who has an
    advert, U2 who has a nonce, U3 who has evidence.

    terms: the descriptor. invited: who was asked at all. stage: the one that is due; None when the sum is there.
    adverts: uint8 (192,), keys and signature. nonces: uint8 (12,). ciphertexts: uint8 (|U1| - 1, 112), and values:
    uint8 (|U1|, 32), forgotten when U3 is closed. masked: uint8 (bytes of y,), forgotten when U3 is closed: who is in
    the sum is chosen then. complaints: uint8 (|U2|,), 1 at whom the party complains about. total: sum of their y, in
    the ring. evidence: uint8 (96,), SHA-256 and signature of each y. views: uint8 (64,), signatures on U3.
    shares: uint8 (|U2|, 32), forgotten with the masks.
    dropped: reason by party by stage. sums: int64 (queries, classes), at the end, as they came out of the ring.
    """

    terms: MaskedTerms
    invited: tuple[int, ...]
    stage: Stage | None
    total: np.ndarray = field(repr=False)
    adverts: dict[int, np.ndarray] = field(default_factory=dict, repr=False)
    nonces: dict[int, np.ndarray] = field(default_factory=dict, repr=False)
    ciphertexts: dict[int, np.ndarray] = field(default_factory=dict, repr=False)
    values: dict[int, np.ndarray] = field(default_factory=dict, repr=False)
    complaints: dict[int, np.ndarray] = field(default_factory=dict, repr=False)
    masked: dict[int, np.ndarray] = field(default_factory=dict, repr=False)
    evidence: dict[int, np.ndarray] = field(default_factory=dict, repr=False)
    views: dict[int, np.ndarray] = field(default_factory=dict, repr=False)
    shares: dict[int, np.ndarray] = field(default_factory=dict, repr=False)
    dropped: dict[Stage, dict[str, str]] = field(default_factory=dict)
    sums: np.ndarray | None = field(default=None, repr=False)

    @classmethod
    def begin(cls, terms: MaskedTerms, invited: tuple[int, ...]) -> SessionState:
        """Before the first request."""
        return cls(terms, invited, STAGES[0], np.zeros(terms.shape, dtype=RING_DTYPES[terms.ring]))

    def add_up(self) -> None:
        """Close U3: sum y of all who have evidence, and forget each."""
        for index in sorted(self.evidence):
            np.add(self.total, self.masked[index].view(self.total.dtype).reshape(self.total.shape), out=self.total)
        self.masked.clear()

    def save(self, path: Path) -> None:
        """Write the file, mode 0600, durably and as a whole: a crash leaves the old one or the new one."""
        fields: dict[str, Value] = {
            "terms": self.terms.canonical(),
            "invited": np.array(self.invited, dtype=np.uint16),
            "stage": self.stage or "",
            "total": self.total,
            "dropped": json.dumps(self.dropped),
        }
        for name in PER_PARTY:
            held: dict[int, np.ndarray] = getattr(self, name)
            fields[f"{name}_of"] = np.array(sorted(held), dtype=np.uint16)
            fields[name] = np.array([held[index] for index in sorted(held)], dtype=np.uint8)
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
            state = cls(
                terms=MaskedTerms.parse(_of(fields["terms"], bytes)),
                invited=tuple(_of(fields["invited"], np.ndarray).tolist()),
                stage=Stage(fields["stage"]) if fields["stage"] else None,
                total=_of(fields["total"], np.ndarray).copy(),
                dropped={Stage(stage): reasons for stage, reasons in json.loads(_of(fields["dropped"], str)).items()},
                sums=_of(fields["sums"], np.ndarray).copy() if "sums" in fields else None,
            )
            for name in PER_PARTY:
                places, rows = _of(fields[f"{name}_of"], np.ndarray), _of(fields[name], np.ndarray)
                setattr(state, name, dict(zip(places.tolist(), rows, strict=True)))
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror}", "Start a new session") from None
        except (MalformedMessage, KeyError, ValueError, TypeError):
            raise ConfigError(f"{path}: not a saved session of this version", "Start a new session") from None
        return state


def _of(value: Value, kind: type[T]) -> T:
    if not isinstance(value, kind):
        raise TypeError
    return value


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


def view_of(state: SessionState) -> View:
    """What parties must sign, once U1 is closed."""
    ctx = state.terms.ctx
    return View(
        adverts_digest(ctx, *_adverts(state)),
        set_digest("U2", ctx, _places(state.nonces)),
        set_digest("U3", ctx, _places(state.evidence)),
    )


def challenges(state: SessionState, u1: bytes) -> dict[int, int]:
    """r by dealer, of all whose sealed shares are there."""
    ctx = state.terms.ctx
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
            request = ShareRequest(sid=state.terms.sid_bytes, advertised=advertised, keys=keys, signatures=signatures)
        case Stage.CONSISTENCY:
            request = ConsistencyRequest(sid=state.terms.sid_bytes, survivors=_places(state.evidence))
        case Stage.UNMASK:
            request = _unmask(state, t)
    return dict.fromkeys(receivers, request)


def _advertise(terms: MaskedTerms, signer: Identity) -> AdvertiseRequest:
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
    drawn = challenges(state, adverts_digest(state.terms.ctx, *_adverts(state)))
    factors = np.array([list(share_bytes(drawn[index])) for index in sharers.tolist()], dtype=np.uint8)
    at_sender = np.searchsorted(advertised, sharers)
    requests: dict[int, SecAggMessage] = {}
    for index in receivers:
        others = sharers != index
        column = int(np.searchsorted(advertised, index))
        row = column - (column > at_sender[others])  # a sender has no row for itself
        requests[index] = MaskedRequest(
            sid=state.terms.sid_bytes,
            sharers=sharers,
            nonces=nonces[others],
            ciphertexts=ciphertexts[np.flatnonzero(others), row],
            challenges=factors[others],
            values=values[others, column],
            queries=question.queries,
            places=question.places,
            proof=question.proof,
        )
    return requests


def _unmask(state: SessionState, t: int) -> UnmaskRequest:
    survivors = _places(state.evidence)
    signers = sorted(state.views)[:t]
    return UnmaskRequest(
        sid=state.terms.sid_bytes,
        survivors=survivors,
        dropped=np.setdiff1d(_places(state.nonces), survivors),
        signers=np.array(signers, dtype=np.uint16),
        signatures=np.stack([state.views[index] for index in signers]),
    )


def _places(held: dict[int, np.ndarray]) -> np.ndarray:
    return np.array(sorted(held), dtype=np.uint16)


@dataclass(frozen=True)
class StageReport:
    """Who is in after a stage, and who is not, by reason."""

    stage: Stage
    present: tuple[str, ...]
    dropped: dict[str, str]


@dataclass(frozen=True)
class SecureSum:
    """The sum of the survivors' votes (and of all their noise): int64 (queries, classes), never printed.

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
    terms : the session descriptor (`MaskedTerms.create`).
    queries : canonical float32 (queries, features), those of the descriptor.
    invited : names of the parties that are asked; None: all of the roster.
    proof : places in the pool and proof, as `protocol.messages.VoteRequest` has them.

    Raises
    ------
    RosterMismatch, UnsafeSession, OverflowRisk : roster, signer and terms do not belong together.
    ConfigError : the queries are not those of the descriptor.
    """

    def __init__(
        self,
        roster: Roster,
        signer: Identity,
        terms: MaskedTerms,
        queries: np.ndarray,
        invited: Collection[str] | None = None,
        proof: PoolProof = NO_POOL,
    ) -> None:
        places = range(roster.n) if invited is None else sorted({roster.place(name) for name in invited})
        question = Question(queries, *proof)
        self._set_up(roster, signer, question, SessionState.begin(terms, tuple(places)))

    def _set_up(self, roster: Roster, signer: Identity, question: Question, state: SessionState) -> None:
        queries = question.queries
        state.terms.check(roster)
        if signer.public.hex() != roster.coordinator_pk:
            raise RosterMismatch("the roster lists the coordinator with another key than this one")
        if len(queries) != state.terms.queries or query_set_hash(queries) != state.terms.query_set:
            raise ConfigError("the queries are not those of the session", "Pass the queries that it was made for")
        self._roster, self._signer, self._question, self._state = roster, signer, question, state
        self._ctx = state.terms.ctx
        self._sid = state.terms.sid_bytes

    def save(self, path: Path) -> None:
        """Write the state durably, mode 0600. Call it before the requests of a stage leave."""
        self._state.save(path)

    @classmethod
    def load(
        cls, path: Path, roster: Roster, signer: Identity, queries: np.ndarray, proof: PoolProof = NO_POOL
    ) -> Aggregation:
        """Go on from a saved state with the same U1, U2 and U3. Raises as `__init__`, and ConfigError for the file."""
        machine = cls.__new__(cls)
        machine._set_up(roster, signer, Question(queries, *proof), SessionState.load(path))
        return machine

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
        return tuple(sorted(self._state.evidence))

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
        requests = of_stage(self._due(), self._state, self._signer, self._question, self._roster.t, self._waiting())
        return {self._roster.name(index): request for index, request in requests.items()}

    def take(self, replies: Mapping[str, WireModel | str]) -> StageReport:
        """Check the replies of the stage that is due and close it, if enough are in.

        Parameters
        ----------
        replies : by party: its reply, or why there is none; a party that is not named gave none.

        Raises
        ------
        ThresholdNotMet : too few valid replies. Those that came are kept, and the stage can be sent again.
        BadShare : too few vouch for a party's shares, and nothing is unmasked; or a secret cannot be rebuilt. More
            replies may still help.
        StageOrder : the session is done.
        """
        stage, state = self._due(), self._state
        reasons = state.dropped.setdefault(stage, {})
        view = view_of(state) if stage not in (Stage.ADVERTISE, Stage.SHARE) else None
        waiting = self._waiting()
        for index in waiting:
            name = self._roster.name(index)
            reply = replies.get(name, "no answer")
            fault = reply if isinstance(reply, str) else self._fault(stage, index, reply, view)
            if fault is None:
                reasons.pop(name, None)
            else:
                reasons[name] = fault
        if stage is Stage.ADVERTISE:
            for index in sorted(checks.twice(state.adverts)):
                del state.adverts[index]
                reasons[self._roster.name(index)] = "session key is used twice"
        if stage is Stage.SHARE:
            self._leave_out_false_dealers(set(waiting) & set(state.nonces), reasons)
        present = self._accepted(stage)
        need = self._roster.t if stage in (Stage.CONSISTENCY, Stage.UNMASK) else self._roster.u_min
        if len(present) < need:
            raise ThresholdNotMet(stage, len(present), need, reasons)
        if stage is Stage.UNMASK:
            self._finish(reasons)
        if stage is Stage.MASKED:
            self._close_set()
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
        survivors = tuple(self._roster.name(index) for index in self.summed)
        terms = self.terms
        deviation = sigma_total(terms.sigma, terms.noise_shares, len(survivors))
        sums, clipped = clip(self._state.sums, terms.ring, self._votes(), deviation)
        return SecureSum(sums, clipped, survivors, self.dropped)

    def _votes(self) -> int:
        """Votes on a query of all who are summed."""
        return self._state.terms.teachers * len(self.summed)

    def _due(self) -> Stage:
        if self._state.stage is None:
            raise StageOrder("the session is done")
        return self._state.stage

    def _accepted(self, stage: Stage) -> list[int]:
        """Places of those whose reply of this stage was accepted, in order."""
        state = self._state
        held = {
            Stage.ADVERTISE: state.adverts,
            Stage.SHARE: state.nonces,
            Stage.MASKED: state.evidence,
            Stage.CONSISTENCY: state.views,
            Stage.UNMASK: state.shares,
        }
        return sorted(held[stage])

    def _waiting(self) -> list[int]:
        stage = self._due()
        before = self._state.invited if stage is STAGES[0] else self._accepted(STAGES[STAGES.index(stage) - 1])
        return sorted(set(before) - set(self._accepted(stage)))

    def _fault(self, stage: Stage, index: int, reply: WireModel, view: View | None) -> str | None:
        """Accept the reply and return None, or say what is wrong with it."""
        state, roster, ctx = self._state, self._roster, self._ctx
        fault = checks.fault_of_address(reply, REPLIES[stage], self._sid, index)
        if fault is not None:
            return fault
        if isinstance(reply, AdvertiseReply):
            fault = checks.fault_of_advert(reply, roster, ctx)
            if fault is None:
                state.adverts[index] = _row(checks.advert_keys(reply) + reply.signature)
        elif isinstance(reply, ShareReply):
            fault = checks.fault_of_shares(reply, len(state.adverts) - 1)
            if fault is None:
                state.nonces[index] = _row(reply.nonce)
                state.ciphertexts[index], state.values[index] = reply.ciphertexts, reply.values
        elif isinstance(reply, MaskedReply) and view is not None:
            fault = checks.fault_of_masked(reply, roster, state.terms, ctx, view.u1, view.u2, state.nonces)
            if fault is None:
                state.masked[index] = _row(reply.y.tobytes())
                state.evidence[index] = _row(ring_digest(reply.y) + reply.signature)
                sharers = np.array(sorted(state.nonces), dtype=np.uint16)
                state.complaints[index] = np.isin(sharers, reply.complaints).astype(np.uint8)
        elif isinstance(reply, ConsistencyReply) and view is not None:
            fault = checks.fault_of_view(reply, roster, ctx, view.u1, view.u2, view.u3)
            if fault is None:
                state.views[index] = _row(reply.signature)
        elif isinstance(reply, UnmaskReply):
            fault = checks.fault_of_unmask(reply, len(state.nonces))
            if fault is None:
                state.shares[index] = reply.shares
        return fault

    def _leave_out_false_dealers(self, dealers: set[int], reasons: dict[str, str]) -> None:
        """Forget what dealers sent whose values are no shares of what they are committed to."""
        state = self._state
        drawn = challenges(state, view_of(state).u1)
        for index in sorted(false_dealers(dealers, state.adverts, state.values, drawn, self._roster.t)):
            for held in (state.nonces, state.ciphertexts, state.values):
                del held[index]
            reasons[self._roster.name(index)] = "its shares are not shares of what its advert is committed to"

    def _close_set(self) -> None:
        state = self._state
        check_vouched(self._roster, sorted(state.evidence), gather(sorted(state.nonces), state.complaints))
        state.add_up()
        state.ciphertexts.clear()
        state.values.clear()

    def _finish(self, reasons: dict[str, str]) -> None:
        state = self._state
        sharers, survivors = sorted(state.nonces), sorted(state.evidence)
        gone = [index for index in sharers if index not in state.evidence]
        disputes = gather(sharers, state.complaints)
        rebuilder = SecretRebuilder(self._roster, sharers, state.shares, disputes)
        sums = remove_masks(state.total, state.terms, state.adverts, survivors, gone, rebuilder)
        for dealer, against in disputes.items():
            reasons[self._roster.name(dealer)] = (
                f"gave no good share, say {named(map(self._roster.name, sorted(against)))}"
            )
        for index in rebuilder.liars:
            reasons[self._roster.name(index)] = "gave a share that does not fit the others"
        state.shares.clear()
        state.sums = sums


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
