"""A block of simulated parties in one folder: what one node of a simulation answers for.

block.json          names of the parties, in order, how many rows each has, and the settings that they share
keys.bin            their signing keys, 32 bytes each, for all but plaintext votes
rows.npz            the rows of all, party after party, in the form of a party's data.npz
accounts.pickle     what each has given; written once an exchange, before any answer leaves
teachers.pickle     what each has trained
parties/00003/      of the fourth party: what it has for itself alone, as a home has it

Each party answers by the code, the policy and the account of a party with a home of its own; what they share is read
and written once.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import pickle
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from consilium.data.private_rows import Rows, load_rows, read_rows
from consilium.models.keys import TeacherKind
from consilium.party.home import Home, PartyFile, R
from consilium.party.node import PartyNode
from consilium.party.spend import SpendStore
from consilium.party.sum_store import Uploads
from consilium.party.voting import TeacherSet
from consilium.protocol.files import replacing, write_private
from consilium.protocol.identity import Identity
from consilium.protocol.messages import TrainRequest
from consilium.protocol.models import Frozen
from consilium.protocol.refusals import Refused, Rule
from consilium.protocol.schema import Schema
from consilium.simulations.engines.memory_account import MemoryAccount, MemoryBook

SETTINGS, ROWS, ACCOUNTS, TEACHERS = "block.json", "rows.npz", "accounts.pickle", "teachers.pickle"
PARTIES, LOCK, KEYS, KEY_BYTES = "parties", "lock", "keys.bin", 32
QUERY_BLOCK, TRAIN_BLOCK = "query.block", "train.block"
"""Kinds of messages that ask parties of a block; rows are read for the second alone."""
MOST, TURNS = 256, 4
"""Parties of a block, and blocks for each process that computes: the last to end keeps the others waiting."""


def blocks_of(parties: int, processes: int = 2) -> list[range]:
    """Which parties of a federation are in which block, by their numbers. processes: that compute at the same time.

    >>> blocks_of(20)[:2], len(blocks_of(20)), len(blocks_of(5)), len(blocks_of(100_000)), len(blocks_of(100, 64))
    ([range(0, 3), range(3, 6)], 7, 5, 391, 100)
    """
    size = max(1, min(MOST, -(-parties // (TURNS * processes))))
    return [range(first, min(first + size, parties)) for first in range(0, parties, size)]


class Settings(Frozen):
    """`block.json`. first: number of the first party in its federation. common: settings of all, but for their name.
    own: by place in the block, those of a party that has others. counts: rows of each party."""

    first: int = Field(ge=0)
    names: tuple[str, ...]
    counts: tuple[int, ...]
    common: Mapping[str, Any]
    own: Mapping[int, Mapping[str, Any]]


def write_block(
    folder: Path,
    settings: Settings,
    arrays: Mapping[str, Sequence[np.ndarray]],
    shared: Mapping[str, np.ndarray],
    keys: Sequence[bytes] = (),
) -> None:
    """Lay a block out. arrays: of the rows, by name, one of each party. shared: the file's other arrays. keys: secret
    bytes of each party's signing key."""
    if keys:
        write_private(folder / KEYS, b"".join(keys))
    np.savez(folder / ROWS, **{name: np.concatenate(parts) for name, parts in arrays.items()}, **shared)  # pyright: ignore
    text = json.dumps(settings.model_dump())  # pydantic's own would lose limits that are infinite
    (folder / SETTINGS).write_text(text + "\n", encoding="utf-8")


def party_folder(folder: Path, place: int) -> Path:
    """Of what the party at this place in the block has for itself alone."""
    return folder / f"{PARTIES}/{place:05d}"


