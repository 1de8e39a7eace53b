"""Verified sums on the coordinator's disk, in two SQLite files; roster.json stands beside them, for the audit.

sessions/verified.db   each session from before its first request until its labels are in the ledger: its terms, the
                       leader's key of it, what the parties sent, and what the helper is asked for its half with. As
                       secret as what it holds: one of two parts of each vote.
aggregator.db          what the helper signed of each sum, the ids of its queries, and the totals that the record binds
                       both aggregators to: as secret as the sum."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from consilium.coordinator.collection.means import KeptSessions
from consilium.protocol.databases import committed
from consilium.protocol.errors import MalformedMessage
from consilium.protocol.files import replace_private
from consilium.sums.errors import BadLink
from consilium.sums.roster import VerifiedRoster
from consilium.sums.verified.aggregators import Question, VerifiedSum
from consilium.sums.verified.field import DTYPE
from consilium.sums.verified.messages import GivenRecord, Half, ids_digest
from consilium.sums.verified.uploads import VerifiedTerms

SESSIONS, SUMS, ROSTER = "verified.db", "aggregator.db", "roster.json"
FORMAT = 1
SUM_TABLES = (
    "sums (sid TEXT PRIMARY KEY, terms BLOB, record BLOB, signature BLOB, ids TEXT,"
    " leader_nonce BLOB, leader BLOB, helper_nonce BLOB, helper BLOB)",
)


@dataclass(frozen=True)
class KeptSession:
    """terms, signature: as the coordinator signed them. fresh: the leader's private key of the session. key: the
    helper's public one, for which the uploads are sealed. question: once the other half is asked for."""

    terms: bytes
    signature: bytes
    fresh: bytes = field(repr=False)
    key: bytes | None = None
    question: Question | None = None


class VerifiedSessions(KeptSessions):
    """With the uploads of each."""

    TABLES = (*KeptSessions.TABLES, "uploads (name TEXT, place INTEGER, content BLOB, PRIMARY KEY (name, place))")

    def keep_uploads(self, name: str, uploads: Mapping[int, bytes]) -> None:
        with self._open() as file:
            rows = ((name, place, content) for place, content in uploads.items())
            file.executemany("INSERT OR REPLACE INTO uploads VALUES (?, ?, ?)", rows)

    def places(self, name: str) -> list[int]:
        """Of the parties whose uploads are here, rising."""
        with self._open() as file:
            rows = file.execute("SELECT place FROM uploads WHERE name = ? ORDER BY place", name)
            return [place for (place,) in rows]

    def uploads(self, name: str, places: Sequence[int]) -> dict[int, bytes]:
        with self._open() as file:
            chosen = "name = ? AND place IN (SELECT value FROM json_each(?)) ORDER BY place"
            question = f"SELECT place, content FROM uploads WHERE {chosen}"
            return dict(file.execute(question, name, json.dumps([*places])))


@dataclass(frozen=True)
class KeptSum:
    """A sum whose record's signature holds, and is of these terms and ids, hex, in order. leader, helper: what it binds
    the two to; checked by `check_halves`."""

    terms: VerifiedTerms
    record: GivenRecord
    ids: tuple[str, ...] = field(repr=False)
    leader: Half
    helper: Half

    def check_halves(self) -> None:
        """Raise MalformedMessage unless these are the totals that both aggregators were bound to."""
        ctx, where = self.terms.ctx, f"{SUMS}: session {self.terms.sid}"
        if self.leader.commitment(ctx, leads=True).hex() != self.record.commitment:
            raise MalformedMessage(f"{where}: the coordinator's total is not the one that it was bound to")
        if self.helper.commitment(ctx, leads=False).hex() != self.record.half:
            raise MalformedMessage(f"{where}: the second aggregator's total is not the one that it gave")


class KeptSums:
    """The file of the sums in a run folder; made on first use. Raises LedgerError where it cannot be read."""

    def __init__(self, run_dir: Path, roster: VerifiedRoster) -> None:
        self._open, self._roster = partial(committed, run_dir / SUMS, SUM_TABLES, FORMAT), roster
        if not (run_dir / ROSTER).exists():
            replace_private(run_dir / ROSTER, roster.model_dump_json(indent=1) + "\n")

    def signed(self) -> int:
        with self._open() as file:
            return file.execute("SELECT COUNT(*) FROM sums")[0][0]

    def keep(
        self, content: bytes, signature: bytes, terms: VerifiedTerms, ids: Sequence[str], result: VerifiedSum
    ) -> None:
        """A record, once for each session, and the halves; on disk when this returns. Raises BadLink: what is signed is
        not this sum."""
        try:
            record = GivenRecord.open(content, signature, self._roster)
        except MalformedMessage as error:
            raise BadLink(error.what) from None
        commitment = result.leader.commitment(terms.ctx, leads=True)
        if record != GivenRecord.of(terms.ctx, ids, result.accepted, commitment, result.helper):
            raise BadLink("the second aggregator signs another sum than the one that it gives")
        halves = [part for half in (result.leader, result.helper) for part in (half.nonce, half.total.tobytes())]
        row = terms.sid, terms.canonical(), content, signature, json.dumps(ids), *halves
        with self._open() as file:
            file.execute("INSERT OR IGNORE INTO sums VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", *row)


def read_sums(content: bytes, roster: VerifiedRoster) -> list[KeptSum]:
    """All sums of a file with these bytes, in the order in which they were given. Raises MalformedMessage: it cannot be
    read, a record is not signed by the roster's second aggregator, or is of other terms or queries than stand beside
    it."""
    try:
        with closing(sqlite3.connect(":memory:")) as file:
            file.deserialize(content)
            return [_kept(row, roster) for row in file.execute("SELECT * FROM sums ORDER BY rowid")]
    except (sqlite3.Error, ValueError, TypeError, AttributeError):
        raise MalformedMessage(f"{SUMS} is damaged") from None


def _kept(row: tuple, roster: VerifiedRoster) -> KeptSum:
    sid, content, record, signature, ids, *halves = row
    terms, record, ids = VerifiedTerms.parse(content), GivenRecord.open(record, signature, roster), json.loads(ids)
    if (record.session, record.ids, terms.queries) != (terms.ctx.hex(), ids_digest(ids), len(ids)):
        raise MalformedMessage(f"{SUMS}: the record of session {sid} is of other terms or queries than stand beside it")
    leader, helper = (
        Half(nonce, np.frombuffer(total, dtype=DTYPE).reshape(terms.shape))
        for nonce, total in zip(halves[::2], halves[1::2], strict=True)
    )
    return KeptSum(terms, record, tuple(ids), leader, helper)
