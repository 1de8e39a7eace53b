"""What a party remembers of hidden sums, and what it never gives twice: its masked sessions, every query whose sum it
has helped to unmask, and the bytes of its verified votes, so that a repeated request gets the same ones.

A stage is one transaction of the party's `Store`, committed before its reply leaves. Secrets are overwritten when they
are no longer needed.

A party helps to unmask a sum on a query once. Queries are checked early, so that a refusal comes before work, and again
in the transaction that records them: the one in which the shares are given that unmask the sum. Before that nothing is
used up. Unmasking needs the shares of t parties; two groups of t have an honest party in common (2t > n + c), and that
one refuses the second time."""

from __future__ import annotations

from dataclasses import dataclass, field

from consilium.party.store import Store


@dataclass(frozen=True)
class Kept:
    """What was given for a request, of which `request` is the digest; None once its bytes are erased. Never printed."""

    request: bytes
    reply: bytes | None = field(repr=False)


@dataclass(frozen=True)
class Uploads:
    """Reads and writes of verified votes that were given, within a transaction of the store."""

    store: Store

    def find(self, sid: str) -> Kept | None:
        """What was given in a session."""
        row = self.store.one("SELECT request, upload FROM uploads WHERE sid = ?", sid)
        return None if row is None else Kept(*row)

    def sessions_on(self, query_set: str, round: int) -> int:
        """In how many sessions votes on this very query set were given, in this round."""
        statement = "SELECT COUNT(*) FROM uploads WHERE query_set = ? AND round = ?"
        return self.store.execute(statement, query_set, round)[0][0]

    def keep(self, sid: str, query_set: str, round: int, started: float, kept: Kept) -> None:
        """Keep what is given; in a session it is given once."""
        values = sid, query_set, round, started, kept.request, kept.reply
        self.store.execute("INSERT INTO uploads VALUES (?, ?, ?, ?, ?, ?)", *values)

    def erase_before(self, moment: float) -> None:
        """Overwrite the bytes of sessions that began before."""
        self.store.execute("UPDATE uploads SET upload = NULL WHERE started < ? AND upload IS NOT NULL", moment)
