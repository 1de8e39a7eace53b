"""Hostile messages of all kinds, made from real ones: every request of a federation is sent damaged many times beside
the real one, and damaged replies are given to the coordinator beside the real ones.

A damaged message is never one that an honest node could have sent: fields are missing, too many, of other types or out
of bounds, arrays lie about their shape, type or length, and bits are flipped in what is hashed, signed or sealed.
"""

from __future__ import annotations

import math
import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from consilium.accounting.mechanisms import GNMax
from consilium.coordinator.collection.exchange import Failure, exchange
from consilium.coordinator.collection.plaintext import PLAINTEXT
from consilium.coordinator.events import EventLog
from consilium.coordinator.federation import FederationRun
from consilium.protocol.choices import fault
from consilium.protocol.config_files import load
from consilium.protocol.errors import ConfigError, MalformedMessage
from consilium.protocol.label_source import LabelSource
from consilium.protocol.messages import HelloReply, TrainReply, VoteReply, WireModel
from consilium.protocol.pool import PoolTree
from consilium.protocol.queries import canonical_queries, query_set_hash
from consilium.protocol.records import ARRAYS, BODY, SALT_BYTES, from_record, to_record
from consilium.protocol.refusals import Refused
from consilium.sums.errors import SecAggError
from tests.federation import ACTIONS, REQUESTS, FakeTransport, make_config, make_homes, make_rows, make_secure
from tests.federation import HomeFile as PartyFile

FREE = {"batch", "late", "party", "program", "starts", "teachers"}
"""Fields in which another number or name may be honest too: they are only given other types and impossible values."""
TAKEN = {"nonces", "ciphertexts", "challenges", "values", "choices"}
"""Arrays in which other bits may be honest too: of what peers sealed, which is answered with a complaint about the
peer, and of choices, which may be other classes."""
LONG = "x" * 20_000
CLEAR_REPLIES: dict[str, type[WireModel]] = {model.kind: model for model in (HelloReply, TrainReply, VoteReply)}
"""Replies of secure sums are damaged in `tests.sums`, at every stage."""


def damaged(record: RecordDict, generator: np.random.Generator) -> RecordDict:
    """A copy with one thing wrong."""
    fields: dict[str, Any] = dict(record.config_records[BODY])
    arrays: dict[str, Array] = dict(record.array_records[ARRAYS]) if ARRAYS in record.array_records else {}
    names = list(fields) + list(arrays)
    name = names[int(generator.integers(len(names)))] if names else ""
    how = int(generator.integers(12))
    if how == 0:
        return RecordDict({"nothing": ConfigRecord({"x": 1})} if generator.random() < 0.5 else {})
    if how == 1 or not name:
        fields["more"] = 1
    elif how == 2:
        (fields if name in fields else arrays).pop(name)
    elif name in fields:
        fields[name] = _field(name, fields[name], generator)
    else:
        arrays[name] = _array(arrays[name], 6 if name in TAKEN else 7, generator)
    made = RecordDict({BODY: ConfigRecord(fields)})
    if arrays:
        made[ARRAYS] = ArrayRecord(arrays)
    return made


def _field(name: str, value: Any, generator: np.random.Generator) -> Any:
    others = [b"\x00", LONG, 1.5, [1, 2], math.nan, -1, -(2**62), ["x"] * 5000]
    if name not in FREE:
        others += [2**62, ""]
    choice = int(generator.integers(len(others) + 6))
    if choice < len(others):
        other = others[choice]
        return b"" if type(other) is type(value) and other == value else other
    if name in FREE:
        return b"no number"
    if isinstance(value, bytes) and value:
        flipped = bytearray(value)
        flipped[int(generator.integers(len(value)))] ^= 1 << int(generator.integers(8))
        return bytes(flipped)
    if isinstance(value, str) and value:
        at = int(generator.integers(len(value)))
        return value[:at] + ("0" if value[at] != "0" else "1") + value[at + 1 :]
    if isinstance(value, bool):
        return not value
    return value + 1 if isinstance(value, int) else secrets.token_hex(32)


def _array(array: Array, ways: int, generator: np.random.Generator) -> Array:
    shape, dtype, data = list(array.shape), array.dtype, bytes(array.data)
    match int(generator.integers(ways)):
        case 0:
            shape = [2**40, *shape[1:]]
        case 1:
            shape = [*shape, 1]
        case 2:
            shape = [-1] * len(shape)
        case 3:
            dtype = "object" if generator.random() < 0.5 else "float64"
        case 4:
            data = data[:-1] if data else b"\x00"
        case 5:
            data = data + b"\x00" * 100_000
        case 6:
            if len(data) == SALT_BYTES:
                return Array(dtype=dtype, shape=(3,), stype=array.stype, data=data)
            flipped = bytearray(data)
            flipped[int(generator.integers(SALT_BYTES, len(data)))] ^= 1 << int(generator.integers(8))
            data = bytes(flipped)
    return Array(dtype=dtype, shape=tuple(shape), stype=array.stype, data=data)


