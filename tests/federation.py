"""A small federation without Flower: real parties in homes on disk, and a transport that can misbehave at any stage."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w
from flwr.app import RecordDict

from consilium.accounting.mechanisms import Confident, GNMax, Histogram
from consilium.accounting.units import Unit
from consilium.coordinator.collection import plaintext
from consilium.coordinator.collection.base import Counts, Queries
from consilium.coordinator.collection.exchange import Failure, Member, Transport, no_answer
from consilium.coordinator.collection.means import Collecting, Standing
from consilium.coordinator.collection.secure import SecureKeys
from consilium.coordinator.config import FederationConfig, QueryBudget, Timeouts
from consilium.coordinator.events import EventLog
from consilium.coordinator.parts import Privacy
from consilium.data.private_rows import FileRows
from consilium.models.keys import TeacherKind
from consilium.node.answering import refusal_of
from consilium.party.home import PartyFile, PartySettings
from consilium.party.node import PartyNode
from consilium.party.policy import Policy
from consilium.party.store import Store
from consilium.party.voting import Lot, TeacherSet, votes_of_teachers
from consilium.protocol.choices import counted
from consilium.protocol.config_files import load, read_table
from consilium.protocol.files import private_folder
from consilium.protocol.identity import Identity
from consilium.protocol.messages import HelloRequest, LedgerPosition, Terms, TrainRequest, VoteRequest, WireModel
from consilium.protocol.queries import canonical_queries, draw_reference, reference_text
from consilium.protocol.records import decode_array, encode_array, from_record, refusal_to_record, to_record
from consilium.protocol.refusals import Refused
from consilium.protocol.schema import Schema
from consilium.protocol.voting_rule import RelativeRule
from consilium.sums.errors import SecAggError
from consilium.sums.modes import ANSWERS, MODES
from consilium.sums.roster import Roster
from consilium.sums.terms import NO_LEDGER

FEATURES = ("age", "pressure", "drowsy")
CLASSES = ("well", "ill")
REQUESTS = {model.kind: model for model in (HelloRequest, TrainRequest, VoteRequest, *ANSWERS)}
ACTIONS: dict[str, Callable[[PartyNode, Any], WireModel]] = {
    "query.hello": PartyNode.hello,
    "train.teacher": PartyNode.train,
    "query.vote": PartyNode.vote,
    **{request.kind: PartyNode.hidden for request in ANSWERS},
}

Fault = Callable[[RecordDict], "RecordDict | Failure"]


def make_rows(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows (count, 3) and labels that a linear model can learn."""
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(count, 3)) * [10, 20, 1] + [60, 140, 0]
    y = ((x[:, 0] - 60) / 10 + (x[:, 1] - 140) / 20 + generator.normal(size=count) * 0.5 > 0).astype(np.int64)
    return x.astype(np.float32), y


def make_home(folder: Path, name: str, rows: int = 40, seed: int = 0, **policy: Any) -> Path:
    """A party's home with its own rows; `policy` overrides the defaults."""
    folder.mkdir(parents=True)
    x, y = make_rows(rows, seed)
    np.savez(folder / "data.npz", x=x, y=y, features=np.array(FEATURES), classes=np.array(CLASSES))
    settings = {
        "allowed_classes": list(CLASSES),
        "least_rows_per_teacher": 5,
        "most_epsilon": float("inf"),
        "allow_simulation": True,
        "collection": "plaintext",
        **policy,
    }
    (folder / "party.toml").write_text(tomli_w.dumps({"name": name, "policy": settings}))
    return folder


def make_homes(root: Path, count: int, **policy: Any) -> list[Path]:
    """Homes 00000, 00001, ... of parties p00, p01, ..."""
    return [make_home(root / f"{index:05d}", f"p{index:02d}", seed=index, **policy) for index in range(count)]


class HomeFile(PartyFile):
    """A party.toml that also says what else `PartySettings` has. terms: of the one federation, a file."""

    name: str
    policy: Policy
    data: str = "data.npz"
    terms: str = ""
    simulated_noise_seed: int | None = None


