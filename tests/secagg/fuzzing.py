"""A seeded fuzzer of the protocol: mutated messages of every stage, to parties and to the coordinator.

Each mutated message goes to a copy of its receiver, as that is when the true one is due, so that every one meets a
session that is alive. What must hold:

- the receiver answers with a typed error, or leaves the sender out by name; no other exception, no message without end;
- what is accepted says the same as the true message, or is a choice that the protocol leaves to its sender;
- the true message is served afterwards, and the sum is the sum of the votes;
- over several sessions, whose coordinator asks old queries again, starts sessions side by side, leaves out whom it
  likes and unmasks what it can: no query is in two noisy sums that were unmasked, and exact sums are over whole blocks
  (`Sessions`).
"""

from __future__ import annotations

import shutil
import signal
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from flwr.app import RecordDict

from consilium.protocol.errors import MalformedMessage
from consilium.protocol.messages import WireModel
from consilium.protocol.records import ARRAYS, BODY, decode_array, encode_array, from_record, to_record
from consilium.protocol.refusals import Refused
from consilium.sums.errors import BadShare, SecAggError, ThresholdNotMet
from consilium.sums.masks.machine import Aggregation
from consilium.sums.masks.messages import (
    REPLIES,
    REQUESTS,
    STAGES,
    ConsistencyRequest,
    MaskedReply,
    MaskedRequest,
    SecAggMessage,
    Stage,
)
from consilium.sums.packing import pack_message
from consilium.sums.roster import whole
from tests.secagg.network import Federation, blocks_unchecked, make_queries

N, LONGEST = 5, 20
NUMBERS = ("uint8", "int8", "uint16", "int16", "uint32", "int64", "float32", "float64", "bool", "complex64")


class Forgery(AssertionError):
    """A message that its sender never wrote was taken for his."""


