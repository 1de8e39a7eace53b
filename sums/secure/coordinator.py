"""One session at the coordinator: requests out, replies in, stage by stage; no transport.

Whatever a party replies, it is left out by name at most, and described in the coordinator's own words; but false shares
end the session. A stage that too few have answered is not lost: it may be sent again, parties answer a repeated request
with the same bytes, and the same state gives the same requests."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from consilium.protocol.errors import ConfigError
from consilium.protocol.files import replacing
from consilium.protocol.identity import Identity, is_low_order, verify
from consilium.protocol.messages import WireModel
from consilium.protocol.queries import query_set_hash
from consilium.sums.errors import BadShare, RosterMismatch, StageOrder, ThresholdNotMet
from consilium.sums.roster import Roster
from consilium.sums.secure.masks import RING_DTYPES, Masks, clip, decode, own_seed
from consilium.sums.secure.messages import (
    ADVERT,
    COMMITMENT_BYTES,
    CONSISTENCY,
    KINDS,
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
    advert_bytes,
    advert_parts,
    adverts_digest,
    commitment,
    consistency_parts,
    list_bytes,
    masked_parts,
    sealed_bytes,
    set_digest,
)
from consilium.sums.secure.pairs import KEY_BYTES, list_key, unlock
from consilium.sums.secure.shamir import SHARE_BYTES, are_shares, rebuild
from consilium.sums.secure.terms import KeyTerms, MaskedTerms

DIGEST_BYTES = 32
NOTHING = np.zeros(0, dtype=np.uint8)
PoolProof = tuple[np.ndarray, np.ndarray]
"""Places in the pool, uint32 (queries,), and proof, uint8 (hashes, 32)."""
NO_POOL: PoolProof = (np.zeros(0, dtype=np.uint32), np.zeros((0, 32), dtype=np.uint8))


@dataclass(frozen=True)
class StageReport:
    """Who is in after a stage, and who is not, by reason."""

    stage: Stage
    present: tuple[str, ...]
    dropped: dict[str, str]


@dataclass(frozen=True)
class SecureSum:
    """The sum of the survivors' votes and of all their noise: int64 (queries, classes), never printed.

    clipped: bool (queries,), rows that honest votes do not give, brought into range (`masks.clip`).
    survivors: U3, by name. Who dropped after `masked` is counted all the same.
    """

    terms: MaskedTerms
    sums: np.ndarray = field(repr=False)
    clipped: np.ndarray = field(repr=False)
    survivors: tuple[str, ...]


@dataclass
class State:
    """What was accepted of each stage, by place in the roster. A set of a stage is closed when `stage` moves on: U1 are
    those of ADVERTISE, U2 of SHARE, U3 of MASKED; U2 of a second sum is U3 of the first.

    terms: of the session. invited: who was asked at all. stage: the one that is due; None where the sum is there.
    sum: terms of the one that is due or was there last; None before one is asked. sharers: its U2.
    held: uint8. Of ADVERTISE advert and signature; of SHARE ciphertexts; of MASKED the bytes of y; of CONSISTENCY
    signatures on U3; of UNMASK shares and, behind them, seeds. Ciphertexts and y are forgotten when U3 is closed,
    shares and seeds with the masks. lists: of those who shared, uint8 (sums, bytes).
    total: of all y of U3, in the ring. results: by round. dropped: reason by party by stage, of this sum.
    """

    terms: KeyTerms
    invited: tuple[int, ...]
    stage: Stage | None
    sum: MaskedTerms | None
    sharers: tuple[int, ...]
    held: dict[Stage, dict[int, np.ndarray]] = field(repr=False)
    lists: dict[int, np.ndarray] = field(repr=False)
    total: np.ndarray = field(repr=False)
    results: dict[int, SecureSum] = field(repr=False)
    dropped: dict[Stage, dict[str, str]]

    @classmethod
    def begin(cls, terms: KeyTerms, invited: tuple[int, ...]) -> State:
        """Before the first request."""
        return cls(terms, invited, STAGES[0], None, (), {stage: {} for stage in STAGES}, {}, NOTHING, {}, {})

    def places(self, stage: Stage) -> np.ndarray:
        """Of those whose reply of a stage was accepted, rising, uint16."""
        return np.array(sorted(self.held[stage]), dtype=np.uint16)

    def rows(self, stage: Stage) -> np.ndarray:
        """What was accepted, in the order of `places`."""
        return np.stack([self.held[stage][place] for place in sorted(self.held[stage])])

    def forget(self, stage: Stage) -> None:
        """Who answered stays known."""
        self.held[stage] = dict.fromkeys(self.held[stage], NOTHING)

    def save(self, path: Path) -> None:
        """Write the file, mode 0600, durably and as a whole: a crash leaves the old one or the new one. It is for this
        machine alone: whoever can write it has the coordinator's key as well."""
        content = pickle.dumps(self)
        with replacing(path, mode=0o600) as file:
            file.write(hashlib.sha256(content).digest() + content)

    @classmethod
    def load(cls, path: Path) -> State:
        """Read what `save` wrote.

        Raises
        ------
        ConfigError : no such file, or not a saved session.
        """
        try:
            written = path.read_bytes()
            digest, content = written[:DIGEST_BYTES], written[DIGEST_BYTES:]
            if hashlib.sha256(content).digest() != digest:
                raise ValueError
            return pickle.loads(content)
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror}", "Start a new session") from None
        except Exception:  # what unpickling raises where another version wrote it is anything
            raise ConfigError(f"{path}: not a saved session of this version", "Start a new session") from None


