"""A simulated party's account in memory: what `party.account.SpendFile` keeps in a file of each party's own."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from consilium.party.account import Account, Position, Starts
from consilium.party.sum_store import KeptUpload
from consilium.protocol.messages import LedgerPosition

Answer = tuple[str, str, int]
"""Federation, digest of the teachers, phase."""


class SessionVotes(NamedTuple):
    """Verified votes that were given in one session; their bytes None once they are erased."""

    query_set: str
    phase: int
    started: float
    request: bytes
    upload: bytes | None

    def __repr__(self) -> str:
        return "SessionVotes(<private>)"


@dataclass
class MemoryAccount:
    """See `party.account.Account` and, of the verified votes that the party gave, `party.sum_store.Uploads`.

    All values are immutable: many accounts share them, and undoing is forgetting.
    """

    _terms: dict[str, str] = field(default_factory=dict)
    _positions: dict[str, Position] = field(default_factory=dict)
    _asked: dict[str, int] = field(default_factory=dict)
    _promises: dict[str, str] = field(default_factory=dict)
    _answers: dict[Answer, tuple[frozenset[bytes], ...]] = field(default_factory=dict)
    _uploads: dict[str, SessionVotes] = field(default_factory=dict)

    def __repr__(self) -> str:
        return "MemoryAccount(<private>)"

    def find(self, sid: str) -> KeptUpload | None:
        """See `party.sum_store.Uploads`."""
        upload = self._uploads.get(sid)
        return None if upload is None else KeptUpload(upload.request, upload.upload)

    def sessions_on(self, query_set: str, phase: int) -> int:
        """See `party.sum_store.Uploads`."""
        return sum((each.query_set, each.phase) == (query_set, phase) for each in self._uploads.values())

    def keep(
        self, sid: str, query_set: str, phase: int, started: float, request: bytes, upload: bytes
    ) -> KeptUpload | None:
        """See `party.sum_store.Uploads`."""
        self._uploads.setdefault(sid, SessionVotes(query_set, phase, started, request, upload))
        return self.find(sid)

    def erase_before(self, moment: float) -> None:
        """See `party.sum_store.Uploads`."""
        self._uploads |= {
            sid: each._replace(upload=None) for sid, each in self._uploads.items() if each.started < moment
        }

    def terms(self, federation: str) -> str | None:
        return self._terms.get(federation)

    def first_terms(self, federation: str, text: str) -> None:
        self._terms.setdefault(federation, text)

    def position(self, federation: str) -> Position | None:
        return self._positions.get(federation)

    def first_position(self, federation: str, ledger: str) -> None:
        self._positions.setdefault(federation, Position(ledger, 0, "0" * 64))

    def move(self, federation: str, position: LedgerPosition) -> None:
        ledger = self._positions[federation].ledger
        self._positions[federation] = Position(ledger, position.batch, position.head)
        self._asked[federation] = position.batch

    def asked_at(self, federation: str) -> int | None:
        return self._asked.get(federation)

    def starts(self, federation: str) -> Starts:
        return Starts()  # of a simulation, which has one coordinator

    def keep_starts(self, federation: str, starts: Starts) -> None:
        """None are kept."""

    def promise(self, federation: str) -> str | None:
        return self._promises.get(federation)

    def first_promise(self, federation: str, text: str) -> None:
        self._promises.setdefault(federation, text)

    def other_promises(self, federation: str) -> list[str]:
        return [text for of, text in self._promises.items() if of != federation]

    def answers_of(self, teachers: str, phase: int) -> Collection[bytes]:
        parts = [part for (_, *key), batch in self._answers.items() if key == [teachers, phase] for part in batch]
        return frozenset[bytes]().union(*parts)

    def give(self, federation: str, teachers: str, phase: int, queries: frozenset[bytes]) -> None:
        key = federation, teachers, phase
        self._answers[key] = (*self._answers.get(key, ()), queries)

    def answered(self, but: str = "") -> int:
        counted = [(key, part) for key, batch in self._answers.items() if key[0] != but for part in batch]
        first = sum(len(part) for (*_, phase), part in counted if phase == 1)
        return first + sum(
            len(part.difference(self.answers_of(teachers, 1))) for (_, teachers, phase), part in counted if phase > 1
        )

    def answered_in(self, federation: str, phase: int) -> int:
        return sum(
            len(part)
            for (of, _, in_phase), batch in self._answers.items()
            if (of, in_phase) == (federation, phase)
            for part in batch
        )


class MemoryBook:
    """See `party.account.SpendBook`: of one account, whoever writes it down."""

    def __init__(self, account: MemoryAccount) -> None:
        self._account = account

    def exists(self) -> bool:
        """See `SpendBook`."""
        return bool(self._account._terms)

    @contextmanager
    def transaction(self) -> Iterator[Account]:
        """See `SpendBook`."""
        before = {name: dict(table) for name, table in vars(self._account).items()}
        try:
            yield self._account
        except BaseException:
            vars(self._account).update(before)
            raise
