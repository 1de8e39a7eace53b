"""A federation in one process: real wire code, parties that restart at every message, and a network that misbehaves."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from consilium.party.masked_session import PartySession
from consilium.party.store import Store
from consilium.protocol.errors import ConsiliumError
from consilium.protocol.identity import Identity
from consilium.protocol.messages import WireModel
from consilium.protocol.queries import canonical_queries
from consilium.protocol.records import from_record, to_record
from consilium.protocol.refusals import Refused
from consilium.sums.packing import pack_message
from consilium.sums.roster import Roster
from consilium.sums.secure.machine import Aggregation
from consilium.sums.secure.messages import REPLIES, REQUESTS, SecAggMessage, Stage
from consilium.sums.secure.terms import MaskedTerms

FEDERATION = "f" * 64
OTHER_FEDERATION = "e" * 64


def no_noise(sigma: float, shape: tuple[int, int]) -> np.ndarray:
    """Of parties whose sum is held against the plain one."""
    return np.zeros(shape, dtype=np.int64)


Request = Callable[[Stage, str, SecAggMessage], SecAggMessage | None]
Reply = Callable[[Stage, str, WireModel], WireModel | str | None]


def make_queries(count: int = 4, features: int = 3, seed: int = 0) -> np.ndarray:
    """Distinct canonical queries, float32 (count, features)."""
    return canonical_queries(np.random.default_rng(seed).normal(size=(count, features)), features)


def make_votes(queries: int, classes: int, teachers: int, seed: int) -> np.ndarray:
    """Random votes, uint16 (queries, classes), whose rows sum to `teachers`."""
    rng = np.random.default_rng(seed)
    return rng.multinomial(teachers, np.full(classes, 1 / classes), size=queries).astype(np.uint16)


@dataclass
class Federation:
    """Parties with a state file each, a coordinator, and the votes that they will give."""

    folder: Path
    n: int
    classes: int = 3
    teachers: int = 2
    colluders: int = 0
    least_survivors: int | None = None
    noise: Callable[[float, tuple[int, int]], np.ndarray] = no_noise
    queries: np.ndarray = field(default_factory=make_queries)

    def __post_init__(self) -> None:
        self.names = [f"party-{index:03d}" for index in range(self.n)]
        self.identities = {name: Identity.generate() for name in self.names}
        self.coordinator = Identity.generate()
        self.roster = Roster.build(
            {name: identity.public.hex() for name, identity in self.identities.items()},
            self.coordinator.public.hex(),
            self.colluders,
            self.least_survivors,
        )
        self.votes = {
            name: make_votes(len(self.queries), self.classes, self.teachers, seed)
            for seed, name in enumerate(self.names)
        }
        self.balloted: list[str] = []

    def party(self, name: str, **changes) -> PartySession:
        """A new process of this party: nothing but its files lives on."""
        values = {"store": self.store(name), "identity": self.identities[name], "roster": self.roster}
        return PartySession(**{**values, **changes}, party=name)

    def store(self, name: str) -> Store:
        """Its file, opened anew."""
        return Store(self.folder / f"{name}.db", durable=False)

    def terms(self, **changes) -> MaskedTerms:
        """A new session's terms."""
        values = {"queries": self.queries, "classes": self.classes, "teachers": self.teachers}
        noise = {"sigma": 3.0, "noise_shares": 2}
        return MaskedTerms.of_queries(
            self.roster, changes.pop("federation", FEDERATION), **{**values, **noise, **changes}
        )

    def machine(self, terms: MaskedTerms | None = None, **changes) -> Aggregation:
        """A coordinator at the start of a session."""
        values = {"queries": self.queries, "invited": self.names, **changes}
        return Aggregation.begin(self.roster, self.coordinator, terms or self.terms(), **values)

    def voting_rule(self, name: str) -> Callable[[np.ndarray], np.ndarray]:
        """The party's voting rule, which counts how often it was asked."""

        def voting_rule(queries: np.ndarray) -> np.ndarray:
            assert queries.dtype == np.float32
            self.balloted.append(name)
            return self.votes[name][: len(queries)]

        return voting_rule

    def serve(self, name: str, stage: Stage, request: WireModel) -> WireModel:
        """What the party answers, in a new process."""
        party = self.party(name)
        match stage:
            case Stage.ADVERTISE:
                return party.advertise(request, lambda terms: None)  # type: ignore[arg-type]
            case Stage.SHARE:
                return party.share(request)  # type: ignore[arg-type]
            case Stage.MASKED:
                return party.masked(request, self.voting_rule(name), self.noise)  # type: ignore[arg-type]
            case Stage.CONSISTENCY:
                return party.consistency(request)  # type: ignore[arg-type]
            case Stage.UNMASK:
                return party.unmask(request)  # type: ignore[arg-type]

    def total(self, names: Collection[str]) -> np.ndarray:
        """The plain sum of votes, int64."""
        return sum(
            (self.votes[name].astype(np.int64) for name in names), np.zeros((len(self.queries), self.classes), int)
        )


