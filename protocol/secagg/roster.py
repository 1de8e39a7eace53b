"""The roster: who may take part, under which keys, and how many must. Every node pins its own copy.

t parties rebuild a secret; u_min is the least number of parties in a sum; c may collude with the coordinator.
2t > n + c keeps a coordinator that shows different survivors to different parties from getting t signatures twice
(Bonawitz et al. 2017, section 6.2, with c), and two sums that one party should not have helped with from both being
unmasked: any two groups of t have an honest party in common.

A party's weight and its block (`protocol.secagg.blocks`) stand in the roster, where all can see them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, ValidationError, model_validator

from consilium.protocol.config_files import faults_of
from consilium.protocol.digests import canonical_digest
from consilium.protocol.errors import ConfigError
from consilium.protocol.files import unreadable
from consilium.protocol.models import Strict, Terse
from consilium.protocol.parties.messages import MOST_WEIGHT, PartyName
from consilium.protocol.secagg.blocks import Blocks, assigned, blocks_of, check_blocks
from consilium.protocol.secagg.curve import is_proper
from consilium.protocol.secagg.errors import RosterMismatch

MOST_PARTIES = 1000

PublicKey = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


def is_sound_key(key: str) -> bool:
    """Whether an Ed25519 public key (hex) is canonical and of large order: under any other, anyone could sign."""
    return is_proper(bytes.fromhex(key))


class BlockEntry(Terse, Strict):
    """A party's name, its Ed25519 public key, hex, and the number of its block (`blocks.assigned`); 0: it has none."""

    UNWRITTEN: ClassVar[Mapping[str, Any]] = {"weight": 1, "block": 0}

    id: PartyName
    ed25519_pk: PublicKey
    block: int = Field(default=0, ge=0)


class RosterEntry(BlockEntry):
    """weight: how often the party's answers count."""

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


class Blocked(Terse, Strict):
    """What rosters of all ways to collect votes have in common. c: parties that may collude.

    Rosters of version 1, which 0.9 made, have no blocks: their parties are in no exact sum. least_difference: was a
    rule of theirs on sets, and is in their hash.
    """

    UNWRITTEN: ClassVar[Mapping[str, Any]] = {"least_difference": None}

    version: Literal[1, 2] = 2
    parties: tuple[BlockEntry, ...]
    c: int = Field(ge=0)
    least_difference: int | None = None

    @model_validator(mode="after")
    def _has_blocks(self) -> Self:
        if (self.version == 1) != (self.least_difference is not None) or (self.version == 1 and self.blocks):
            raise ValueError("blocks came with version 2 of rosters, and least_difference went")
        check_blocks([entry.block for entry in self.parties], self.weights, self.c + 2)
        return self

    @cached_property
    def blocks(self) -> Blocks:
        """Places of the parties of each block."""
        return blocks_of([entry.block for entry in self.parties])

    @property
    def weights(self) -> tuple[int, ...]:
        """How often the answers of each party count, by place."""
        return (1,) * len(self.parties)

    def block_keys(self, place: int) -> frozenset[str]:
        """The public keys of a party's block, its own among them; empty if it has none."""
        number = self.parties[place].block
        return frozenset(entry.ed25519_pk for entry in self.parties if number and entry.block == number)


class Roster(Blocked):
    """All parties in a fixed order; a party's place in it is its index on the wire.

    t: shares that rebuild a secret. u_min: least parties in a sum. c: parties that may collude.
    """

    parties: Annotated[tuple[RosterEntry, ...], Field(min_length=2, max_length=MOST_PARTIES, strict=False)]
    coordinator_pk: PublicKey
    t: int = Field(ge=2)
    u_min: int = Field(ge=2)

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
        weights: Mapping[str, int] | None = None,
        earlier: Iterable[Collection[str]] = (),
    ) -> Roster:
        """A roster with t = floor(2n/3) + 1, raised where colluders ask for more.

        Parameters
        ----------
        identities : public key (hex) by party name; the order is kept.
        coordinator_pk : hex.
        colluders : parties assumed to work with the coordinator.
        least_survivors : u_min; None: the least that is safe.
        weights : by party name; 1 where none is given.
        earlier : blocks of rosters before, by key (`blocks.assigned`).

        Raises
        ------
        ConfigError : no safe roster of these parties exists.
        """
        t = least_rebuilders(len(identities), colluders)
        counts = [(weights or {}).get(name, 1) for name in identities]
        blocks = assigned(list(identities.values()), counts, colluders + 2, earlier)
        try:
            return cls(
                parties=tuple(
                    RosterEntry(id=name, ed25519_pk=key, weight=weight, block=block)
                    for (name, key), weight, block in zip(identities.items(), counts, blocks, strict=True)
                ),
                coordinator_pk=coordinator_pk,
                t=t,
                u_min=least_sum(len(identities), colluders) if least_survivors is None else least_survivors,
                c=colluders,
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
