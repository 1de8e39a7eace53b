"""Who takes part in verified votes: two aggregators, with two keys each, and parties with one. Every node pins its own
copy.

No shares are dealt among parties, so there is no threshold to rebuild anything, and a roster can be long.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError, model_validator

from consilium.protocol.config_files import faults_of
from consilium.protocol.digests import canonical_digest
from consilium.protocol.errors import ConfigError
from consilium.protocol.files import unreadable
from consilium.protocol.models import Strict
from consilium.protocol.secagg.agreement import check_order
from consilium.protocol.secagg.blocks import assigned
from consilium.protocol.secagg.errors import BadKey, RosterMismatch
from consilium.protocol.secagg.roster import Blocked, BlockEntry, PublicKey, is_sound_key, least_sum

MOST_VOTERS = 32_760
"""Parties of one roster: with one teacher each their sum still fits into half of the field."""


class AggregatorEntry(Strict):
    """An aggregator's public keys, hex: Ed25519, by which it signs, its keys of a session too, and X25519, of the link
    between the two."""

    ed25519_pk: PublicKey
    x25519_pk: PublicKey


class VoterEntry(BlockEntry):
    """A party."""

    @property
    def weight(self) -> int:
        """How often its answers count."""
        return 1


class VerifiedRoster(Blocked):
    """All parties in a fixed order; a party's place in it is its index on the wire.

    least_accepted: parties in a sum. c: parties that may collude with one of the aggregators.
    """

    parties: Annotated[tuple[VoterEntry, ...], Field(min_length=2, max_length=MOST_VOTERS, strict=False)]
    leader: AggregatorEntry
    helper: AggregatorEntry
    least_accepted: int = Field(ge=2)

    @model_validator(mode="after")
    def _is_safe(self) -> VerifiedRoster:
        n, aggregators = len(self.parties), (self.leader, self.helper)
        keys = [entry.ed25519_pk for entry in (*self.parties, *aggregators)]
        if len({entry.id for entry in self.parties}) < n:
            raise ValueError("two parties have one id")
        if len(set(keys)) < len(keys) or self.leader.x25519_pk == self.helper.x25519_pk:
            raise ValueError("two nodes have one key")
        if not all(map(is_sound_key, keys)):
            raise ValueError("a key is not a canonical point of large order: under it anyone could sign")
        for entry in aggregators:
            try:
                check_order(bytes.fromhex(entry.x25519_pk), "an aggregator")
            except BadKey:
                raise ValueError(
                    "an aggregator's X25519 key is of low order: anyone could be the other end of its link"
                ) from None
        if not self.c + 2 <= self.least_accepted <= n:
            raise ValueError(
                f"least_accepted {self.least_accepted} must be from c + 2 = {self.c + 2} to the number of parties, {n}:"
                " at least two honest parties must be in every sum"
            )
        return self

    @property
    def least_sum(self) -> int:
        """Parties that must be in a sum."""
        return self.least_accepted

    @classmethod
    def build(
        cls,
        identities: Mapping[str, str],
        leader: AggregatorEntry,
        helper: AggregatorEntry,
        colluders: int = 0,
        least_accepted: int | None = None,
        earlier: Iterable[Collection[str]] = (),
    ) -> VerifiedRoster:
        """A roster; None stands for as many in a sum as in a secure one (`protocol.secagg.roster.least_sum`).

        identities: public key (hex) by party name; the order is kept. earlier: blocks of rosters before, by key
        (`blocks.assigned`).

        Raises
        ------
        ConfigError : no safe roster of these parties exists.
        """
        blocks = assigned(list(identities.values()), [1] * len(identities), colluders + 2, earlier)
        try:
            return cls(
                parties=tuple(
                    VoterEntry(id=name, ed25519_pk=key, block=block)
                    for (name, key), block in zip(identities.items(), blocks, strict=True)
                ),
                leader=leader,
                helper=helper,
                least_accepted=least_sum(len(identities), colluders) if least_accepted is None else least_accepted,
                c=colluders,
            )
        except ValidationError as error:
            raise ConfigError(f"roster: {_faults(error)}", "Enrol more parties, or assume fewer colluders") from None

    @classmethod
    def load(cls, path: Path) -> VerifiedRoster:
        """Read a JSON file.

        Raises
        ------
        ConfigError : no such file, or not a safe roster.
        """
        try:
            return cls.model_validate_json(path.read_bytes())
        except OSError as error:
            raise unreadable(path, error, "Ask the federation's operator for the roster") from None
        except ValidationError as error:
            raise ConfigError(f"{path}: {_faults(error)}", "Correct the roster at all nodes") from None

    def save(self, path: Path) -> None:
        """Write JSON."""
        path.write_text(self.model_dump_json(indent=1) + "\n", encoding="utf-8")

    @cached_property
    def digest(self) -> str:
        """SHA-256 (hex) of the canonical JSON, independent of how the file is laid out."""
        return canonical_digest(self.model_dump(mode="json"))

    @property
    def n(self) -> int:
        """Number of parties."""
        return len(self.parties)

    @cached_property
    def places(self) -> Mapping[str, int]:
        """Place by name."""
        return {entry.id: place for place, entry in enumerate(self.parties)}

    def place(self, name: str) -> int:
        """A party's place. Raises RosterMismatch if it has none."""
        if name not in self.places:
            raise RosterMismatch(f"{name} is not in the roster")
        return self.places[name]

    def name(self, place: int) -> str:
        """The party at a place."""
        return self.parties[place].id

    def key(self, place: int) -> bytes:
        """The pinned Ed25519 key of the party at a place, 32 bytes."""
        return bytes.fromhex(self.parties[place].ed25519_pk)


def _faults(error: ValidationError) -> str:
    return "; ".join(faults_of(error, VerifiedRoster, {}, quoting=False))
