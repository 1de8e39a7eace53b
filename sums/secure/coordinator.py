"""One session at the coordinator: requests out, replies in, stage by stage; no transport.

Whatever a party replies, it is left out by name at most, and described in the coordinator's own words; but false shares
end the session. A stage that too few have answered is not lost: it may be sent again, parties answer a repeated request
with the same bytes, and the same state gives the same requests."""

from __future__ import annotations

import hashlib
import pickle
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from consilium.protocol.errors import ConfigError
from consilium.protocol.files import replacing
from consilium.protocol.identity import Identity, is_low_order
from consilium.protocol.messages import WireModel
from consilium.protocol.queries import query_set_hash
from consilium.sums.errors import BadShare, RosterMismatch, StageOrder, ThresholdNotMet
from consilium.sums.roster import Roster
from consilium.sums.secure import messages
from consilium.sums.secure.masks import RING_DTYPE, Masks, clip, decode
from consilium.sums.secure.messages import COMMITMENT_BYTES, KINDS, REPLIES, STAGES, SecAggMessage, Stage
from consilium.sums.secure.pairs import KEY_BYTES, list_key, unseal
from consilium.sums.secure.shamir import are_shares, rebuild
from consilium.sums.secure.terms import KeyTerms, MaskedTerms

PoolProof = tuple[np.ndarray, np.ndarray]
"""Places in the pool, uint32 (queries,), and proof, uint8 (hashes, 32)."""
NO_POOL: PoolProof = (np.zeros(0, dtype=np.uint32), np.zeros((0, 32), dtype=np.uint8))


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

    invited: who was asked at all. stage: the one that is due; None where the sum is there. sum: terms of the one that
    is due or was there last. sharers: its U2. held: replies; when they are no longer needed None, so that who answered
    stays known. total: of all y. lists: `ShareReply.lists`. results: by round. dropped: reason by party, of this sum.
    """

    terms: KeyTerms
    invited: tuple[int, ...]
    stage: Stage | None = STAGES[0]
    sum: MaskedTerms | None = None
    sharers: tuple[int, ...] = ()
    held: dict[Stage, dict[int, Any]] = field(default_factory=lambda: {stage: {} for stage in STAGES}, repr=False)
    total: np.ndarray | None = field(default=None, repr=False)
    lists: dict[int, np.ndarray] = field(default_factory=dict, repr=False)
    results: dict[int, SecureSum] = field(default_factory=dict, repr=False)
    dropped: dict[Stage, dict[str, str]] = field(default_factory=lambda: {stage: {} for stage in STAGES})

    def places(self, stage: Stage) -> np.ndarray:
        """Of those whose reply of a stage was accepted, rising, uint16."""
        return np.array(sorted(self.held[stage]), dtype=np.uint16)

    def rows(self, stage: Stage, name: str) -> np.ndarray:
        """One field of the accepted replies, in the order of `places`: a row of bytes, or a matrix, of each."""
        values = [getattr(reply, name) for _, reply in sorted(self.held[stage].items())]
        return np.stack([np.frombuffer(value, dtype=np.uint8) if name == "signature" else value for value in values])

    @property
    def u1(self) -> dict[str, np.ndarray]:
        """Places, adverts and signatures, a row for each party."""
        adverts, signatures = self.rows(Stage.ADVERTISE, "advert")[:, 0], self.rows(Stage.ADVERTISE, "signature")
        return {"advertised": self.places(Stage.ADVERTISE), "adverts": adverts, "signatures": signatures}

    @property
    def gone(self) -> list[int]:
        """U2 without U3."""
        return sorted({*self.sharers} - {*self.held[Stage.MASKED]})

    def forget(self, *stages: Stage) -> None:
        """Their replies."""
        self.held |= {stage: dict.fromkeys(self.held[stage]) for stage in stages}

    def save(self, path: Path) -> None:
        """Write the file, mode 0600, durably and as a whole. It is for this machine alone: whoever can write it has the
        coordinator's key as well."""
        content = pickle.dumps(self)
        with replacing(path, mode=0o600) as file:
            file.write(hashlib.sha256(content).digest() + content)

    @classmethod
    def load(cls, path: Path) -> State:
        """Read what `save` wrote. Raises ConfigError: no such file, or not a saved session."""
        try:
            written = path.read_bytes()
            if hashlib.sha256(written[32:]).digest() != written[:32]:
                raise ValueError
            return pickle.loads(written[32:])
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror}", "Start a new session") from None
        except Exception:  # what unpickling raises where another version wrote it is anything
            raise ConfigError(f"{path}: not a saved session of this version", "Start a new session") from None