class HostileTransport(FakeTransport):
    """Real parties that are sent `copies` damaged requests before each real one. `accepted`: what should not be."""

    def __init__(self, homes: list[Path], copies: int, seed: int = 0) -> None:
        super().__init__(homes)
        self.copies, self.generator = copies, np.random.default_rng(seed)
        self.sent, self.accepted, self.outcomes = Counter(), Counter(), Counter()
        self.shape, self.query_set = (0, 0), ""

    def exchange(
        self, requests: Mapping[int, WireModel], timeout: float, on_reply: Callable[[int, int], None]
    ) -> Iterator[tuple[int, RecordDict | Failure]]:
        whole = {node: (request.kind, to_record(request)) for node, request in requests.items()}
        known = all(kind not in ("query.hello", "train.teacher") for kind, _ in whole.values())
        if known:  # the first hello is the one that is pinned
            self._to_parties(whole)
        replies = dict(super().exchange(requests, timeout, on_reply))
        if not known:
            self._to_parties(whole)
        for node, reply in replies.items():
            kind = requests[node].kind
            if kind in CLEAR_REPLIES and isinstance(reply, RecordDict) and BODY in reply.config_records:
                for _ in range(self.copies):
                    self._to_coordinator(node, kind, damaged(reply, self.generator))
        yield from replies.items()

    def _to_parties(self, whole: Mapping[int, tuple[str, RecordDict]]) -> None:
        for node, (kind, record) in whole.items():
            for _ in range(self.copies):
                self._to_party(node, kind, damaged(record, self.generator))

    def _to_party(self, node: int, kind: str, record: RecordDict) -> None:
        self.sent["party"] += 1
        party = self.parties[node]
        try:
            ACTIONS[kind](party, from_record(record, REQUESTS[kind]))
        except (Refused, SecAggError, MalformedMessage, ConfigError) as error:
            self.outcomes[error.refusal.rule if isinstance(error, Refused) else type(error).__name__] += 1
        else:
            self.accepted[f"party {kind}"] += 1

    def _to_coordinator(self, node: int, kind: str, record: RecordDict) -> None:
        self.sent["coordinator"] += 1
        replies = exchange(_Given({node: record}), {}, CLEAR_REPLIES[kind], 1, lambda *_: None)
        if node in replies.failures:
            self.outcomes["coordinator: malformed"] += 1
        else:
            self._accepted_reply(kind, replies.answers[node])

    def _accepted_reply(self, kind: str, reply: Any) -> None:
        """A reply whose form is right: its content must be refused where it is looked at."""
        if (
            isinstance(reply, VoteReply)
            and not fault(reply.choices, *self.shape, 1)
            and reply.query_set == self.query_set
        ):
            self.accepted[f"coordinator {kind}"] += 1
        else:
            self.outcomes["coordinator: left out by name"] += 1


class _Given:
    """A transport that has the replies already."""

    def __init__(self, replies: dict[int, RecordDict | Failure]) -> None:
        self._replies = replies

    def nodes(self) -> list[int]:
        return list(self._replies)

    def exchange(
        self, requests: object, timeout: float, on_reply: object
    ) -> Iterator[tuple[int, RecordDict | Failure]]:
        yield from self._replies.items()


def attack(folder: Path, votes: str, copies: int, seed: int = 0) -> HostileTransport:
    """A whole federation of four parties that pin its terms, with `copies` damaged messages beside each real one."""
    homes = make_homes(folder / "parties", 4)
    keys = make_secure(homes, folder)
    pool = canonical_queries(make_rows(30, 5)[0], 3)
    tree = PoolTree.of_rows(pool)
    roster = keys.roster.digest if votes != "plaintext" else ""
    config = make_config(
        collection=votes, roster=roster, public=tree.terms(0.01), mechanism=GNMax(sigma=3.0), seed=seed
    )
    for home in homes:
        settings = load(home / "party.toml", PartyFile).model_dump(mode="json", exclude_none=True)
        (home / "party.toml").write_text(tomli_w.dumps({**settings, "terms": "terms.json"}))
        (home / "terms.json").write_text(config.terms().model_dump_json())
    transport = HostileTransport(homes, copies, seed)
    transport.shape, transport.query_set = (20, 2), query_set_hash(pool[:20])
    log = EventLog(folder / "events.jsonl")

    def student(source: LabelSource) -> None:
        source.ask(pool[:20])

    try:
        collect = keys if roster else PLAINTEXT
        FederationRun(transport, config, folder, log, student, collect, pool=tree).run()
    finally:
        log.close()
    return transport
