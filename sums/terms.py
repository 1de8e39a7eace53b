"""What the coordinator signs before a hidden sum, the terms of its session; and what the protocols need of a party.

CTX, their hash, enters every signature, commitment, key derivation and seal: what was made for another session, other
queries or another roster fits nowhere in this one, and parties with different terms cannot take part in one sum.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Annotated, Any, ClassVar, Literal, Protocol, Self, TypeVar

import numpy as np
from pydantic import Field, ValidationError

from consilium.protocol.databases import Database
from consilium.protocol.digests import Hash, canonical_json
from consilium.protocol.errors import MalformedMessage
from consilium.protocol.identity import SIGNATURE_BYTES, Identity, verify
from consilium.protocol.messages import MOST_CLASSES, MOST_TEACHERS, CollectionMode, LedgerPosition
from consilium.protocol.models import Derived, Strict
from consilium.protocol.noise import NoiseSource
from consilium.protocol.queries import query_ids, query_set_hash
from consilium.sums.errors import BadSignature, RosterMismatch, UnsafeSession
from consilium.sums.roster import SumRoster

SID_BYTES = 16
LIFETIME = 24 * 3600
"""Seconds for which a party remembers what it needs of a session."""
MOST_SIGMA = 1e9
TAIL = 9.0
"""Standard deviations that must fit: beyond them lies less than 1e-18 of a Gaussian."""
NO_LEDGER = LedgerPosition(ledger="0" * 64, batch=0, head="0" * 64)
"""Of a session that is no federation's, in tests and benchmarks of the protocol alone."""
Sid = Annotated[bytes, Field(min_length=SID_BYTES, max_length=SID_BYTES)]
Signature = Annotated[bytes, Field(min_length=SIGNATURE_BYTES, max_length=SIGNATURE_BYTES)]
TermsBytes = Annotated[bytes, Field(max_length=5000)]


class Canonical(Strict):
    """What is signed, hashed and sent as one text. SIGNED_AS: label of the signature."""

    SIGNED_AS: ClassVar[str]

    @classmethod
    def parse(cls, content: bytes) -> Self:
        """Canonical bytes -> the value. Raises MalformedMessage."""
        try:
            found = cls.model_validate_json(content)
        except ValidationError:
            found = None
        if found is None or found.canonical() != content:
            raise MalformedMessage(f"what was signed as {cls.SIGNED_AS} has not the one form of this protocol")
        return found

    def canonical(self) -> bytes:
        """JSON with sorted keys and no spaces."""
        return canonical_json(self.model_dump(mode="json"))

    def sign(self, signer: Identity) -> bytes:
        return signer.sign(self.SIGNED_AS, self.canonical())