@contextmanager
def within(seconds: int) -> Iterator[None]:
    """TimeoutError if the block takes longer: a message must not make its receiver hang."""

    def late(*_: object) -> None:
        raise TimeoutError(f"a message took more than {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


class Fuzzer:
    """Mutates messages of sessions of five parties (t = u_min = 4). `outcomes` counts what became of them."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._folder = folder
        self._random = Random(seed)
        self._numbers = np.random.default_rng(seed)
        self._session = 0
        self._older: dict[type[WireModel], list[RecordDict]] = {}
        self.outcomes: Counter[str] = Counter()

    @property
    def tried(self) -> int:
        """Mutated messages so far."""
        return sum(self.outcomes.values())

    @blocks_unchecked()
    def session(self, each: int) -> None:
        """One session with `each` mutated messages per true one; a party may be mute, so that masks are rebuilt.

        Raises
        ------
        Forgery, TimeoutError, AssertionError, or whatever a receiver should not have raised.
        """
        self._session += 1
        folder = self._folder / str(self._session)
        folder.mkdir()
        teachers = self._random.choice((1, 3))
        federation = Federation(folder, N, teachers=teachers, queries=make_queries(3, seed=self._session))
        machine = federation.machine()
        mute = self._random.choice([None, *federation.names])
        mute_from = self._random.choice(STAGES[1:])
        survivors: list[str] = []
        saved = folder / "coordinator"
        while machine.stage is not None:
            stage = machine.stage
            replies: dict[str, WireModel | str] = {}
            for name, request in machine.requests().items():
                self._attack_party(federation, stage, name, request, each)
                reply = federation.serve(name, stage, from_record(to_record(request), REQUESTS[stage]))
                if name != mute or STAGES.index(stage) < STAGES.index(mute_from):
                    replies[name] = reply
                self._keep(request)
            if stage is Stage.MASKED:
                survivors = sorted(replies)
            machine.save(saved)
            for name in replies:
                self._attack_coordinator(federation, saved, stage, name, replies, survivors, each)
            for reply in replies.values():
                assert isinstance(reply, WireModel)
                self._keep(reply)
            machine.take(replies)
        assert (machine.result().sums == federation.total(survivors)).all(), "the sum is not that of the votes"
        shutil.rmtree(folder)

    def _keep(self, message: WireModel) -> None:
        kept = self._older.setdefault(type(message), [])
        kept.append(to_record(message))
        del kept[:-20]

    def _attack_party(self, federation: Federation, stage: Stage, name: str, true: SecAggMessage, each: int) -> None:
        own, spare = self._folder / str(self._session) / f"{name}.db", self._folder / f"{name}.spare"
        for _ in range(each):
            record = self._mutated(true)
            shutil.copy(own, spare) if own.exists() else spare.unlink(missing_ok=True)
            outcome = "taken"
            taken = reply = None
            with within(LONGEST):
                try:
                    taken = from_record(record, REQUESTS[stage])
                    reply = federation.serve(name, stage, taken)
                except (SecAggError, MalformedMessage, Refused) as error:
                    outcome = type(error).__name__
            if outcome == "taken" and taken is not None and not same(taken, true):
                if complained(federation, name, taken, true, reply):
                    outcome = "complaint"
                elif free_choice(federation, name, taken):
                    outcome = "another choice"
                else:
                    raise Forgery(f"{name} took a request of stage {stage} that was never sent")
            self.outcomes[f"party, {outcome}"] += 1
            if outcome not in ("taken", "another choice", "complaint"):
                # what was refused has changed nothing: the session serves the true request
                federation.serve(name, stage, from_record(to_record(true), REQUESTS[stage]))
            # the attack was on the real party; put back what it was
            shutil.copy(spare, own) if spare.exists() else own.unlink(missing_ok=True)

    def _attack_coordinator(
        self,
        federation: Federation,
        saved: Path,
        stage: Stage,
        name: str,
        replies: dict[str, WireModel | str],
        survivors: list[str],
        each: int,
    ) -> None:
        true = replies[name]
        assert isinstance(true, WireModel)
        for _ in range(each):
            machine = Aggregation.load(saved, federation.roster, federation.coordinator, federation.queries)
            outcome = "taken"
            reply: WireModel | str
            with within(LONGEST):
                try:
                    reply = from_record(self._mutated(true), REPLIES[stage])
                except MalformedMessage:
                    reply, outcome = "malformed", "MalformedMessage"
                try:
                    dropped = machine.take({**replies, name: reply}).dropped
                except (ThresholdNotMet, BadShare) as error:
                    dropped = machine.dropped.get(stage, {})
                    assert isinstance(error, BadShare) or name in dropped, "the wrong party was left out"
                    outcome = type(error).__name__ if outcome == "taken" else outcome
                else:
                    assert set(dropped) <= {name, *(set(federation.names) - set(replies))}, (
                        "an honest party was left out"
                    )
                    if outcome == "taken" and name in dropped:
                        outcome = "left out"
            if stage is Stage.UNMASK and machine.stage is None:
                assert (machine.result().sums == federation.total(survivors)).all(), "a lie changed the sum"
            # shares given in the end are not signed: the coordinator finds out when it puts them together
            unsigned = stage is Stage.UNMASK
            if outcome == "taken" and isinstance(reply, WireModel) and not same(reply, true) and not unsigned:
                raise Forgery(f"the coordinator took a reply of stage {stage} that {name} never wrote")
            self.outcomes[f"coordinator, {outcome}"] += 1

    def _mutated(self, message: WireModel) -> RecordDict:
        record = to_record(message)
        for _ in range(self._random.choice((1, 1, 1, 2, 5))):
            record = self._mutate_once(record, type(message))
        return record

    def _mutate_once(self, record: RecordDict, model: type[WireModel]) -> RecordDict:
        random = self._random
        if random.random() < 0.05:
            kinds = [kind for kind, kept in self._older.items() if kept]
            if kinds:  # another session's message, of this kind or of any other
                kind = model if model in kinds and random.random() < 0.7 else random.choice(kinds)
                return to_record(from_record(random.choice(self._older[kind]), kind))
        body: dict[str, Any] = dict(record.config_records[BODY]) if BODY in record.config_records else {}
        arrays = dict(record.array_records[ARRAYS]) if ARRAYS in record.array_records else {}
        if arrays and random.random() < 0.6:
            name = random.choice(list(arrays))
            self._mutate_array(arrays, name)
        elif body:
            self._mutate_field(body, random.choice(list(body)))
        changed = RecordDict()
        from flwr.app import ArrayRecord, ConfigRecord

        if random.random() > 0.01:
            changed[BODY] = ConfigRecord(body)
        if arrays:
            changed[ARRAYS] = ArrayRecord(arrays)
        if random.random() < 0.01:
            changed["more"] = ConfigRecord({"x": 1})
        return changed

    def _mutate_array(self, arrays: dict[str, Any], name: str) -> None:
        random = self._random
        array = arrays[name]
        match random.randrange(9):
            case 0 | 1 | 2:
                content = bytearray(array.data)
                if content:
                    content[random.randrange(len(content))] ^= 1 << random.randrange(8)
                array.data = bytes(content)
            case 3:
                array.dtype = random.choice(NUMBERS)
            case 4:
                array.shape = tuple(random.choice((0, 1, 2, 5, -1, 2**40)) for _ in range(random.randrange(4)))
            case 5:
                array.data = array.data[: random.randrange(len(array.data) + 1)] + random.randbytes(random.randrange(9))
            case 6:
                del arrays[name]
            case _:
                try:
                    matrix = decode_array(array)
                except MalformedMessage:
                    return
                arrays[name] = encode_array(self._another(matrix))

    def _another(self, matrix: np.ndarray) -> np.ndarray:
        random = self._random
        if matrix.size == 0:
            return matrix
        match random.randrange(6):
            case 0:
                return matrix[: random.randrange(len(matrix) + 1)] if matrix.ndim else matrix
            case 1:
                return np.concatenate([matrix, matrix[-1:]]) if matrix.ndim else matrix
            case 2:
                return self._numbers.permutation(matrix) if matrix.ndim else matrix
            case 3:
                return np.zeros_like(matrix)
            case 4:
                return matrix.astype(random.choice(("uint8", "uint16", "uint32", "int64", "float32", "float64")))
            case _:
                copy = matrix.copy()
                copy[tuple(random.randrange(n) for n in copy.shape)] = np.int64(random.randrange(1000)).astype(
                    copy.dtype
                )
                return copy

    def _mutate_field(self, body: dict[str, Any], name: str) -> None:
        random = self._random
        value = body[name]
        match random.randrange(6):
            case 0:
                del body[name]
            case 1:
                body["unknown"] = 1
            case 2:
                body[name] = random.choice([0, -1, 2**62, 1.5, float("nan"), "", "x", b"", True, [1, 2], ["a"], [b"a"]])
            case _ if isinstance(value, bytes) and value:
                content = bytearray(value)
                content[random.randrange(len(content))] ^= 1 << random.randrange(8)
                cut = random.choice((len(content), len(content), random.randrange(len(content) + 1)))
                body[name] = bytes(content[:cut]) + random.randbytes(random.choice((0, 0, 0, 3)))
            case _ if isinstance(value, int):
                body[name] = value + random.choice((-1, 1, 2, 1000))
            case _:
                body[name] = value


class Sessions:
    """A coordinator that lies about everything but signatures, against parties that keep their state.

    It asks sets that overlap, under two federations, keeps sessions open and goes on with any of them at random, over
    any invited parties, any U3 within U2, and unmasks whatever t parties sign. What parties refuse, they refuse with a
    typed error. What came out is held against the two rules.
    """

    PARTIES, POOL, OPEN = 7, 6, 4

    def __init__(self, folder: Path, seed: int) -> None:
        self._random = Random(seed)
        self._federation = Federation(folder, self.PARTIES, teachers=1, queries=make_queries(self.POOL, seed=seed))
        self._federation.noise = lambda sigma, shape: np.zeros(shape, dtype=np.int64)
        self._pool = self._federation.queries
        self._open: list[tuple[Aggregation, frozenset[int]]] = []
        self.unmasked: list[tuple[bool, frozenset[int], frozenset[int]]] = []
        self.outcomes: Counter[str] = Counter()

    def step(self) -> None:
        """Begin a session, or take one of those that are open one stage further."""
        random = self._random
        if len(self._open) < self.OPEN and random.random() < 0.4:
            asked = frozenset(random.sample(range(self.POOL), random.choice((1, 2))))
            queries = np.ascontiguousarray(self._pool[sorted(asked)])
            noise = random.choice(({}, {"sigma": 2.0, "noise_shares": 2}))
            terms = self._federation.terms(queries=queries, federation=random.choice("ef") * 64, **noise)
            out = random.choice((0, 0, 1, 2, 2))
            invited = random.sample(self._federation.names, self.PARTIES - out)
            self._open.append(
                (self._federation.machine(terms, queries=queries, invited=invited, choose=self._choose), asked)
            )
        if not self._open:
            return
        at = random.randrange(len(self._open))
        machine, asked = self._open[at]
        assert machine.stage is not None
        replies: dict[str, WireModel | str] = {}
        for name, request in machine.requests().items():
            try:
                replies[name] = self._federation.serve(name, machine.stage, request)
            except SecAggError as error:
                self.outcomes[f"{machine.stage}, {type(error).__name__}"] += 1
        try:
            machine.take(replies)
        except (ThresholdNotMet, BadShare):
            if random.random() < 0.5:
                del self._open[at]
            return
        if machine.stage is None:
            exact = machine.terms.sigma == 0
            self.unmasked.append((exact, frozenset(machine.summed), asked))
            self.outcomes["unmasked, exact" if exact else "unmasked"] += 1
            del self._open[at]

    def _choose(self, answered: Collection[int]) -> Collection[int]:
        roster = self._federation.roster
        blocks = whole(roster.blocks, answered)
        if len(blocks) >= roster.u_min and self._random.random() < 0.5:
            return blocks
        return self._random.sample(sorted(answered), self._random.randint(roster.u_min, len(answered)))

    def check(self) -> None:
        """Raise Forgery if a rule was broken."""
        asked = Counter(query for exact, _, queries in self.unmasked for query in queries if not exact)
        if asked and max(asked.values()) > 1:
            raise Forgery("a query is in two noisy sums that were unmasked")
        blocks = self._federation.roster.blocks
        if any(exact and summed != whole(blocks, summed) for exact, summed, _ in self.unmasked):
            raise Forgery("an exact sum that was unmasked has a part of a block in it")


def same(message: WireModel, true: WireModel) -> bool:
    """Whether both say the same, byte for byte."""
    return type(message) is type(true) and pack_message(message) == pack_message(true)


def complained(federation: Federation, name: str, taken: WireModel, true: WireModel, reply: WireModel | None) -> bool:
    """Whether the party has named the very peers whose sealed shares were changed, and nothing else was."""
    if not isinstance(taken, MaskedRequest) or not isinstance(true, MaskedRequest):
        return False
    sealed = {field: getattr(true, field) for field in ("nonces", "ciphertexts", "challenges", "values")}
    if not isinstance(reply, MaskedReply) or not same(taken.model_copy(update=sealed), true):
        return False
    peers = true.sharers[true.sharers != federation.roster.place(name)]
    changed = np.any([(getattr(taken, field) != rows).any(axis=1) for field, rows in sealed.items()], axis=0)
    return reply.complaints.tolist() == peers[changed].tolist()


def free_choice(federation: Federation, name: str, taken: WireModel) -> bool:
    """Whether a coordinator may ask this instead: who is in the sum is its choice until the parties have signed it."""
    if not isinstance(taken, ConsistencyRequest):
        return False
    chosen = taken.survivors.tolist()
    return len(chosen) >= federation.roster.u_min and federation.roster.place(name) in chosen