@dataclass(frozen=True)
class Home:
    """A party that joined no federation's signed folder: with keys beside its settings, it takes part in any."""

    folder: Path
    file: HomeFile

    @property
    def name(self) -> str:
        return self.file.name

    @property
    def teacher(self) -> TeacherKind | None:
        return None if self.file.teacher is None else self.file.teacher.at(self.folder)

    def settings(self) -> PartySettings:
        identity, roster, terms = (self.folder / name for name in ("identity.pem", "roster.json", "terms.json"))
        collection = read_table(roster)["collection"] if roster.exists() else "plaintext"
        rules = self.file.rules
        return PartySettings(
            self.name,
            self.file.policy,
            rules.model_copy(update={"allow_one_class": rules.allow_one_class or self.file.policy.allow_simulation}),
            self.teacher,
            Identity.load(identity) if identity.exists() else None,
            load(roster, MODES[collection].roster) if collection in MODES else None,
            self.file.simulated_noise_seed,
            Terms.model_validate_json(terms.read_bytes()) if self.file.terms else None,
        )

    def rows(self) -> FileRows:
        return FileRows(self.folder / self.file.data, self.settings().rules)

    def store(self) -> Store:
        return Store(private_folder(self.folder / "state") / "party.db")


def open_home(folder: Path) -> Home:
    return Home(folder, load(folder / "party.toml", HomeFile))


def node_at(home: Path | Home) -> PartyNode:
    opened = home if isinstance(home, Home) else open_home(home)
    return PartyNode(opened.settings(), opened.rows(), opened.store())


def cast(trained: TeacherSet, x: np.ndarray, lot: Lot) -> np.ndarray:
    """One vote of each teacher on each query, int64 (queries, classes)."""
    return counted(votes_of_teachers(trained, x, lot).T, len(trained.schema.classes))


PATIENT = Timeouts(enrol=250, train=250, vote=250, secure=250, student=250)
"""Longer than any machine needs: no test may hang on how busy this one is."""


def make_config(**changes: Any) -> FederationConfig:
    """A federation of at least 3 parties with seeded noise: Confident on votes in plaintext, else GNMax."""
    x, _ = make_rows(200, 999)
    hidden = changes.get("collection", "plaintext") != "plaintext"
    values: dict[str, Any] = {
        "name": "small",
        "rows": Schema.from_public_rows(FEATURES, CLASSES, x.astype(np.float64)),
        "minimum_parties": 3,
        "collection": "plaintext",
        "mechanism": GNMax(sigma=4.0) if hidden else Confident(threshold=4, sigma1=2.0, sigma2=1.0),
        "noise_shares": {"verified": 1, "secure": 2}.get(changes.get("collection", ""), 0),
        "privacy": Privacy(unit=Unit.PARTY, delta=1e-5),
        "query_budget": QueryBudget(queries=100, answers=60),
        "timeouts": PATIENT,
        "simulation": True,
        "seed": 7,
        "noise_seed": 7,
        **changes,
    }
    if not values["simulation"] and "seed" not in changes:
        values["seed"] = -1
    if isinstance(values["mechanism"], (GNMax, Histogram)) and "query_budget" not in changes:
        values["query_budget"] = QueryBudget(queries=100, answers=100)
    return FederationConfig(**values)


def make_relative(**changes: Any) -> FederationConfig:
    """The same, whose teachers vote relative to their own scores on 40 public rows."""
    voting_rule = changes.pop("voting_rule", RelativeRule(reference=40))
    plain = make_config(**changes)
    pool = canonical_queries(make_rows(200, 999)[0], len(FEATURES))
    reference = draw_reference(pool, plain.rows, voting_rule.reference)
    fields = {name: getattr(plain, name) for name in FederationConfig.model_fields}
    return FederationConfig(**{**fields, "voting_rule": voting_rule, "reference": reference_text(reference)})


