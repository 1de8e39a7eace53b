"""The messages between coordinator and party, as strict immutable models.

Everything that arrives is untrusted: unknown keys, other types and impossible sizes are refused here, before any
other code sees them. Matrices are numpy arrays; `records` puts them on Flower's wire.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

PROTOCOL_VERSION = 1
VOTE_DTYPE = np.dtype("<u2")
MOST_TEACHERS = 1000

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
    """How a teacher is built: ridge regression on one-hot classes, or a scikit-learn estimator, and its parameters.

    `model` names the estimator; `C` belongs to logistic regression, `alpha` (penalty) to ridge, `trees` and `depth` to
    the two tree ensembles, `learning_rate` to gradient boosting. `class_weight` "balanced" weighs a party's own classes
    equally.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: Literal["logistic_regression", "random_forest", "gradient_boosting", "ridge"] = "logistic_regression"
    alpha: float = Field(default=1.0, gt=0)
    C: float = Field(default=1.0, gt=0)
    class_weight: Literal["balanced", "none"] = "none"
    trees: int = Field(default=50, ge=1, le=2000)
    depth: int = Field(default=4, ge=1, le=64)
    learning_rate: float = Field(default=0.1, gt=0, le=1)
    iterations: int = Field(default=200, ge=1, le=100_000)

    @model_serializer(mode="wrap")
    def _without_what_is_not_used(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        table = handler(self)
        if self.model != "ridge":
            table.pop("alpha", None)  # other teachers keep the digest that they had before there was ridge
        return table


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
