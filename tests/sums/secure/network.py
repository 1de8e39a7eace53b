"""A federation in one process: real wire code, parties that restart at every message, and a network that misbehaves."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from consilium.party.store import Store
from consilium.protocol.errors import ConsiliumError
from consilium.protocol.identity import Identity
from consilium.protocol.noise import NoiseSource
from consilium.protocol.queries import canonical_queries
from consilium.protocol.records import from_record, to_record
from consilium.protocol.refusals import Refused
from consilium.sums.roster import Roster
from consilium.sums.secure.coordinator import SecureSession, SecureSum, State, drive
from consilium.sums.secure.messages import REPLIES, MaskedTerms, SecAggMessage, Stage
from consilium.sums.secure.party import ANSWERS, Session, pack
from consilium.sums.terms import QuerySet, R, SumTerms
from tests.coordinator.mechanisms.drawing import NoNoise

FEDERATION = "f" * 64


Change = Callable[[Stage, str, Any], Any]


def make_queries(count: int = 4, features: int = 3, seed: int = 0) -> np.ndarray:
    """Distinct canonical queries, float32 (count, features)."""
    return canonical_queries(np.random.default_rng(seed).normal(size=(count, features)), features)


def make_votes(queries: int, classes: int, teachers: int, seed: int) -> np.ndarray:
    """Random votes, uint16 (queries, classes), whose rows sum to `teachers`."""
    rng = np.random.default_rng(seed)
    return rng.multinomial(teachers, np.full(classes, 1 / classes), size=queries).astype(np.uint16)


@dataclass
class FakeVoter:
    """A `Voter` whose votes are given, and which counts what it charged, in its store."""

    federation: Federation
    name: str
    store: Store
    identity: Identity
    own_roster: Roster

    def roster(self, kind: type[R]) -> R:
        assert isinstance(self.own_roster, kind)
        return self.own_roster

    def check(self, terms: SumTerms) -> None:
        self.federation.check(self.name, terms)

    def votes(self, terms: SumTerms, query_set: QuerySet, again: bool) -> np.ndarray:
        assert again and query_set.queries.dtype == np.float32
        self.check(terms)
        self.federation.charged.append((self.name, terms.round))
        self.store.give(terms.federation, self.name, terms.round, b"", terms.queries)
        return self.federation.votes[self.name][: terms.queries]

    def noise(self, terms: SumTerms) -> NoiseSource:
        return self.federation.noise


@dataclass
class Federation:
    """Parties with a state file each, a coordinator, and the votes that they will give."""

    folder: Path
    n: int
    classes: int = 3
    teachers: int = 2
    colluders: int = 0
    least: int | None = None
    sigma: float = 30.0
    noise: NoiseSource = field(default_factory=NoNoise)
    queries: np.ndarray = field(default_factory=make_queries)
    in_memory: bool = False

    def __post_init__(self) -> None:
        self.names = [f"party-{index:03d}" for index in range(self.n)]
        self.identities = {name: Identity.generate() for name in self.names}
        self.coordinator = Identity.generate()
        self.roster = Roster.build(
            {name: identity.public.hex() for name, identity in self.identities.items()},
            self.coordinator.public.hex(),
            self.colluders,
            self.least,
        )
        self.votes = {
            name: make_votes(len(self.queries), self.classes, self.teachers, seed)
            for seed, name in enumerate(self.names)
        }
        self.charged: list[tuple[str, int]] = []
        self.check: Callable[[str, SumTerms], None] = lambda name, terms: None
        self._stores: dict[str, Store] = {}
        self.last: SecureSession

    def voter(self, name: str, **changes) -> FakeVoter:
        """A new process of this party: nothing but its files lives on."""
        values = {"store": self.store(name), "identity": self.identities[name], "own_roster": self.roster}
        return FakeVoter(self, name, **{**values, **changes})

    def store(self, name: str) -> Store:
        """Its file, opened anew; or its memory."""
        if not self.in_memory:
            return Store(self.folder / f"{name}.db", durable=False)
        return self._stores.setdefault(name, Store.in_memory())

    def serve(self, name: str, request: Any, voter: FakeVoter | None = None) -> Any:
        """What the party answers, in a new process."""
        return ANSWERS[type(request)](voter or self.voter(name), request)

    def session(self, queries: np.ndarray | None = None, **changes) -> SecureSession:
        """A coordinator at the start of a session, on these queries or all."""
        invited, rows = changes.pop("invited", self.names), self.queries if queries is None else queries
        shape = changes.pop("classes", self.classes), changes.pop("teachers", self.teachers)
        values = {"sigma": self.sigma, "noise_shares": self.roster.sure, **changes}
        terms = MaskedTerms.of_queries(self.roster, values.pop("federation", FEDERATION), rows, *shape, **values)
        self.last = SecureSession(self.roster, self.coordinator, State(terms, tuple(invited)), rows)
        return self.last

    def total(self, names: Collection[str], queries: int | None = None) -> np.ndarray:
        return sum((self.votes[name].astype(np.int64) for name in names), np.zeros((1, 1), int))[:queries]

    def memory(self, name: str, session: SecureSession) -> dict:
        """What a colluder knows: its own file."""
        found = Session.find(self.store(name), session.terms.sid_bytes)
        assert found is not None
        return found.memory


@dataclass
class Network:
    """`send` of `drive`. lost: parties by stage whose request is lost. twice: every request is delivered twice, and the
    answers must be the same bytes. on_request, on_reply: change or withhold (None) one message."""

    federation: Federation
    lost: Mapping[Stage, Collection[str]] = field(default_factory=dict)
    twice: bool = False
    on_request: Change = lambda stage, name, request: request
    on_reply: Change = lambda stage, name, reply: reply
    errors: dict[tuple[Stage, str], Exception] = field(default_factory=dict)
    seen: list[tuple[Stage, str, Any]] = field(default_factory=list)
    requests: dict[tuple[Stage, str], Any] = field(default_factory=dict)

    def send(self, stage: Stage, requests: Mapping[str, Any]) -> dict[str, Any]:
        replies: dict[str, Any] = {}
        for name in requests:
            request = self.on_request(stage, name, requests[name])
            if request is None or name in self.lost.get(stage, ()):
                continue
            self.requests[stage, name] = request
            reply = self._deliver(stage, name, from_record(to_record(request), type(request)))
            if reply is None:
                continue
            self.seen.append((stage, name, reply))
            changed = self.on_reply(stage, name, reply)
            if changed is not None:
                replies[name] = changed
        return replies

    def _deliver(self, stage: Stage, name: str, request: SecAggMessage) -> Any:
        try:
            reply = self.federation.serve(name, request)
            if self.twice:
                assert pack(self.federation.serve(name, request)) == pack(reply)
        except (ConsiliumError, Refused) as error:
            self.errors[stage, name] = error
            return None
        return from_record(to_record(reply), REPLIES[stage])


def play(federation: Federation, network: Network | None = None) -> SecureSum:
    return drive(federation.session(), (network or Network(federation)).send)


def altered(message: Any, **changes) -> Any:
    return message.model_copy(update=changes)


def at(stage: Stage, party: str, change: Callable[[Any], Any]) -> Callable[[Stage, str, Any], Any]:
    """Changes, or withholds, this one message."""
    return lambda stage_, name, message: change(message) if (stage_, name) == (stage, party) else message


def flipped(content: bytes, at: int = 0) -> bytes:
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


def flipped_cell(array: np.ndarray, *at: int) -> np.ndarray:
    copy = array.copy()
    copy[at] ^= 1
    return copy


def run_until(federation: Federation, stage: Stage | None, network: Network | None = None) -> SecureSession:
    session, network = federation.session(), network or Network(federation)
    while (due := session.state.stage) is not stage:
        assert due is not None
        session.take(network.send(due, session.requests()))
    return session