class SecureSession:
    """The coordinator's state machine: a session of one sum or two, each asked (`ask`) and played to its result.

    Parameters
    ----------
    roster, signer : the pinned roster, and the key of its coordinator.
    state : of a new session (`begin`), or of one that goes on with the same sets (`load`).

    Raises
    ------
    RosterMismatch : roster, signer and terms do not belong together.
    """

    def __init__(self, roster: Roster, signer: Identity, state: State) -> None:
        state.terms.check(roster)
        if signer.public != roster.coordinator_key:
            raise RosterMismatch("the roster lists the coordinator with another key than this one")
        self._roster, self._signer, self._state = roster, signer, state
        self._queries, self._proof = np.zeros((0, 1), dtype=np.float32), NO_POOL

    @classmethod
    def begin(cls, roster: Roster, signer: Identity, terms: KeyTerms, invited: Collection[str]) -> SecureSession:
        """A new session with these terms. invited: names of the parties that are asked."""
        return cls(roster, signer, State.begin(terms, tuple(sorted({roster.place(name) for name in invited}))))

    @classmethod
    def load(cls, path: Path, roster: Roster, signer: Identity) -> SecureSession:
        """Go on from a saved state. Raises as `__init__`, and ConfigError for the file."""
        return cls(roster, signer, State.load(path))

    def save(self, path: Path) -> None:
        """Write the state durably, mode 0600. Call it before the requests of a stage leave."""
        self._state.save(path)

    @property
    def stage(self) -> Stage | None:
        """The stage that is due; None when the sum is there."""
        return self._state.stage

    @property
    def terms(self) -> KeyTerms:
        """Of the session."""
        return self._state.terms

    @property
    def sum(self) -> MaskedTerms | None:
        """Terms of the sum that is due, or was there last; None before one is asked."""
        return self._state.sum

    @property
    def summed(self) -> tuple[str, ...]:
        """Parties in the sum, U3, once the masked stage is closed."""
        return self._names(sorted(self._state.held[Stage.MASKED]))

    @property
    def dropped(self) -> dict[Stage, dict[str, str]]:
        """Reasons by party, by stage, so far; stages that lost none are not named."""
        return {stage: dict(reasons) for stage, reasons in self._state.dropped.items() if reasons}

    def has(self, round_: int, query_set: str) -> bool:
        """Whether the sum of a round on these queries is one of the session's: there, under way, or the next."""
        result = self._state.results.get(round_)
        terms = self.sum if result is None else result.terms
        return self.can_ask(round_) or (terms is not None and (terms.round, terms.query_set) == (round_, query_set))

    def can_ask(self, round_: int) -> bool:
        """Whether a sum of this round can be asked: the next of the session's, while no other is under way."""
        state = self._state
        left = [each for each in state.terms.rounds if each not in state.results]
        return left[:1] == [round_] and (state.sum is None or state.sum.round in state.results)

    def ask(self, terms: MaskedTerms, queries: np.ndarray, proof: PoolProof = NO_POOL) -> None:
        """The sum that is played from here on: the next one, or, after `load`, the one that was under way.

        queries : canonical float32 (queries, features), those of the terms. proof: places in the pool and proof, as
        `protocol.messages.VoteRequest` has them.

        Raises
        ------
        RosterMismatch, UnsafeSession, OverflowRisk : see `MaskedTerms.check`. StageOrder : another sum is under way, or
        the session has none of this round. ConfigError : the queries are not those of the terms.
        """
        state = self._state
        terms.check(self._roster)
        if len(queries) != terms.queries or query_set_hash(queries) != terms.query_set:
            raise ConfigError("the queries are not those of the sum", "Pass the queries that it was made for")
        if terms != state.sum:
            if terms.sid != state.terms.sid or not self.can_ask(terms.round):
                raise StageOrder(f"a sum of round {terms.round} cannot be asked in this session now")
            if state.results:
                state.stage, state.sharers = Stage.MASKED, tuple(sorted(state.held[Stage.MASKED]))
                for stage in (Stage.MASKED, Stage.CONSISTENCY, Stage.UNMASK):
                    state.held[stage], state.dropped[stage] = {}, {}
            state.sum, state.total = terms, np.zeros(terms.shape, dtype=RING_DTYPES[terms.ring(self._roster)])
        self._queries, self._proof = queries, proof

    def requests(self) -> dict[str, SecAggMessage]:
        """The request of the stage that is due, for each party that is in and has not answered it.

        Raises
        ------
        StageOrder : nothing is due.
        """
        state, stage, sid = self._state, self._due(), self._state.terms.sid_bytes
        if stage is Stage.MASKED:
            return self._masked_requests()
        if stage is Stage.ADVERTISE:
            terms = state.terms
            request: SecAggMessage = AdvertiseRequest(terms=terms.canonical(), signature=terms.sign(self._signer))
        elif stage is Stage.SHARE:
            adverts = state.rows(Stage.ADVERTISE)
            width = advert_bytes(len(state.terms.rounds))
            request = ShareRequest(
                sid=sid,
                advertised=state.places(Stage.ADVERTISE),
                adverts=adverts[:, :width],
                signatures=adverts[:, width:],
            )
        elif stage is Stage.CONSISTENCY:
            request = ConsistencyRequest(sid=sid, round=self._sum.round, survivors=state.places(Stage.MASKED))
        else:
            t = self._roster.t
            request = UnmaskRequest(
                sid=sid,
                round=self._sum.round,
                survivors=state.places(Stage.MASKED),
                dropped=np.array(self._gone, dtype=np.uint16),
                signers=state.places(Stage.CONSISTENCY)[:t],
                signatures=state.rows(Stage.CONSISTENCY)[:t],
            )
        return {self._roster.name(index): request for index in self._waiting()}

    def _masked_requests(self) -> dict[str, SecAggMessage]:
        """Each receiver gets its own column of ciphertexts only; of a second sum none."""
        state, terms, (places, proof) = self._state, self._sum, self._proof
        advertised, sharers = state.places(Stage.ADVERTISE), np.array(state.sharers, dtype=np.uint16)
        common = {"sid": terms.sid_bytes, "terms": terms.canonical(), "signature": terms.sign(self._signer)}
        common |= {"sharers": sharers, "queries": self._queries, "places": places, "proof": proof}
        if state.results:
            none = np.zeros((0, sealed_bytes(len(state.terms.rounds))), dtype=np.uint8)
            request = MaskedRequest(**common, ciphertexts=none)
            return {self._roster.name(index): request for index in self._waiting()}
        ciphertexts, at_sender = state.rows(Stage.SHARE), np.searchsorted(advertised, sharers)
        requests: dict[str, SecAggMessage] = {}
        for index in self._waiting():
            others = sharers != index
            column = int(np.searchsorted(advertised, index))
            row = column - (column > at_sender[others])  # a sender has no row for itself
            own = ciphertexts[np.flatnonzero(others), row]
            requests[self._roster.name(index)] = MaskedRequest(**common, ciphertexts=own)
        return requests

    def take(self, replies: Mapping[str, WireModel | str]) -> StageReport:
        """Check the replies of the stage that is due and close it, if enough are in.

        Parameters
        ----------
        replies : by party: its reply, or why there is none; a party that is not named gave none.

        Raises
        ------
        ThresholdNotMet : too few valid replies. Those that came are kept, and the stage can be sent again.
        BadShare : what is rebuilt is not what its owner is committed to; the session cannot come to its end.
        StageOrder : nothing is due.
        """
        stage, state = self._due(), self._state
        reasons, view = state.dropped.setdefault(stage, {}), self._view()
        for index in self._waiting():
            name = self._roster.name(index)
            reply = replies.get(name, "no answer")
            fault = reply if isinstance(reply, str) else self._fault(stage, index, reply, view)
            if fault is None:
                reasons.pop(name, None)
            else:
                reasons[name] = fault
        held = state.held[stage]
        if stage is Stage.ADVERTISE:
            for index in sorted(_twice(held)):
                del held[index]
                reasons[self._roster.name(index)] = "session key is used twice"
        need = self._roster.t if stage in (Stage.CONSISTENCY, Stage.UNMASK) else self._roster.least
        if len(held) < need:
            raise ThresholdNotMet(stage, len(held), need, reasons)
        if stage is Stage.SHARE:
            state.sharers = tuple(sorted(held))
        if stage is Stage.MASKED:
            self._add_up()
        if stage is Stage.UNMASK:
            self._finish()
        following = STAGES.index(stage) + 1
        state.stage = STAGES[following] if following < len(STAGES) else None
        return StageReport(stage, self._names(sorted(held)), dict(reasons))

    def result(self, round_: int) -> SecureSum | None:
        """The sum of a round; None where it is not there yet."""
        return self._state.results.get(round_)

    @property
    def _sum(self) -> MaskedTerms:
        if self._state.sum is None:
            raise StageOrder("no sum was asked in this session")
        return self._state.sum

    @property
    def _gone(self) -> list[int]:
        """U2 without U3."""
        return sorted({*self._state.sharers} - {*self._state.held[Stage.MASKED]})

    def _names(self, places: list[int]) -> tuple[str, ...]:
        return tuple(map(self._roster.name, places))

    def _due(self) -> Stage:
        if self._state.stage is None:
            raise StageOrder("the sum is done")
        return self._state.stage

    def _waiting(self) -> list[int]:
        stage, held = self._due(), self._state.held
        if stage in (Stage.ADVERTISE, Stage.MASKED):
            before = self._state.invited if stage is Stage.ADVERTISE else self._state.sharers
        else:
            before = held[STAGES[STAGES.index(stage) - 1]]
        return sorted(set(before) - set(held[stage]))

    def _view(self) -> tuple[bytes, bytes, bytes]:
        """Hashes of U1, U2 and U3 as they are now: what parties must sign, once each is closed."""
        state, width = self._state, advert_bytes(len(self._state.terms.rounds))
        if self._due() in (Stage.ADVERTISE, Stage.SHARE):
            return b"", b"", b""
        adverts, ctx = state.rows(Stage.ADVERTISE), self._sum.ctx
        content, signatures = adverts[:, :width].tobytes(), adverts[:, width:].tobytes()
        return (
            adverts_digest(state.terms.ctx, state.places(Stage.ADVERTISE), content, signatures),
            set_digest("U2", ctx, np.array(state.sharers, dtype=np.uint16)),
            set_digest("U3", ctx, state.places(Stage.MASKED)),
        )

    def _fault(self, stage: Stage, index: int, reply: WireModel, view: tuple[bytes, bytes, bytes]) -> str | None:
        """Accept the reply and return None, or say what is wrong with it."""
        if not isinstance(reply, REPLIES[stage]):
            return "answers with a message of another stage"
        if reply.sid != self._state.terms.sid_bytes or getattr(reply, "party", None) != index:
            return "answers for another session or another party"
        accepted = self._accepted(index, reply, view)
        if isinstance(accepted, str):
            return accepted
        self._state.held[stage][index] = accepted
        return None

    def _accepted(self, index: int, reply: SessionMessage, view: tuple[bytes, bytes, bytes]) -> np.ndarray | str:
        """What is kept of a reply; or what is wrong with it."""
        state, key, rounds = self._state, self._roster.key(index), len(self._state.terms.rounds)
        u1, u2, u3 = view
        if isinstance(reply, AdvertiseReply):
            if len(reply.advert) != advert_bytes(rounds):
                return "advert is for another number of sums"
            if not verify(key, reply.signature, ADVERT, *advert_parts(state.terms.ctx, index, reply.advert)):
                return "signature on its advert does not verify under the key in the roster"
            if is_low_order(reply.advert[:KEY_BYTES]):
                return "session key is of low order"
            return _row(reply.advert + reply.signature)
        if isinstance(reply, ShareReply):
            peers = len(state.held[Stage.ADVERTISE]) - 1
            if reply.ciphertexts.shape != (peers, sealed_bytes(rounds)):
                return f"sends {len(reply.ciphertexts)} ciphertexts, {peers} are needed, for {rounds} sums"
            if reply.lists.shape != (rounds, list_bytes(peers)):
                return "its lists are not of the seeds of its pairs in each sum"
            state.lists[index] = reply.lists
            return reply.ciphertexts
        terms = self._sum
        if isinstance(reply, MaskedReply):
            dtype = RING_DTYPES[terms.ring(self._roster)]
            if reply.y.dtype != dtype:
                return f"masked votes are {reply.y.dtype}, must be {dtype}"
            if reply.y.shape != terms.shape:
                return f"masked votes have shape {reply.y.shape}, must be {terms.shape}"
            if not verify(key, reply.signature, MASKED, *masked_parts(terms.ctx, index, u1, u2, reply.y)):
                return "signature on its masked votes does not verify"
            return _row(reply.y.tobytes())
        if isinstance(reply, ConsistencyReply):
            if not verify(key, reply.signature, CONSISTENCY, *consistency_parts(terms.ctx, index, u1, u2, u3)):
                return "signature on the set of survivors does not verify"
            return _row(reply.signature)
        if isinstance(reply, UnmaskReply):
            sharers, gone = len(state.sharers), len(self._gone)
            if len(reply.shares) != sharers:
                return f"gives {len(reply.shares)} shares, {sharers} are needed"
            if len(reply.seeds) != gone:
                return f"gives {len(reply.seeds)} seeds, {gone} are needed"
            if not are_shares(reply.shares):
                return "gives a share that is out of range"
            return np.concatenate([reply.shares.ravel(), reply.seeds.ravel()])
        raise TypeError(type(reply).__name__)

    def _add_up(self) -> None:
        """Close U3: sum y of all, and forget each."""
        state = self._state
        for y in state.held[Stage.MASKED].values():
            np.add(state.total, y.view(state.total.dtype).reshape(state.total.shape), out=state.total)
        state.forget(Stage.MASKED)
        state.forget(Stage.SHARE)

    def _finish(self) -> None:
        """Masks come off: all secrets are rebuilt and held against what their owners are committed to before the first
        does (Bonawitz et al. 2017, figure 4, round 4)."""
        state, terms = self._state, self._sum
        secrets, survivors = self._rebuilt(), sorted(state.held[Stage.MASKED])
        seeds = {gone: self._seeds_of(gone, secrets[gone]) for gone in self._gone}
        total = state.total.copy()
        masks = Masks(total, terms.ctx)
        for index in survivors:
            masks.subtract(own_seed(secrets[index], terms.ctx, index))
        for gone, of_peers in seeds.items():
            for index in survivors:
                masks.add_pair(of_peers[index], gone, index)  # what it would have added cancels what the other did
        bits = terms.ring(self._roster)
        sums, clipped = clip(
            decode(total, bits), bits, terms.teachers * len(survivors), terms.deviation(len(survivors))
        )
        state.results[terms.round] = SecureSum(terms, sums, clipped, self._names(survivors))
        state.forget(Stage.UNMASK)
        if terms.round == state.terms.rounds[-1]:
            state.lists.clear()

    def _rebuilt(self) -> dict[int, bytes]:
        """b of each party of U3, K of each of U2 without U3. Raises BadShare."""
        state, terms = self._state, self._sum
        holders = sorted(state.held[Stage.UNMASK])[: self._roster.t]
        size = len(state.sharers) * SHARE_BYTES
        rows = np.stack([state.held[Stage.UNMASK][holder][:size] for holder in holders])
        secrets = rebuild(holders, rows.reshape(len(holders), -1, SHARE_BYTES))
        alive, at_round = state.held[Stage.MASKED], state.terms.rounds.index(terms.round) * KINDS
        for owner, secret in zip(state.sharers, secrets, strict=True):
            kind, at = ("b", at_round) if owner in alive else ("K", at_round + 1)
            promised = state.held[Stage.ADVERTISE][owner][KEY_BYTES + at * COMMITMENT_BYTES :][:COMMITMENT_BYTES]
            if commitment(state.terms.ctx, owner, secret.tobytes(), terms.round, kind) != promised.tobytes():
                raise BadShare(
                    self._roster.name(owner), "its shares do not give what it is committed to: it, or one of them, lies"
                )
        return {owner: secret.tobytes() for owner, secret in zip(state.sharers, secrets, strict=True)}

    def _seeds_of(self, gone: int, k: bytes) -> dict[int, bytes]:
        """By peer in U1, from the list of one that is lost. Raises BadShare where it does not open, or where a survivor
        says otherwise: one of the two lied."""
        state, terms, name = self._state, self._sum, self._roster.name(gone)
        ctx, row = state.terms.ctx, state.terms.rounds.index(terms.round)
        content = unlock(list_key(k, ctx, gone, terms.round), state.lists[gone][row].tobytes(), self._view()[0])
        if content is None:
            raise BadShare(name, "its list of mask seeds does not open", [name])
        peers = [index for index in sorted(state.held[Stage.ADVERTISE]) if index != gone]
        seeds = {peer: content[at * KEY_BYTES :][:KEY_BYTES] for at, peer in enumerate(peers)}
        start = len(state.sharers) * SHARE_BYTES + self._gone.index(gone) * KEY_BYTES
        for holder, given in sorted(state.held[Stage.UNMASK].items()):
            if given[start : start + KEY_BYTES].tobytes() != seeds[holder]:
                other = self._roster.name(holder)
                raise BadShare(name, f"its list and {other} give other seeds of their mask: one lies", [name, other])
        return seeds


