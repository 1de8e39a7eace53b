"""The roster: who may take part, under which keys, and how many must. Every node pins its own copy.

t parties rebuild a secret; u_min is the least number of parties in a sum; c may collude with the coordinator.
2t > n + c keeps a coordinator that shows different survivors to different parties from getting t signatures twice
(Bonawitz et al. 2017, section 6.2, with c), and two sums that one party should not have helped with from both being
unmasked: any two groups of t have an honest party in common. least_difference is the rule of `protocol.secagg.sets`.

A party's weight stands in the roster, where all can see it: an exact sum tells more of parties whose weight few others
have, and `sets` guards them too.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError, model_validator

from consilium.protocol.config_faults import faults_of
from consilium.protocol.digests import canonical_digest
from consilium.protocol.errors import ConfigError
from consilium.protocol.files import unreadable
from consilium.protocol.models import Countable, Strict
from consilium.protocol.parties.messages import MOST_WEIGHT, PartyName
from consilium.protocol.secagg.curve import is_proper
from consilium.protocol.secagg.errors import RosterMismatch

MOST_PARTIES = 1000

PublicKey = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


def is_sound_key(key: str) -> bool:
    """Whether an Ed25519 public key (hex) is canonical and of large order: under any other, anyone could sign."""
    return is_proper(bytes.fromhex(key))


class RosterEntry(Countable, Strict):
    """A party's name, its Ed25519 public key, hex, and how often its answers count."""

    id: PartyName
    ed25519_pk: PublicKey
    weight: int = Field(default=1, ge=1, le=MOST_WEIGHT)


def least_rebuilders(parties: int, colluders: int) -> int:
    """t of a roster of so many: floor(2n/3) + 1, raised where colluders ask for more."""
    return max(2 * parties // 3, (parties + colluders) // 2) + 1


def least_sum(parties: int, colluders: int) -> int:
    """u_min of a roster of so many, unless it is stated.

    >>> least_sum(207, 0)
    139
    """
    return max(least_rebuilders(parties, colluders), colluders + 2)


class Roster(Strict):
    """All parties in a fixed order; a party's place in it is its index on the wire.

    t: shares that rebuild a secret. u_min: least parties in a sum. c: parties that may collude.
    least_difference: parties by which two exact sums differ on each side, if they differ at all.
    """

    version: Literal[1] = 1
    parties: Annotated[tuple[RosterEntry, ...], Field(min_length=2, max_length=MOST_PARTIES, strict=False)]
    coordinator_pk: PublicKey
    t: int = Field(ge=2)
    u_min: int = Field(ge=2)
    c: int = Field(ge=0)
    least_difference: int = Field(ge=2, le=MOST_PARTIES)

    @model_validator(mode="after")
    def _is_safe(self) -> Roster:
        n = len(self.parties)
        keys = [entry.ed25519_pk for entry in self.parties] + [self.coordinator_pk]
        if len({entry.id for entry in self.parties}) < n:
            raise ValueError("two parties have one id")
        if len(set(keys)) < len(keys):
            raise ValueError("two nodes have one key")
        if not all(map(is_sound_key, keys)):
            raise ValueError("a key is not a canonical point of large order: under it anyone could sign")
        if not 2 * self.t > n + self.c:
            raise ValueError(f"2t = {2 * self.t} must be above parties + colluders = {n + self.c}")
        if not self.t <= self.u_min <= n:
            raise ValueError(f"u_min {self.u_min} must be from t = {self.t} to the number of parties, {n}")
        if self.u_min - self.c < 2:
            raise ValueError(f"u_min - c = {self.u_min - self.c}: at least two honest parties must be in every sum")
        if self.least_difference < self.c + 2:
            raise ValueError(
                f"least_difference {self.least_difference} must be at least c + 2 = {self.c + 2}: with fewer, the"
                " difference of two sums tells a single honest party's votes"
            )
        return self

    @property
    def least_sum(self) -> int:
        """Parties that must be in a sum."""
        return self.u_min

    @classmethod
    def build(
        cls,
        identities: Mapping[str, str],
        coordinator_pk: str,
        colluders: int = 0,
        least_survivors: int | None = None,
        least_difference: int | None = None,
        weights: Mapping[str, int] | None = None,
    ) -> Roster:
        """A roster with t = floor(2n/3) + 1, raised where colluders ask for more.

        Parameters
        ----------
        identities : public key (hex) by party name; the order is kept.
        coordinator_pk : hex.
        colluders : parties assumed to work with the coordinator.
        least_survivors : u_min; None: the least that is safe.
        least_difference : None: the least that is safe, colluders + 2.
        weights : by party name; 1 where none is given.

        Raises
        ------
        ConfigError : no safe roster of these parties exists.
        """
        t = least_rebuilders(len(identities), colluders)
        try:
            return cls(
                parties=tuple(
                    RosterEntry(id=name, ed25519_pk=key, weight=(weights or {}).get(name, 1))
                    for name, key in identities.items()
                ),
                coordinator_pk=coordinator_pk,
                t=t,
                u_min=least_sum(len(identities), colluders) if least_survivors is None else least_survivors,
                c=colluders,
                least_difference=colluders + 2 if least_difference is None else least_difference,
            )
        except ValidationError as error:
            raise ConfigError(f"roster: {_faults(error)}", "Enrol more parties, or assume fewer colluders") from None

    @classmethod
    def load(cls, path: Path) -> Roster:
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

    @property
    def digest(self) -> str:
        """RH: SHA-256 (hex) of the canonical JSON, independent of how the file is laid out."""
        return canonical_digest(self.model_dump(mode="json"))

    @property
    def n(self) -> int:
        """Number of parties."""
        return len(self.parties)

    @property
    def weights(self) -> tuple[int, ...]:
        """How often the answers of each party count, by place."""
        return tuple(entry.weight for entry in self.parties)

    def weight_of(self, name: str) -> int:
        """How often this party's answers count. Raises RosterMismatch if it has no place."""
        return self.parties[self.index(name)].weight

    def index(self, name: str) -> int:
        """A party's place. Raises RosterMismatch if it has none."""
        for index, entry in enumerate(self.parties):
            if entry.id == name:
                return index
        raise RosterMismatch(f"{name} is not in the roster")

    def name(self, index: int) -> str:
        """The party at a place."""
        return self.parties[index].id

    def key(self, index: int) -> bytes:
        """The pinned Ed25519 key of the party at a place, 32 bytes."""
        return bytes.fromhex(self.parties[index].ed25519_pk)


def _faults(error: ValidationError) -> str:
    return "; ".join(faults_of(error, Roster, {}, quoting=False))
