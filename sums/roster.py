"""Rosters: who takes part in hidden sums, with which keys, and how many must. Every node pins its own copy."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from consilium.protocol.config_files import faults_of
from consilium.protocol.digests import canonical_digest
from consilium.protocol.errors import ConfigError
from consilium.protocol.identity import is_low_order, is_sound_key
from consilium.protocol.messages import CollectionMode, PartyName
from consilium.protocol.models import Derived, Strict
from consilium.sums.errors import RosterMismatch

MOST_PARTIES = 1000
"""Most parties in a roster of sums under masks."""
MOST_VOTERS = 1_000_000
"""Most parties in a roster of verified votes: with one teacher each their sum, and noise of 24,000 on both sides, still
fits into half of the larger field."""

PublicKey = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class RosterEntry(Strict):
    """A party's name and its Ed25519 public key, hex."""

    id: PartyName
    ed25519_pk: PublicKey


class AggregatorEntry(Strict):
    """An aggregator's public keys, hex: Ed25519, by which it signs, and X25519, of the link between the two."""

    ed25519_pk: PublicKey
    x25519_pk: PublicKey


def least_rebuilders(parties: int, colluders: int) -> int:
    """t, how many parties must help to unmask a sum: floor(2n/3) + 1, or more where there are many colluders. As 2t > n
    + c, any two groups of t have an honest party in common. So a coordinator that shows different survivors to
    different parties never gets t signatures twice (Bonawitz et al. 2017, section 6.2, with c), and never unmasks two
    sums of one session."""
    return max(2 * parties // 3, (parties + colluders) // 2) + 1


def least_sum(parties: int, colluders: int) -> int:
    """The least number of parties in a sum, of so many in the roster, where none is stated.

    >>> least_sum(207, 0)
    139
    """
    return max(least_rebuilders(parties, colluders), colluders + 2)


class SumRoster(Derived, Strict):
    """All parties in a fixed order; a party's place in it is its index on the wire. c: parties that may work with the
    coordinator, or with one of two aggregators. least: parties that must be in a sum."""

    version: Literal[1] = 1
    collection: CollectionMode
    parties: tuple[RosterEntry, ...]
    c: int = Field(ge=0)
    least: int = Field(ge=2)

    @model_validator(mode="after")
    def _is_sound(self) -> Self:
        keys = [entry.ed25519_pk for entry in self.parties] + self._other_keys()
        if len(self.places) < self.n:
            raise ValueError("two parties have one id")
        if len(set(keys)) < len(keys):
            raise ValueError("two nodes have one key")
        if not all(map(is_sound_key, keys)):
            raise ValueError("a key is not a canonical point of large order: under it anyone could sign")
        if not self.c + 2 <= self.least <= self.n:
            limits = f"least {self.least} must be from c + 2 = {self.c + 2} to the number of parties, {self.n}"
            raise ValueError(f"{limits}: at least two honest parties must be in every sum")
        return self

    def _other_keys(self) -> list[str]:
        """Ed25519 keys of nodes that are no parties, hex; the coordinator's first."""
        raise NotImplementedError

    @classmethod
    def _entries(cls, coordinator: str, sealing: str, second: AggregatorEntry | None) -> dict[str, Any]:
        raise NotImplementedError

    @property
    def coordinator_key(self) -> bytes:
        """The Ed25519 key by which the coordinator signs terms, 32 bytes."""
        return bytes.fromhex(self._other_keys()[0])

    @property
    def second(self) -> AggregatorEntry | None:
        return None

    @property
    def keys(self) -> Mapping[str, str]:
        """Ed25519 public keys of the parties, hex, by name."""
        return {entry.id: entry.ed25519_pk for entry in self.parties}

    @property
    def sure(self) -> int:
        """How many honest parties are sure to be in a sum."""
        return self.least - self.c

    @classmethod
    def build(
        cls,
        identities: Mapping[str, str],
        coordinator: str,
        colluders: int = 0,
        least: int | None = None,
        *,
        sealing: str = "",
        second: AggregatorEntry | None = None,
    ) -> Self:
        """A roster. identities: Ed25519 public key, hex, by party name; the order is kept. coordinator: its public key,
        hex, by which it signs. colluders, least: `c` and `least`; None: the least that is safe. sealing, second: the
        coordinator's X25519 public key, hex, of its link to a second aggregator, and that node's keys. Raises
        ConfigError: these give no safe roster."""
        parties = [{"id": name, "ed25519_pk": key} for name, key in identities.items()]
        least = least_sum(len(parties), colluders) if least is None else least
        others = cls._entries(coordinator, sealing, second)
        try:
            return cls(**{"parties": parties, "c": colluders, "least": least, **others})
        except ValidationError as error:
            cure = "Enrol more parties, or assume fewer colluders"
            raise ConfigError(f"roster: {'; '.join(faults_of(error, cls, {}, quoting=False))}", cure) from None

    @cached_property
    def digest(self) -> str:
        """RH: SHA-256 (hex) of the canonical JSON, independent of how the file is laid out."""
        return canonical_digest(self.model_dump(mode="json"))

    @property
    def n(self) -> int:
        return len(self.parties)

    @cached_property
    def places(self) -> Mapping[str, int]:
        return {entry.id: place for place, entry in enumerate(self.parties)}

    def place(self, name: str) -> int:
        """A party's place. Raises RosterMismatch if it has none."""
        if name not in self.places:
            raise RosterMismatch(f"{name} is not in the roster")
        return self.places[name]

    def name(self, place: int) -> str:
        return self.parties[place].id

    def key(self, place: int) -> bytes:
        """The pinned Ed25519 key of the party at a place, 32 bytes."""
        return self._keys[place]

    @cached_property
    def _keys(self) -> tuple[bytes, ...]:
        return tuple(bytes.fromhex(entry.ed25519_pk) for entry in self.parties)


class Roster(SumRoster):
    """The roster of sums under masks."""

    collection: Literal["secure"] = "secure"
    parties: Annotated[tuple[RosterEntry, ...], Field(min_length=2, max_length=MOST_PARTIES, strict=False)]
    coordinator_pk: PublicKey

    @model_validator(mode="after")
    def _is_safe(self) -> Self:
        if self.least < self.t:
            raise ValueError(f"least {self.least} must be at least t = {self.t}, by whose shares a sum is unmasked")
        return self

    @property
    def t(self) -> int:
        return least_rebuilders(self.n, self.c)

    def _other_keys(self) -> list[str]:
        return [self.coordinator_pk]

    @classmethod
    def _entries(cls, coordinator: str, sealing: str, second: AggregatorEntry | None) -> dict[str, Any]:
        return {"coordinator_pk": coordinator}


class VerifiedRoster(SumRoster):
    """The roster of sums by two aggregators. Parties exchange nothing with each other, so it can be long."""

    collection: Literal["verified"] = "verified"
    parties: Annotated[tuple[RosterEntry, ...], Field(min_length=2, max_length=MOST_VOTERS, strict=False)]
    leader: AggregatorEntry
    helper: AggregatorEntry

    @model_validator(mode="after")
    def _is_safe(self) -> Self:
        if self.leader.x25519_pk == self.helper.x25519_pk:
            raise ValueError("two nodes have one key")
        if any(is_low_order(bytes.fromhex(entry.x25519_pk)) for entry in (self.leader, self.helper)):
            raise ValueError("an aggregator's X25519 key is of low order: anyone could be the other end of its link")
        return self

    def _other_keys(self) -> list[str]:
        return [self.leader.ed25519_pk, self.helper.ed25519_pk]

    @property
    def second(self) -> AggregatorEntry:
        return self.helper

    @classmethod
    def _entries(cls, coordinator: str, sealing: str, second: AggregatorEntry | None) -> dict[str, Any]:
        if second is None:
            cure = "Add it: `consilium node keys NAME --kind aggregator` there, and its NAME.enrol.json here"
            raise ConfigError("verified votes have no second aggregator", cure)
        return {"leader": AggregatorEntry(ed25519_pk=coordinator, x25519_pk=sealing), "helper": second}