def _twice(adverts: Mapping[int, np.ndarray]) -> set[int]:
    """Parties with a session key that another advert holds too: who copied from whom cannot be told."""
    holders: dict[bytes, list[int]] = {}
    for index, advert in adverts.items():
        holders.setdefault(advert[:KEY_BYTES].tobytes(), []).append(index)
    return {index for indices in holders.values() if len(indices) > 1 for index in indices}


def _row(content: bytes) -> np.ndarray:
    return np.frombuffer(content, dtype=np.uint8)


Send = Callable[[Stage, Mapping[str, SecAggMessage]], Mapping[str, WireModel | str]]
"""Stage and request by party -> reply, or reason of failure, by party. It parses replies as `REPLIES[stage]`."""


def drive(
    session: SecureSession,
    send: Send,
    *,
    path: Path | None = None,
    progress: Callable[[StageReport], None] = lambda report: None,
) -> SecureSum:
    """Play the stages that are left of the sum that was asked.

    Parameters
    ----------
    path : where the state is saved before each stage's requests leave and after its replies are in, so that
        `SecureSession.load` can go on after a crash; None: nowhere.
    progress : told after each stage who is in and who dropped.

    Raises
    ------
    ThresholdNotMet, BadShare : see `SecureSession.take`. StageOrder : no sum was asked.
    """
    if path is not None:
        session.save(path)
    while session.stage is not None:
        replies = send(session.stage, session.requests())
        try:
            report = session.take(replies)
        finally:
            if path is not None:
                session.save(path)
        progress(report)
    result = session.sum and session.result(session.sum.round)
    if result is None:
        raise StageOrder("no sum was asked in this session")
    return result