def make_secure(homes: list[Path], root: Path, colluders: int = 0, least_survivors: int | None = None) -> SecureKeys:
    """Keys and a roster for parties that are there; every home gets its identity and its copy of the roster."""
    parties = {open_home(home).name: (home, Identity.generate()) for home in homes}
    signer = Identity.generate()
    public = {name: identity.public.hex() for name, (_, identity) in parties.items()}
    roster = Roster.build(public, signer.public.hex(), colluders, least_survivors)
    for home, identity in parties.values():
        identity.save(home / "identity.pem")
        (home / "roster.json").write_text(roster.model_dump_json())
    (root / "roster.json").write_text(roster.model_dump_json())
    return SecureKeys(roster, signer)


class StillLedger:
    def position(self) -> LedgerPosition:
        return NO_LEDGER

    def voted_on(self, query_ids: Sequence[str], parties: Sequence[str], session: str = "") -> None:
        pass

    def least_seen(self, party: str) -> int:
        return 0


def standing() -> Standing:
    """Of a ledger that never moves, without a pool."""
    return Standing(StillLedger())


def hello_of(config: FederationConfig, /, **changes: Any) -> HelloRequest:
    """What a coordinator with this configuration asks, in a simulation."""
    asked = standing().greeting(config)
    return HelloRequest(**{**dict(asked), "program": "", **changes})


def vote_request(config: FederationConfig, queries: np.ndarray, /, **changes: Any) -> VoteRequest:
    """Plaintext votes on canonical queries, asked with an empty ledger and no pool."""
    return VoteRequest(**{**dict(plaintext.vote_request(config, Queries(queries), standing())), **changes})


def counts_over(
    transport: Transport,
    config: FederationConfig,
    members: list[Member],
    queries: np.ndarray,
    log: EventLog,
    run_dir: Path = Path(),
) -> Counts:
    means = Collecting(transport, config, members, run_dir, standing(), log)
    return plaintext.OverFlower(means).collect(Queries(queries), 0.0)


class FakeTransport:
    """Real parties behind the real wire format; `faults[(party index, kind)]` changes or drops a reply."""

    def __init__(self, homes: list[Path], faults: Mapping[tuple[int, str], Fault] | None = None) -> None:
        self.parties = {index: node_at(home) for index, home in enumerate(homes)}
        self.faults = dict(faults or {})
        self.requests: list[tuple[int, str]] = []

    def nodes(self) -> list[int]:
        return list(self.parties)

    def exchange(self, requests: Mapping[int, WireModel], timeout: float) -> Iterator[tuple[int, RecordDict | Failure]]:
        for node, request in requests.items():
            self.requests.append((node, request.kind))
            reply = self._reply(node, request)
            fault = self.faults.get((node, request.kind))
            yield node, fault(reply) if fault and isinstance(reply, RecordDict) else reply

    def _reply(self, node: int, request: WireModel) -> RecordDict | Failure:
        return answered(ACTIONS[request.kind], self.parties[node], request, REQUESTS)


def answered(action: Callable[..., WireModel], node: Any, request: WireModel, models: Mapping[str, Any]) -> RecordDict:
    """What this node answers to what has come over the wire, or that it refuses."""
    try:
        return to_record(action(node, from_record(to_record(request), models[request.kind])))
    except Refused as error:
        return refusal_to_record(error.refusal)
    except SecAggError as error:
        return refusal_to_record(refusal_of(error))


def drop(_: RecordDict) -> Failure:
    """A fault: the reply never comes."""
    return no_answer(5)


def with_array(name: str, change: Callable[[np.ndarray], np.ndarray]) -> Fault:

    def apply(record: RecordDict) -> RecordDict:
        arrays = record.array_records["arrays"]
        arrays[name] = encode_array(change(decode_array(arrays[name])))
        return record

    return apply


def with_field(name: str, value: Any) -> Fault:

    def apply(record: RecordDict) -> RecordDict:
        record.config_records["body"][name] = value
        return record

    return apply
