"""The session descriptor SD: all terms of one sum, signed by the coordinator. CTX, its hash, enters every signature,
key derivation and ciphertext, so that parties with different terms cannot take part in one sum."""

from __future__ import annotations

import hashlib
import math
import secrets
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, ValidationError

from consilium.protocol.digests import Hash
from consilium.protocol.errors import MalformedMessage
from consilium.protocol.identity import Identity, canonical_json, verify
from consilium.protocol.models import Strict
from consilium.protocol.parties.messages import MOST_BATCHES, MOST_CLASSES, MOST_RELEASES, MOST_TEACHERS, LedgerPosition
from consilium.protocol.rows.queries import query_ids, query_set_hash
from consilium.sums.errors import BadSignature, OverflowRisk, RosterMismatch, UnsafeSession
from consilium.sums.masks.ring import TAIL, RingBits, choose_ring, sigma_total
from consilium.sums.roster import MOST_PARTIES, Roster

SID_BYTES = 16
LIFETIME = 24 * 3600
MOST_SIGMA = 1e9
NO_LEDGER = LedgerPosition(ledger="0" * 64, batch=0, head="0" * 64)
"""Of a session that is no federation's, in tests and benchmarks of the protocol alone."""
SessionId = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]


class SessionDescriptor(Strict):
    """Terms of one session.

    sid: 16 random bytes, hex. federation: digest of the federation's configuration. roster: RH. query_set: QH.
    queries, classes: shape of the sum. ring: bits. teachers: of each party; it gives so
    many votes to each query, times its weight in the roster.
    sigma: standard deviation of the noise on one count, all `noise_shares` shares together; 0 and 0 without noise.
    phase: 1, or 2 for fresh noise on queries that a first phase has screened.
    release: number of the one promised release that the queries are for, from 1; not written where it is 1, so that
    descriptors of federations with one release are what they were.
    ledger, batch, head: where the coordinator's ledger stands (`protocol.parties.messages.LedgerPosition`).
    lifetime: seconds from a party's first answer until it throws the session away, by its own clock.
    """

    version: Literal[2] = 2
    sid: SessionId
    federation: Hash
    roster: Hash
    query_set: Hash
    queries: int = Field(ge=1, le=10_000_000)
    classes: int = Field(ge=2, le=MOST_CLASSES)
    ring: RingBits
    teachers: int = Field(ge=1, le=MOST_TEACHERS)
    sigma: float = Field(default=0.0, ge=0, le=MOST_SIGMA, allow_inf_nan=False)
    noise_shares: int = Field(default=0, ge=0, le=MOST_PARTIES)
    phase: Literal[1, 2] = 1
    release: int = Field(default=1, ge=1, le=MOST_RELEASES)
    ledger: Hash
    batch: int = Field(ge=0, le=MOST_BATCHES)
    head: Hash
    lifetime: int = Field(default=LIFETIME, ge=1, le=30 * 24 * 3600)

    @classmethod
    def create(
        cls,
        roster: Roster,
        federation: str,
        queries: np.ndarray,
        classes: int,
        teachers: int,
        *,
        position: LedgerPosition = NO_LEDGER,
        sigma: float = 0.0,
        noise_shares: int = 0,
        phase: Literal[1, 2] = 1,
        release: int = 1,
        lifetime: int = LIFETIME,
    ) -> SessionDescriptor:
        """A new session with a fresh sid and the smallest ring that is safe.

        `queries` is canonical float32 (queries, features) (`protocol.rows.queries.canonical_queries`).

        Raises
        ------
        OverflowRisk : no ring holds the sum.
        UnsafeSession : the roster does not allow this noise, or this phase, or a query stands twice.
        """
        if len(set(query_ids(queries))) < len(queries):
            raise UnsafeSession("a query stands twice in the set: it would be answered twice")
        noise = sigma_total(sigma, max(noise_shares, 1), roster.n)
        made = cls(
            sid=secrets.token_hex(SID_BYTES),
            federation=federation,
            roster=roster.digest,
            query_set=query_set_hash(queries),
            queries=len(queries),
            classes=classes,
            ring=choose_ring(teachers * sum(roster.weights), noise),
            teachers=teachers,
            sigma=float(sigma),
            noise_shares=noise_shares,
            phase=phase,
            release=release,
            **position.model_dump(),
            lifetime=lifetime,
        )
        made.check(roster)
        return made

    def check(self, roster: Roster) -> None:
        """Whether a node with this roster may take part; parties do not trust the coordinator's choice of terms.

        Raises
        ------
        RosterMismatch : the session names another roster.
        UnsafeSession : more noise shares than honest parties that are sure to be in the sum (u_min - c), a share of
            variance below 1, or a second phase without noise.
        OverflowRisk : the ring is too small.
        """
        if self.roster != roster.digest:
            raise RosterMismatch(f"the session names roster {self.roster[:12]}, this node holds {roster.digest[:12]}")
        if (self.sigma > 0) != (self.noise_shares > 0):
            raise UnsafeSession(f"sigma {self.sigma:g} with {self.noise_shares} noise shares: both or neither")
        if self.noise_shares > roster.sure:
            raise UnsafeSession(
                f"noise in {self.noise_shares} shares, but only u_min - c = {roster.sure} honest parties"
                " are sure to be in the sum"
            )
        if self.sigma > 0 and self.sigma**2 < self.noise_shares:
            raise UnsafeSession(f"a share of the noise has variance {self.sigma**2 / self.noise_shares:.3g}, below 1")
        if self.phase == 2 and self.sigma == 0:
            raise UnsafeSession("a second phase without noise would tell exact sums twice")
        reach = self.teachers * sum(roster.weights) + TAIL * sigma_total(
            self.sigma, max(self.noise_shares, 1), roster.n
        )
        if reach >= 2 ** (self.ring - 1):
            raise OverflowRisk(reach, 2 ** (self.ring - 1))

    @property
    def position(self) -> LedgerPosition:
        """Where the coordinator's ledger stands."""
        return LedgerPosition(ledger=self.ledger, batch=self.batch, head=self.head)

    @property
    def shape(self) -> tuple[int, int]:
        """(queries, classes)."""
        return self.queries, self.classes

    @property
    def sigma_share(self) -> float:
        """Standard deviation of the noise that one party adds to one count; 0.0 without noise."""
        return self.sigma / math.sqrt(self.noise_shares) if self.sigma > 0 else 0.0

    def sid_bytes(self) -> bytes:
        """The session id, 16 bytes."""
        return bytes.fromhex(self.sid)

    def canonical(self) -> bytes:
        """The bytes that are signed, hashed and sent: JSON with sorted keys and no spaces."""
        unwritten = {"release"} if self.release == 1 else set()
        return canonical_json(self.model_dump(mode="json", exclude=unwritten))

    def ctx(self) -> bytes:
        """CTX: SHA-256 of the canonical bytes."""
        return hashlib.sha256(self.canonical()).digest()

    def sign(self, coordinator: Identity) -> bytes:
        """The coordinator's signature, 64 bytes."""
        return coordinator.sign("session", self.canonical())


def open_descriptor(content: bytes, signature: bytes, roster: Roster) -> SessionDescriptor:
    """Bytes of a descriptor and its signature -> a descriptor whose terms this roster allows.

    Raises
    ------
    BadSignature : not signed by the roster's coordinator.
    MalformedMessage : not the canonical bytes of a descriptor.
    RosterMismatch, UnsafeSession, OverflowRisk : see `SessionDescriptor.check`.
    """
    if not verify(bytes.fromhex(roster.coordinator_pk), signature, "session", content):
        raise BadSignature("the coordinator", "session descriptor")
    descriptor = parse_descriptor(content)
    descriptor.check(roster)
    return descriptor


def parse_descriptor(content: bytes) -> SessionDescriptor:
    """Canonical bytes -> descriptor. Raises MalformedMessage."""
    try:
        descriptor = SessionDescriptor.model_validate_json(content)
    except ValidationError:
        raise MalformedMessage("session descriptor has not the form of this protocol") from None
    if descriptor.canonical() != content:
        raise MalformedMessage("session descriptor is not in canonical form")
    return descriptor