class SumTerms(Derived, LedgerPosition, Canonical):
    """Terms of one sum, which has a session of its own. sid: 16 random bytes, hex. federation: digest of the
    federation's configuration. roster: RH. round: 1, or 2 for fresh noise on queries that a first sum has screened.
    query_set: QH, hash of the ordered queries. queries, classes: shape of the sum. teachers: of each party; each gives
    one vote to each query. sigma: standard deviation of the noise on one count that each who adds noise adds, or that
    all their shares together are; there is no sum without."""

    collection: ClassVar[CollectionMode]

    version: Literal[1] = 1
    sid: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
    federation: Hash
    roster: Hash
    round: Literal[1, 2] = 1
    query_set: Hash
    queries: int = Field(ge=1, le=10_000_000)
    classes: int = Field(ge=2, le=MOST_CLASSES)
    teachers: int = Field(ge=1, le=MOST_TEACHERS)
    sigma: Annotated[float, Field(gt=0, le=MOST_SIGMA, allow_inf_nan=False)]

    @classmethod
    def of_queries(
        cls,
        roster: SumRoster,
        federation: str,
        queries: np.ndarray,
        classes: int,
        teachers: int,
        *,
        position: LedgerPosition = NO_LEDGER,
        sid: str = "",
        **others: Any,
    ) -> Self:
        """Terms checked against the roster (`check`). queries: canonical, float32 (queries, features). sid: empty for a
        new session. others: more fields. Raises UnsafeSession where a query stands twice, or a number is out of its
        bounds."""
        if len(set(query_ids(queries))) < len(queries):
            raise UnsafeSession("a query stands twice in the set: it would be answered twice")
        values = {"sid": sid or secrets.token_hex(SID_BYTES), "federation": federation, "roster": roster.digest}
        values |= {"query_set": query_set_hash(queries), "queries": len(queries), "classes": classes}
        try:
            terms = cls(**values, teachers=teachers, **position.model_dump(), **others)
        except ValidationError as error:
            raise UnsafeSession(f"no such session can be: {error.errors()[0]['msg']}") from None
        terms.check(roster)
        return terms

    @classmethod
    def open(cls, content: bytes, signature: bytes, roster: SumRoster) -> Self:
        """Bytes of terms and their signature -> terms that this roster allows. Raises as `parse` and `check`, and
        BadSignature unless the roster's coordinator has signed them."""
        terms = cls._signed(content, signature, roster.coordinator_key)
        terms.check(roster)
        return terms

    @classmethod
    @lru_cache(maxsize=8)  # of public values alone: many simulated parties are sent the same
    def _signed(cls, content: bytes, signature: bytes, key: bytes) -> Self:
        if not verify(key, signature, cls.SIGNED_AS, content):
            raise BadSignature("the coordinator", "terms of the session")
        return cls.parse(content)

    def check(self, roster: SumRoster) -> None:
        """Raise SecAggError unless a node with this roster may take part: nobody trusts the coordinator's choice."""
        if self.roster != roster.digest:
            raise RosterMismatch(f"the session names roster {self.roster[:12]}, this node holds {roster.digest[:12]}")

    @property
    def noise(self) -> tuple[float, int]:
        """sigma, and in how many shares it is."""
        raise NotImplementedError

    @property
    def shape(self) -> tuple[int, int]:
        return self.queries, self.classes

    @property
    def sid_bytes(self) -> bytes:
        return bytes.fromhex(self.sid)

    @cached_property
    def ctx(self) -> bytes:
        """CTX: SHA-256 of the canonical bytes."""
        return hashlib.sha256(self.canonical()).digest()


R = TypeVar("R", bound=SumRoster)


@dataclass(frozen=True)
class QuerySet:
    """Queries, float32 (queries, features), their hash, and the proof that they are of the pool (`protocol.pool`)."""

    queries: np.ndarray = field(repr=False)
    query_set: str
    places: np.ndarray = field(repr=False)
    proof: np.ndarray = field(repr=False)


class Voter(Protocol):
    """A party in hidden sums: its name in the roster, of which it has its own pinned copy, its signing key, and what it
    remembers, in tables that each package names. What it refuses, it refuses by `Refused`; ConfigError where it has no
    key or roster."""

    @property
    def name(self) -> str: ...

    @property
    def store(self) -> Database: ...

    @property
    def identity(self) -> Identity: ...

    def roster(self, kind: type[R]) -> R: ...

    def check(self, terms: SumTerms) -> None:
        """Raise Refused unless the federation is enrolled here with this collection, roster and ledger position, the
        policy allows it, and teachers, classes and, to the digit, noise are those of the promise. `votes` looks at the
        number of queries."""
        ...

    def votes(self, terms: SumTerms, query_set: QuerySet, again: bool) -> np.ndarray:
        """Votes uint16 (queries, classes), checked and charged first, durably with the transaction that they are asked
        in. Secret. again: each call is charged anew, since noise on the same queries is fresh; else the same queries of
        the same teachers count once."""
        ...

    def noise(self, terms: SumTerms) -> NoiseSource:
        """The operating system's; seeded in simulations only."""
        ...