@dataclass
class Network:
    """`send` of `drive`.

    lost: parties by stage whose request is lost. mute: parties by stage whose reply is lost. late: replies that come
    only when the stage is sent again. twice: every request is delivered twice, and the answers must be the same bytes.
    on_request, on_reply: change or withhold (None) one message.
    """

    federation: Federation
    lost: Mapping[Stage, Collection[str]] = field(default_factory=dict)
    mute: Mapping[Stage, Collection[str]] = field(default_factory=dict)
    late: Mapping[Stage, Collection[str]] = field(default_factory=dict)
    twice: bool = False
    shuffle: random.Random | None = None
    on_request: Request = lambda stage, name, request: request
    on_reply: Reply = lambda stage, name, reply: reply
    errors: dict[tuple[Stage, str], Exception] = field(default_factory=dict)
    seen: list[tuple[Stage, str, WireModel]] = field(default_factory=list)
    _held: dict[tuple[Stage, str], WireModel] = field(default_factory=dict)

    def send(self, stage: Stage, requests: Mapping[str, SecAggMessage]) -> dict[str, WireModel | str]:
        names = list(requests)
        if self.shuffle is not None:
            self.shuffle.shuffle(names)
        replies: dict[str, WireModel | str] = {}
        for name in names:
            if (stage, name) in self._held:
                replies[name] = self._held.pop((stage, name))
                continue
            request = self.on_request(stage, name, requests[name])
            if request is None or name in self.lost.get(stage, ()):
                continue
            request = from_record(to_record(request), REQUESTS[stage])
            reply = self._deliver(stage, name, request)
            if reply is None or name in self.mute.get(stage, ()):
                continue
            self.seen.append((stage, name, reply))
            changed = self.on_reply(stage, name, reply)
            if name in self.late.get(stage, ()) and changed is not None and not isinstance(changed, str):
                self._held[stage, name] = changed
            elif changed is not None:
                replies[name] = changed
        return replies

    def _deliver(self, stage: Stage, name: str, request: SecAggMessage) -> WireModel | None:
        try:
            reply = self.federation.serve(name, stage, request)
            if self.twice:
                assert pack_message(self.federation.serve(name, stage, request)) == pack_message(reply)
        except (ConsiliumError, Refused) as error:
            self.errors[stage, name] = error
            return None
        return from_record(to_record(reply), REPLIES[stage])


def altered(message: WireModel, **changes) -> WireModel:
    """The message with some fields changed; arrays are copied first, so the original stays what it was."""
    return message.model_copy(update=changes)


def flipped(content: bytes, at: int = 0) -> bytes:
    """The bytes with one bit flipped."""
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


def flipped_cell(array: np.ndarray, *at: int) -> np.ndarray:
    """A copy of the array with one bit of one cell flipped."""
    copy = array.copy()
    copy[at] ^= 1
    return copy


def run_until(federation: Federation, stage: Stage | None, network: Network | None = None, **machine) -> Aggregation:
    """A coordinator after all stages before `stage`."""
    network = network or Network(federation)
    made = federation.machine(**machine)
    while made.stage is not stage:
        assert made.stage is not None
        made.take(network.send(made.stage, made.requests()))
    return made
