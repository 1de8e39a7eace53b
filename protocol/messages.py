"""The messages between coordinator and party, as strict immutable models. Everything that arrives is untrusted: unknown
keys, other types and impossible sizes are refused here, before any other code sees them. Matrices are numpy arrays;
`records` puts them on Flower's wire."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import AfterValidator, ConfigDict, Field

from consilium.protocol.digests import Hash, OptionalHash, canonical_digest
from consilium.protocol.models import Strict
from consilium.protocol.queries import MOST_NUMBERS, QUERY_DTYPE, query_set_hash

PROTOCOL_VERSION = 9
VOTE_DTYPE = np.dtype("<u2")
MOST_TEACHERS = 1000
MOST_CLASSES = 1000
MOST_BATCHES = 10_000_000
MOST_STARTS = 10_000
MOST_SEED = 2**63 - 1
Token = Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
CollectionMode = Literal["plaintext", "secure", "verified"]
"""How votes are collected: the coordinator sees each party's (plaintext), only their sum with the parties' own noise in
it (secure), or only the sum, with noise of both in it, of votes that it and a second aggregator have checked without
seeing them (verified)."""
NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
PartyName = Annotated[str, Field(pattern=NAME_PATTERN)]
Class = Annotated[str, Field(min_length=1, max_length=100)]
Program = Annotated[str, Field(pattern=r"^[ -~]{0,200}$")]
PromiseText = Annotated[str, Field(max_length=4000)]


def array_of(dtype: Any, sides: int, told: str, fits: Callable[[np.ndarray], Any] | None = None) -> AfterValidator:
    """Arrays of this type and so many sides that fit. told: what others must be."""

    def check(array: np.ndarray) -> np.ndarray:
        if array.dtype != dtype or array.ndim != sides or (fits is not None and not fits(array)):
            raise ValueError(f"must be {told}")
        return array

    return AfterValidator(check)


PoolPlaces = Annotated[np.ndarray, array_of(np.uint32, 1, "uint32 (queries,)")]
Proof = Annotated[np.ndarray, array_of(np.uint8, 2, "uint8 (hashes, 32)", lambda hashes: hashes.shape[1] == 32)]
_NUMBERS = f"float32 (rows, features), {MOST_NUMBERS} numbers at most"
ReferenceRows = Annotated[np.ndarray, array_of(QUERY_DTYPE, 2, _NUMBERS, lambda rows: rows.size <= MOST_NUMBERS)]
Queries = Annotated[
    np.ndarray,
    array_of(QUERY_DTYPE, 2, "finite float32 (queries, features)", lambda x: x.size and np.isfinite(x).all()),
]


class WireModel(Strict):
    """Base of all messages: frozen, strict, no unknown keys; arrays are left out of `repr`."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    kind: ClassVar[str]

    def __repr_args__(self) -> list[tuple[str | None, Any]]:
        return [(name, value) for name, value in super().__repr_args__() if not isinstance(value, np.ndarray)]


class Terms(WireModel):
    """What a federation is for a party. A party that pins terms takes part in no other.

    federation: hash of the coordinator's configuration. classes: to vote for. teachers: votes that the party gives to
    each query. simulation: seeded noise, which protects nobody. promise: JSON list of release events at the query
    budget, which the coordinator will not exceed, and which parties charge: the release, and a sanitised epsilon where
    one is planned. Where the noise is in the sums, they are of these. student: such a list of what the student is
    promised; empty where it is the same list. collection: how votes are collected. roster: hash of the roster, empty
    for plaintext votes. public: JSON of `rows.pool.PoolTerms`, empty where the queries were not fixed beforehand.
    request: digest of the one `TrainRequest` of the federation.
    """

    kind: ClassVar[str] = "terms"
    federation: Hash
    classes: Annotated[list[Class], Field(min_length=2, max_length=MOST_CLASSES)]
    teachers: int = Field(ge=1, le=MOST_TEACHERS)
    simulation: bool
    promise: PromiseText
    student: PromiseText
    collection: CollectionMode
    roster: OptionalHash
    public: str = Field(max_length=500)
    request: Hash

    def digest(self) -> str:
        """SHA-256 of them all: the federation's own digest, its roster and its guarantee are among them."""
        return canonical_digest(self.model_dump(mode="json", include=set(Terms.model_fields)))


