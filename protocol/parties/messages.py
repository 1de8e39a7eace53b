"""The messages between coordinator and party, as strict immutable models.

Everything that arrives is untrusted: unknown keys, other types and impossible sizes are refused here, before any
other code sees them. Matrices are numpy arrays; `records` puts them on Flower's wire.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from consilium.protocol.digests import Hash, OptionalHash, canonical_digest
from consilium.protocol.models import Strict

PROTOCOL_VERSION = 2
VOTE_DTYPE = np.dtype("<u2")
MOST_TEACHERS = 1000
MOST_CLASSES = 1000
MOST_BATCHES = 10_000_000
NETWORKS = ("mlp", "cnn")
"""Teachers that are trained with torch."""

VotesMode = Literal["clear", "secure", "distributed"]
"""How votes are collected, in order of secrecy: the coordinator sees each party's (clear), only their sum (secure), or
only their sum with the parties' own noise in it (distributed)."""
VOTES_MODES: tuple[VotesMode, ...] = ("clear", "secure", "distributed")

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
PartyName = Annotated[str, Field(pattern=NAME_PATTERN)]
Class = Annotated[str, Field(min_length=1, max_length=100)]
PromiseText = Annotated[str, Field(max_length=4000)]


def _places(array: np.ndarray) -> np.ndarray:
    if array.dtype != np.uint32 or array.ndim != 1:
        raise ValueError("places in the pool must be uint32 (queries,)")
    return array


def _hashes(array: np.ndarray) -> np.ndarray:
    if array.dtype != np.uint8 or array.ndim != 2 or array.shape[1] != 32:
        raise ValueError("a proof must be uint8 (hashes, 32)")
    return array


PoolPlaces = Annotated[np.ndarray, AfterValidator(_places), Field(repr=False)]
Proof = Annotated[np.ndarray, AfterValidator(_hashes), Field(repr=False)]


