"""What the second aggregator signs when it gives half of a sum: over which parties, on which queries, with what noise.

Whoever has the roster can check it: `consilium audit` holds the coordinator's ledger against it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field, ValidationError, model_validator

from consilium.protocol.digests import Hash
from consilium.protocol.errors import MalformedMessage
from consilium.protocol.models import Strict
from consilium.protocol.parties.messages import MOST_RELEASES
from consilium.protocol.secagg.framing import canonical_json
from consilium.protocol.secagg.identity import Identity, verify
from consilium.protocol.secagg.session import MOST_SIGMA, SessionId
from consilium.protocol.verified.roster import MOST_VOTERS, VerifiedRoster

LABEL = "aggregator/1/given"
Place = Annotated[int, Field(ge=0, lt=MOST_VOTERS)]


class GivenRecord(Strict):
    """sid, federation, roster: of the session. ids: digest of its queries' ids, in order (`ids_digest`). accepted:
    places of the parties in the sum, rising. left_out: how many others sent votes that were none. sigma: of this
    aggregator's own noise on one count. phase, release: as in the session. session: hash of its terms. commitment: by
    which the first aggregator was bound to its total before it saw this one's half; half: the same of that half
    (`binder.commit_total`). Version 1, of 0.9, has none of the last three."""

    version: Literal[1, 2] = 2
    sid: SessionId
    federation: Hash
    roster: Hash
    ids: Hash
    queries: int = Field(ge=1, le=10_000_000)
    accepted: Annotated[tuple[Place, ...], Field(max_length=MOST_VOTERS, strict=False)]
    left_out: int = Field(ge=0, le=MOST_VOTERS)
    sigma: float = Field(ge=0, le=MOST_SIGMA, allow_inf_nan=False)
    phase: Literal[1, 2]
    release: int = Field(ge=1, le=MOST_RELEASES)
    session: Hash | None = None
    commitment: Hash | None = None
    half: Hash | None = None

    @model_validator(mode="after")
    def _is_bound(self) -> GivenRecord:
        bound = [each is not None for each in (self.session, self.commitment, self.half)]
        if bound != [self.version > 1] * 3:
            raise ValueError("a record of this version has session, commitment and half, one of version 1 has none")
        return self

    def canonical(self) -> bytes:
        """The bytes that are signed."""
        return canonical_json(self.model_dump(mode="json", exclude_none=True))

    def sign(self, helper: Identity) -> bytes:
        """The second aggregator's signature, 64 bytes."""
        return helper.sign(LABEL, self.canonical())


def ids_digest(ids: Sequence[str]) -> str:
    """SHA-256 (hex) of query ids (hex), in their order."""
    return hashlib.sha256(b"".join(map(bytes.fromhex, ids))).hexdigest()


def open_record(content: bytes, signature: bytes, roster: VerifiedRoster) -> GivenRecord:
    """Bytes and their signature -> the record.

    Raises
    ------
    MalformedMessage : not signed by the roster's second aggregator, or not the canonical bytes of a record.
    """
    if not verify(bytes.fromhex(roster.helper.ed25519_pk), signature, LABEL, content):
        raise MalformedMessage("the record of a sum is not signed by the second aggregator")
    try:
        record = GivenRecord.model_validate_json(content)
    except ValidationError:
        raise MalformedMessage("the record of a sum has not the form of this protocol") from None
    if record.canonical() != content:
        raise MalformedMessage("the record of a sum is not in canonical form")
    return record
