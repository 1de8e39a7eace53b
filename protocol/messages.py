"""The messages between coordinator and party, as strict immutable models.

Everything that arrives is untrusted: unknown keys, other types and impossible sizes are refused here, before any
other code sees them. Matrices are numpy arrays; `records` puts them on Flower's wire.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer, model_validator

PROTOCOL_VERSION = 1
VOTE_DTYPE = np.dtype("<u2")
MOST_TEACHERS = 1000
NETWORKS = ("mlp", "cnn")
"""Teachers that are trained with torch."""

VotesMode = Literal["clear", "secure", "distributed"]
"""How votes are collected, in order of secrecy: the coordinator sees each party's (clear), only their sum (secure), or
only their sum with the parties' own noise in it (distributed)."""
VOTES_MODES: tuple[VotesMode, ...] = ("clear", "secure", "distributed")

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
PartyName = Annotated[str, Field(pattern=NAME_PATTERN)]
Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class WireModel(BaseModel):
    """Base of all messages: frozen, strict, no unknown keys; arrays are left out of `repr`."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, arbitrary_types_allowed=True)

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


class HelloRequest(WireModel):
    """Who are you, and would you serve in this federation, with these classes and this number of teachers?

    `promise` is a JSON list of release events, the first at the caps: what the coordinator will not exceed. `roster` is
    the hash of the roster that secure and distributed votes need, empty for clear ones.
    """

    kind: ClassVar[str] = "query.hello"
    protocol_version: int
    federation: Hash
    classes: list[str]
    teachers: int = Field(ge=1, le=MOST_TEACHERS)
    simulation: bool
    promise: str = Field(max_length=10_000)
    votes: VotesMode = "clear"
    roster: str = Field(default="", pattern=r"^([0-9a-f]{64})?$")


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
    seed: int = Field(ge=-1, description="-1: from the operating system's entropy")


class TrainReply(WireModel):
    """Done. Nothing computed from the rows travels."""

    kind: ClassVar[str] = "train.teacher"
    party: PartyName
    teachers: int = Field(ge=1, le=MOST_TEACHERS)


class VoteRequest(WireModel):
    """All queries of a round in one message: float32 (queries, features)."""

    kind: ClassVar[str] = "query.vote"
    federation: Hash
    promise: str = Field(max_length=10_000)
    query_set: Hash
    queries: np.ndarray = Field(repr=False)


class VoteReply(WireModel):
    """The party's votes: uint16 (queries, classes); each row sums to its number of teachers. Never printed."""

    kind: ClassVar[str] = "query.vote"
    party: PartyName
    query_set: Hash
    votes: np.ndarray = Field(repr=False)