class LedgerPosition(Strict):
    """Where a coordinator's ledger stands: its random id, the number of its last batch and that batch's hash."""

    ledger: Hash
    batch: int = Field(ge=0, le=MOST_BATCHES)
    head: Hash

    @property
    def position(self) -> LedgerPosition:
        return LedgerPosition(ledger=self.ledger, batch=self.batch, head=self.head)


class Introduction(Terms):
    """Of a coordinator to a node. program: its versions, for people."""

    protocol_version: int = Field(ge=0, le=1_000_000)
    program: Program

    @cached_property
    def terms(self) -> Terms:
        return Terms(**{name: getattr(self, name) for name in Terms.model_fields})


class HelloRequest(Introduction, LedgerPosition):
    """Who are you, and would you serve in this federation? ledger: the one that it is charged to; with batch and head,
    where that stands. late: the others serve already, so that this party's votes count from the next questions on.
    starts: tokens of the coordinator's starts that asked for votes, in order, and of this one: see
    `Ledger.begin_start`. None in a simulation."""

    kind: ClassVar[str] = "query.hello"
    late: bool
    starts: Annotated[list[Token], Field(max_length=MOST_STARTS)]


class HelloReply(WireModel):
    """Name and number of teachers. No counts of records: they are not covered by the guarantee. seen: one more than the
    last batch at which this federation asked the party for votes, 0 for never. program: its versions, for people."""

    kind: ClassVar[str] = "query.hello"
    party: PartyName
    teachers: int = Field(ge=1, le=MOST_TEACHERS)
    seen: int = Field(default=0, ge=0, le=MOST_BATCHES + 1)
    program: Program = ""


class TrainRequest(WireModel):
    """Train `teachers` teachers on disjoint shards. `rows_json` is a `Schema`, `spec_json` a `models.keys.TeacherSpec`,
    `voting_rule_json` a `protocol.voting_rule.VotingRuleSpec`. `reference`: public rows, float32 (rows, features), none
    where the voting rule needs none."""

    kind: ClassVar[str] = "train.teacher"
    federation: Hash
    rows_json: str = Field(max_length=10_000_000)
    spec_json: str = Field(max_length=10_000)
    voting_rule_json: str = Field(max_length=50_000)
    reference: ReferenceRows
    teachers: int = Field(ge=1, le=MOST_TEACHERS)
    seed: int = Field(ge=-1, le=MOST_SEED, description="-1: from the operating system's entropy")

    def digest(self) -> str:
        return self._digest

    @cached_property
    def _digest(self) -> str:
        fields = self.model_dump(exclude={"reference"})
        return canonical_digest({**fields, "reference": query_set_hash(self.reference)})


class TrainReply(WireModel):
    """Done. Nothing computed from the rows travels."""

    kind: ClassVar[str] = "train.teacher"
    party: PartyName
    teachers: int = Field(ge=1, le=MOST_TEACHERS)


class VoteRequest(WireModel, LedgerPosition):
    """All queries of a round in one message: float32 (queries, features). places, proof: that the queries are rows of
    the pool (`protocol.pool.PoolTree.prove`); both empty where the terms name no pool. start: the last of
    `HelloRequest.starts`, empty in a simulation."""

    kind: ClassVar[str] = "query.vote"
    federation: Hash
    query_set: Hash
    queries: np.ndarray
    places: PoolPlaces
    proof: Proof
    start: Annotated[str, Field(pattern=r"^([0-9a-f]{16})?$")]


class VoteReply(WireModel):
    """The party's votes: the classes that its teachers chose, uint8 or uint16 (queries, teachers), in the form of
    `protocol.choices`. How often they count is known from its `HelloReply`. Never printed."""

    kind: ClassVar[str] = "query.vote"
    party: PartyName
    query_set: Hash
    choices: np.ndarray