@dataclass
class Block:
    """An open block, for one exchange. accounts: by place; those that are missing are empty."""

    folder: Path
    settings: Settings
    accounts: dict[int, MemoryAccount] = field(repr=False)
    _new_teachers: dict[tuple[str, int], TeacherSet] = field(default_factory=dict, repr=False)

    @classmethod
    @contextmanager
    def alone(cls, folder: Path) -> Iterator[Block]:
        """Open it, held against others: one that was given up may still be at work. Raises as `open`."""
        with open(folder / LOCK, "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield cls.open(folder)

    @classmethod
    def open(cls, folder: Path) -> Block:
        """Read what all need. Raises OSError, and what pickle raises for files that are no block's."""
        settings = Settings.model_validate(json.loads((folder / SETTINGS).read_text(encoding="utf-8")))
        path = folder / ACCOUNTS
        return cls(folder, settings, pickle.loads(path.read_bytes()) if path.exists() else {})

    def save(self) -> None:
        """Write down what was given, and the teachers that are new. Nothing may leave before."""
        if self._new_teachers:
            self._write(TEACHERS, {**self.teachers, **self._new_teachers})
        self._write(ACCOUNTS, self.accounts)

    def _write(self, name: str, content: object) -> None:
        with replacing(self.folder / name, 0o600, durable=False) as file:
            pickle.dump(content, file)

    def account(self, place: int) -> MemoryAccount:
        """Of the party at this place."""
        return self.accounts.setdefault(place, MemoryAccount())

    def node(self, place: int) -> PartyNode:
        """The party at this place."""
        home = self.home(place)
        return PartyNode(home, BlockStore(self, place, home))

    def home(self, place: int) -> BlockHome:
        """Its settings, and the folder of what it has for itself alone, which need not be there."""
        folder, own = party_folder(self.folder, place), self.settings.own.get(place)
        common = self._common if own is None else _home(folder, {**self.settings.common, **own})
        return replace(
            common,
            folder=folder,
            name=self.settings.names[place],
            data_file=folder / "data.npz",
            roster_file=self.folder / self.settings.common.get("roster", "roster.json"),
            key=self._keys[place] if self._keys else b"",
        )

    @cached_property
    def _keys(self) -> list[bytes]:
        path = self.folder / KEYS
        content = path.read_bytes() if path.exists() else b""
        return [content[start : start + KEY_BYTES] for start in range(0, len(content), KEY_BYTES)]

    @cached_property
    def _common(self) -> BlockHome:
        return _home(self.folder, self.settings.common)

    @cached_property
    def teachers(self) -> dict[tuple[str, int], TeacherSet]:
        """By federation and place. What is on disk, without those that are new."""
        path = self.folder / TEACHERS
        return pickle.loads(path.read_bytes()) if path.exists() else {}

    def teacher_set(self, federation: str, place: int) -> TeacherSet | None:
        """Of a party; None where it has trained none."""
        key = federation, place
        return self._new_teachers.get(key) or self.teachers.get(key)

    def keep_teachers(self, federation: str, place: int, trained: TeacherSet) -> None:
        """Write them down with the next `save`."""
        self._new_teachers[federation, place] = trained

    def rows(self, place: int, home: Home, schema: Schema) -> Rows:
        """Of a party, as it would read them from a file of its own. Raises Refused as `load_rows`."""
        start, end = self._ends[place], self._ends[place + 1]
        if home.rules == self._common.rules and start < end and (together := self._read(schema)) is not None:
            part = slice(start, end)
            return replace(together, x=together.x[part], y=together.y[part], identities=together.identities[part])
        if not home.data_file.exists():  # something is odd about some row: each party reads its own and says what
            home.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with np.load(self.folder / ROWS) as file:
                own = {
                    name: array if name in ("features", "classes") else array[start:end] for name, array in file.items()
                }
            np.savez(home.data_file, **own)
        return load_rows(home.data_file, schema, home.rules)

    @cached_property
    def _ends(self) -> list[int]:
        return [0, *np.cumsum(self.settings.counts).tolist()]

    def _read(self, schema: Schema) -> Rows | None:
        """The rows of all, where nothing is wrong with any and none is left out; what a row becomes is its own."""
        digest = schema.digest()
        if self._all_rows is None or self._all_rows[0] != digest:
            rows, _ = read_rows(self.folder / ROWS, schema, self._common.rules, remarked=False)
            self._all_rows = digest, None if rows is None or len(rows.y) != self._ends[-1] else rows
        return self._all_rows[1]

    _all_rows: tuple[str, Rows | None] | None = field(default=None, repr=False)


@dataclass(frozen=True)
class BlockHome(Home):
    """See `Home`. key: secret bytes of the party's signing key."""

    key: bytes = field(default=b"", repr=False)

    @property
    def state(self) -> Path:
        """See `Home`."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return super().state

    def identity(self) -> Identity:
        """See `Home`."""
        return Identity.of_secret(self.key)

    def roster(self, kind: type[R]) -> R:
        """See `Home`: one file for all, which never changes."""
        return _roster(kind, self.roster_file, self.roster_file.stat().st_mtime_ns)


@lru_cache(maxsize=1)
def _roster(kind: type[R], path: Path, moment: int) -> R:
    return kind.load(path)


def _home(folder: Path, table: Mapping[str, Any]) -> BlockHome:
    settings = PartyFile.model_validate({**table, "name": "block"})
    return BlockHome(
        folder=folder,
        name=settings.name,
        data_file=folder,
        own_policy=settings.policy,
        identity_file=folder,
        roster_file=folder,
        simulated_noise_seed=settings.simulated_noise_seed,
        rules=settings.rules,
        teacher=None if settings.teacher is None else settings.teacher.at(folder),
        durable=False,
    )


@dataclass(frozen=True)
class BlockStore:
    """See `party.node.PartyStore`: of the party at one place of a block."""

    block: Block
    place: int
    home: Home

    @property
    def spend(self) -> SpendStore:
        """See `PartyStore`. Where a session's state is on the party's own disk, so is its account: were it written with
        the block's, and the process died before, the session would go on as if the queries had been charged."""
        if self.home.policy.collection == "secure":
            return SpendStore(self.home.spend_file, durable=False)
        return SpendStore(MemoryBook(self.block.account(self.place)))

    @property
    def uploads(self) -> Uploads:
        """See `PartyStore`."""
        return self.block.account(self.place)

    def rows(self, schema: Schema) -> Rows:
        """See `PartyStore`."""
        return self.block.rows(self.place, self.home, schema)

    def origin(self, request: TrainRequest, schema: Schema, spec: TeacherKind) -> str:
        """See `PartyStore`: rows and settings of a block never change."""
        return request.digest()

    def teachers(self, federation: str) -> TeacherSet:
        """See `PartyStore`."""
        trained = self.block.teacher_set(federation, self.place)
        if trained is None:
            raise Refused(Rule.NOT_TRAINED, detail=f"{self.home.name}: nothing was trained")
        return trained

    def keep_teachers(self, federation: str, trained: TeacherSet) -> None:
        """See `PartyStore`."""
        digest = hashlib.sha256(pickle.dumps((trained.teachers, trained.thresholds))).hexdigest()
        self.block.keep_teachers(federation, self.place, replace(trained, digest=digest))