class WireModel(Strict):
    """Base of all messages: frozen, strict, no unknown keys; arrays are left out of `repr`."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    kind: ClassVar[str]


class TeacherSpec(BaseModel):
    """How a teacher is built: ridge regression on one-hot classes, a scikit-learn estimator or a torch network.

    `model` names it; `C` belongs to logistic regression, `alpha` (penalty) to ridge, `trees` and `depth` to the tree
    ensembles, `learning_rate` to gradient boosting (default 0.1) and to the networks (default 0.003). `class_weight`
    "balanced" weighs a party's own classes equally.

    Networks: "mlp" has one hidden layer, "cnn" is the small one of Papernot et al. 2017 for square images: two
    convolutions with max-pool, `channels` and twice as many, and one dense layer. `hidden` is the width of the dense
    layer, `epochs`, `batch` and `weight_decay` (of AdamW) say how it is trained.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: Literal["logistic_regression", "random_forest", "gradient_boosting", "ridge", "mlp", "cnn"] = (
        "logistic_regression"
    )
    alpha: float = Field(default=1.0, gt=0)
    C: float = Field(default=1.0, gt=0)
    class_weight: Literal["balanced", "none"] = "none"
    trees: int = Field(default=50, ge=1, le=2000)
    depth: int = Field(default=4, ge=1, le=64)
    learning_rate: float = Field(default=0.1, gt=0, le=1)
    iterations: int = Field(default=200, ge=1, le=100_000)
    hidden: int = Field(default=128, ge=1, le=4096)
    channels: int = Field(default=16, ge=1, le=256)
    epochs: int = Field(default=20, ge=1, le=1000)
    batch: int = Field(default=32, ge=1, le=4096)
    weight_decay: float = Field(default=0.01, ge=0, lt=100)

    @model_validator(mode="before")
    @classmethod
    def _rate_of_networks(cls, value: Any) -> Any:
        if isinstance(value, dict) and value.get("model") in NETWORKS:
            return {"learning_rate": 0.003, **value}
        return value

    @property
    def network(self) -> bool:
        """Whether it is trained with torch."""
        return self.model in NETWORKS

    @model_serializer(mode="wrap")
    def _without_what_is_not_used(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """A teacher keeps the digest that it had before others, with keys of their own, were added."""
        table = handler(self)
        unused = {"alpha"} if self.model != "ridge" else set()
        if not self.network:
            unused |= {"hidden", "channels", "epochs", "batch", "weight_decay"}
        elif self.model == "mlp":
            unused.add("channels")
        return {key: value for key, value in table.items() if key not in unused}


class Terms(WireModel):
    """What a federation is, as far as a party is concerned. A party that pins terms takes part in no other.

    federation: hash of the coordinator's configuration. classes: to vote for. teachers: votes that the party gives to
    each query. simulation: seeded noise, which protects nobody. promise: JSON list of release events, the first at the
    caps, which the coordinator will not exceed. votes: how they are collected. roster: hash of the roster, empty for
    clear votes. pool: JSON of `rows.pool.PoolTerms`, empty where the queries were not fixed beforehand. request:
    digest of the one `TrainRequest` of the federation.
    """

    kind: ClassVar[str] = "terms"
    federation: Hash
    classes: Annotated[list[Class], Field(min_length=2, max_length=MOST_CLASSES)]
    teachers: int = Field(ge=1, le=MOST_TEACHERS)
    simulation: bool
    promise: PromiseText
    votes: VotesMode
    roster: OptionalHash
    pool: str = Field(max_length=500)
    request: Hash


class LedgerPosition(Strict):
    """Where a coordinator's ledger stands: its random id, the number of its last batch and that batch's hash."""

    ledger: Hash
    batch: int = Field(ge=0, le=MOST_BATCHES)
    head: Hash


class HelloRequest(Terms):
    """Who are you, and would you serve in this federation? `ledger`: id of the one ledger that it is charged to."""

    kind: ClassVar[str] = "query.hello"
    protocol_version: int = Field(ge=0, le=1_000_000)
    ledger: Hash

    @property
    def terms(self) -> Terms:
        """What is to be pinned."""
        return Terms(**{name: getattr(self, name) for name in Terms.model_fields})


class HelloReply(WireModel):
    """Name and number of teachers. No counts of records: they are not covered by the guarantee."""

    kind: ClassVar[str] = "query.hello"
    party: PartyName
    teachers: int = Field(ge=1, le=MOST_TEACHERS)


class TrainRequest(WireModel):
    """Train `teachers` teachers on disjoint shards. `rows_json` is a `Schema`, `spec_json` a `TeacherSpec`."""

    kind: ClassVar[str] = "train.teacher"
    federation: Hash
    rows_json: str = Field(max_length=10_000_000)
    spec_json: str = Field(max_length=10_000)
    teachers: int = Field(ge=1, le=MOST_TEACHERS)
    seed: int = Field(ge=-1, le=2**63 - 1, description="-1: from the operating system's entropy")

    def digest(self) -> str:
        """What `Terms.request` pins."""
        return canonical_digest(self.model_dump())


class TrainReply(WireModel):
    """Done. Nothing computed from the rows travels."""

    kind: ClassVar[str] = "train.teacher"
    party: PartyName
    teachers: int = Field(ge=1, le=MOST_TEACHERS)


class VoteRequest(WireModel):
    """All queries of a round in one message: float32 (queries, features).

    ledger, batch, head: see `LedgerPosition`. places, proof: that the queries are rows of the pool
    (`protocol.rows.pool.PoolTree.prove`); both empty where the terms name no pool.
    """

    kind: ClassVar[str] = "query.vote"
    federation: Hash
    query_set: Hash
    ledger: Hash
    batch: int = Field(ge=0, le=MOST_BATCHES)
    head: Hash
    queries: np.ndarray = Field(repr=False)
    places: PoolPlaces
    proof: Proof

    @property
    def position(self) -> LedgerPosition:
        """Where the coordinator's ledger stands."""
        return LedgerPosition(ledger=self.ledger, batch=self.batch, head=self.head)


class VoteReply(WireModel):
    """The party's votes: uint16 (queries, classes); each row sums to its number of teachers. Never printed."""

    kind: ClassVar[str] = "query.vote"
    party: PartyName
    query_set: Hash
    votes: np.ndarray = Field(repr=False)