class SecureSession:
    """The coordinator's state machine: a session of one sum or two, each asked (`ask`) and played to its result.

    signer: the coordinator's key. state: of a new session, or of one that goes on with the same sets (`State.load`).
    Raises RosterMismatch where these and the roster do not belong together.
    """

    def __init__(self, roster: Roster, signer: Identity, state: State) -> None:
        state.terms.check(roster)
        if signer.public != roster.coordinator_key:
            raise RosterMismatch("the roster lists the coordinator with another key than this one")
        self.state, self._roster, self._signer = state, roster, signer
        self._queries, self._proof = np.zeros((0, 1), dtype=np.float32), NO_POOL

    @classmethod
    def begin(cls, roster: Roster, signer: Identity, terms: KeyTerms, invited: Collection[str]) -> SecureSession:
        """A new session with these terms. invited: names of the parties that are asked."""
        return cls(roster, signer, State(terms, tuple(sorted({roster.place(name) for name in invited}))))

    @property
    def summed(self) -> tuple[str, ...]:
        """Parties in the sum, U3, once the masked stage is closed."""
        return tuple(map(self._roster.name, sorted(self.state.held[Stage.MASKED])))

    def has(self, round_: int, query_set: str) -> bool:
        """Whether the sum of a round on these queries is there, under way, or the next."""
        result = self.state.results.get(round_)
        terms = self.state.sum if result is None else result.terms
        return self.can_ask(round_) or (terms is not None and (terms.round, terms.query_set) == (round_, query_set))

    def can_ask(self, round_: int) -> bool:
        """Whether the sum of this round is the next, and no other under way."""
        state = self.state
        left = [each for each in state.terms.rounds if each not in state.results]
        return left[:1] == [round_] and (state.sum is None or state.sum.round in state.results)

    def ask(self, terms: MaskedTerms, queries: np.ndarray, proof: PoolProof = NO_POOL) -> None:
        """The sum that is played from here on: the next one, or, after `State.load`, the one that was under way.

        queries: canonical float32 (queries, features). Raises as `MaskedTerms.check`; StageOrder where another sum is
        under way, or the session has none of this round; ConfigError where the queries are not those of the terms.
        """
        state = self.state
        terms.check(self._roster)
        if len(queries) != terms.queries or query_set_hash(queries) != terms.query_set:
            raise ConfigError("the queries are not those of the sum", "Pass the queries that it was made for")
        if terms != state.sum:
            if terms.sid != state.terms.sid or not self.can_ask(terms.round):
                raise StageOrder(f"a sum of round {terms.round} cannot be asked in this session now")
            if state.results:
                state.stage, state.sharers = Stage.MASKED, tuple(sorted(state.held[Stage.MASKED]))
                for stage in STAGES[STAGES.index(Stage.MASKED) :]:
                    state.held[stage], state.dropped[stage] = {}, {}
            state.sum = terms
        self._queries, self._proof = queries, proof

    def requests(self) -> dict[str, SecAggMessage]:
        """Of the stage that is due, for each party that is in and has not answered. Raises StageOrder if none is."""
        state, stage, t, sid = self.state, self._due(), self._roster.t, self.state.terms.sid_bytes
        if stage is Stage.MASKED:
            return self._masked_requests()
        if stage is Stage.ADVERTISE:
            request: SecAggMessage = messages.AdvertiseRequest(**self._signed_terms(state.terms))
        elif stage is Stage.SHARE:
            u1: dict[str, Any] = state.u1
            request = messages.ShareRequest(sid=sid, **u1)
        elif stage is Stage.CONSISTENCY:
            request = messages.ConsistencyRequest(sid=sid, round=self.terms.round, survivors=state.places(Stage.MASKED))
        else:
            request = messages.UnmaskRequest(
                sid=sid,
                round=self.terms.round,
                survivors=state.places(Stage.MASKED),
                dropped=np.array(state.gone, dtype=np.uint16),
                signers=state.places(Stage.CONSISTENCY)[:t],
                signatures=state.rows(Stage.CONSISTENCY, "signature")[:t],
            )
        return {self._roster.name(index): request for index in self._waiting()}

    def _signed_terms(self, terms: KeyTerms | MaskedTerms) -> dict[str, Any]:
        return {"terms": terms.canonical(), "signature": terms.sign(self._signer)}

    def _masked_requests(self) -> dict[str, SecAggMessage]:
        """Each receiver gets its own column of ciphertexts only; of a second sum none."""
        state, (places, proof) = self.state, self._proof
        advertised, sharers = state.places(Stage.ADVERTISE), np.array(state.sharers, dtype=np.uint16)
        common = {"sid": state.terms.sid_bytes, "sharers": sharers, **self._signed_terms(self.terms)}
        common |= {"queries": self._queries, "places": places, "proof": proof}
        columns = dict.fromkeys(self._waiting(), np.zeros((0, messages.sealed_bytes(1)), dtype=np.uint8))
        if not state.results:
            ciphertexts, at_sender = state.rows(Stage.SHARE, "ciphertexts"), np.searchsorted(advertised, sharers)
            for index in columns:
                others = sharers != index
                column = int(np.searchsorted(advertised, index))
                row = column - (column > at_sender[others])  # a sender has no row for itself
                columns[index] = ciphertexts[np.flatnonzero(others), row]
        return {
            self._roster.name(index): messages.MaskedRequest(**common, ciphertexts=column)
            for index, column in columns.items()
        }

    def take(self, replies: Mapping[str, WireModel | str]) -> None:
        """Check the replies of the stage that is due, by party, or why there is none, and close it, if enough are in.
        Raises ThresholdNotMet: too few valid replies. Those that came are kept, and the stage can be sent again;
        BadShare: what was shared or listed is false; the session cannot come to its end."""
        stage, state = self._due(), self.state
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
            keys = {index: reply.advert[0, :KEY_BYTES].tobytes() for index, reply in held.items()}
            times = Counter(keys.values())  # who copied from whom cannot be told
            for index in [index for index, key in sorted(keys.items()) if times[key] > 1]:
                del held[index]
                reasons[self._roster.name(index)] = "session key is used twice"
        need = self._roster.t if stage in (Stage.CONSISTENCY, Stage.UNMASK) else self._roster.least
        if len(held) < need:
            raise ThresholdNotMet(stage, len(held), need, reasons)
        if stage is Stage.SHARE:
            state.sharers = tuple(sorted(held))
            state.lists = {index: reply.lists for index, reply in held.items()}
        elif stage is Stage.MASKED:
            state.total = np.add.reduce([reply.y for reply in held.values()], axis=0, dtype=RING_DTYPE)
            state.forget(Stage.SHARE, Stage.MASKED)
        elif stage is Stage.UNMASK:
            self._finish()
        following = STAGES.index(stage) + 1
        state.stage = STAGES[following] if following < len(STAGES) else None

    @property
    def terms(self) -> MaskedTerms:
        """Of the sum that was asked."""
        if self.state.sum is None:
            raise StageOrder("no sum was asked in this session")
        return self.state.sum

    def _due(self) -> Stage:
        if self.state.stage is None:
            raise StageOrder("the sum is done")
        return self.state.stage

    def _waiting(self) -> list[int]:
        stage, held = self._due(), self.state.held
        before: Collection[int] = self.state.invited if stage is Stage.ADVERTISE else self.state.sharers
        if stage not in (Stage.ADVERTISE, Stage.MASKED):
            before = held[STAGES[STAGES.index(stage) - 1]]
        return sorted({*before} - {*held[stage]})

    def _view(self) -> tuple[bytes, bytes, bytes]:
        """Hashes of U1, U2 and U3 as they are now: what parties must sign, once each is closed."""
        state = self.state
        if state.stage in (Stage.ADVERTISE, Stage.SHARE):
            return b"", b"", b""
        return (
            messages.adverts_digest(state.terms.ctx, **state.u1),
            messages.set_digest("U2", self.terms.ctx, np.array(state.sharers, dtype=np.uint16)),
            messages.set_digest("U3", self.terms.ctx, state.places(Stage.MASKED)),
        )

    def _fault(self, stage: Stage, index: int, reply: WireModel, view: tuple[bytes, bytes, bytes]) -> str | None:
        """What is wrong with a reply, or None."""
        state, sums = self.state, len(self.state.terms.rounds)
        if not isinstance(reply, REPLIES[stage]):
            return "answers with a message of another stage"
        if reply.sid != state.terms.sid_bytes or reply.party != index:
            return "answers for another session or another party"
        if isinstance(reply, messages.AdvertiseReply):
            if reply.advert.shape != (1, messages.advert_bytes(sums)):
                return "advert is for another number of sums"
            if not self._signed(stage, state.terms.ctx, index, reply.advert.tobytes(), reply.signature):
                return "signature on its advert does not verify under the key in the roster"
            if is_low_order(reply.advert[0, :KEY_BYTES].tobytes()):
                return "session key is of low order"
        elif isinstance(reply, messages.ShareReply):
            peers = len(state.held[Stage.ADVERTISE]) - 1
            if reply.ciphertexts.shape != (peers, messages.sealed_bytes(sums)):
                return f"sends {len(reply.ciphertexts)} ciphertexts, {peers} are needed, for {sums} sums"
            if reply.lists.shape != (sums, messages.list_bytes(peers)):
                return "its lists are not of the seeds of its pairs in each sum"
        elif isinstance(reply, messages.MaskedReply):
            if reply.y.shape != self.terms.shape:
                return f"masked votes are {reply.y.shape}, must be {self.terms.shape}"
            statement = messages.masked_statement(*view[:2], reply.y)
            if not self._signed(stage, self.terms.ctx, index, statement, reply.signature):
                return "signature on its masked votes does not verify"
        elif isinstance(reply, messages.ConsistencyReply):
            if not self._signed(stage, self.terms.ctx, index, b"".join(view), reply.signature):
                return "signature on the set of survivors does not verify"
        elif isinstance(reply, messages.UnmaskReply):
            given, needed = (len(reply.shares), len(reply.seeds)), (len(state.sharers), len(state.gone))
            if given != needed:
                return "gives {} shares and {} seeds, {} and {} are needed".format(*given, *needed)
            if not are_shares(reply.shares):
                return "gives a share that is out of range"
        return None

    def _signed(self, stage: Stage, ctx: bytes, index: int, statement: bytes, signature: bytes) -> bool:
        return messages.first_unsigned(stage, ctx, self._roster.key(index), (index,), statement, signature) is None

    def _finish(self) -> None:
        """Masks come off: all secrets are rebuilt and held against what their owners are committed to before the first
        does (Bonawitz et al. 2017, figure 4, round 4)."""
        state, terms = self.state, self.terms
        secrets, survivors = self._rebuilt(), sorted(state.held[Stage.MASKED])
        seeds = {gone: self._seeds_of(gone, secrets[gone]) for gone in state.gone}
        total = np.array(state.total)
        masks = Masks(total, terms.ctx)
        for index in survivors:
            masks.subtract(secrets[index])
            for gone, of_peers in seeds.items():
                masks.add_pair(of_peers[index], gone, index)  # what it would have added cancels what the other did
        sums, clipped = clip(decode(total), terms.teachers * len(survivors), terms.deviation(len(survivors)))
        state.results[terms.round] = SecureSum(terms, sums, clipped, self.summed)
        state.forget(Stage.UNMASK)
        if terms.round == state.terms.rounds[-1]:
            state.lists.clear()

    def _rebuilt(self) -> dict[int, bytes]:
        """b of each party of U3, K of each of U2 without U3. Raises BadShare."""
        state, terms = self.state, self.terms
        holders = state.places(Stage.UNMASK)[: self._roster.t].tolist()
        rebuilt = rebuild(holders, state.rows(Stage.UNMASK, "shares")[: self._roster.t])
        secrets = {owner: secret.tobytes() for owner, secret in zip(state.sharers, rebuilt, strict=True)}
        first = KEY_BYTES + state.terms.rounds.index(terms.round) * KINDS * COMMITMENT_BYTES
        for owner, secret in secrets.items():
            kind, start = ("b", first) if owner in state.held[Stage.MASKED] else ("K", first + COMMITMENT_BYTES)
            promised = state.held[Stage.ADVERTISE][owner].advert[0, start : start + COMMITMENT_BYTES].tobytes()
            if messages.commitment(state.terms.ctx, owner, secret, terms.round, kind) != promised:
                fault = "its shares do not give what it is committed to: it, or one of them, lies"
                raise BadShare(self._roster.name(owner), fault)
        return secrets

    def _seeds_of(self, gone: int, k: bytes) -> dict[int, bytes]:
        """By peer in U1, from the list of one that is lost. Raises BadShare where it does not open, or where a survivor
        says otherwise: one of the two lied."""
        state, terms, name = self.state, self.terms, self._roster.name(gone)
        sealed = state.lists[gone][state.terms.rounds.index(terms.round)].tobytes()
        content = unseal(list_key(k, state.terms.ctx, gone, terms.round), sealed, self._view()[0])
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
    session: SecureSession, send: Send, path: Path | None = None, progress: Callable[[Stage], None] = lambda stage: None
) -> SecureSum:
    """Play the stages that are left of the sum that was asked. Raises as `SecureSession.take`.

    path: where the state is saved before requests leave and after replies are in, so that the session can go on after a
    crash (`State.load`). progress: told of each stage when it is closed.
    """
    state, round_ = session.state, session.terms.round
    save = partial(state.save, path) if path is not None else lambda: None
    save()
    while (stage := state.stage) is not None:
        replies = send(stage, session.requests())
        try:
            session.take(replies)
        finally:
            save()
        progress(stage)
    return state.results[round_]
