"""What coordinator and party tell each other at enrolment beside the terms: versions, and where their states stand.

A coordinator whose ledger went back to an older backup is refused by every party that has seen a later position. The
other way round, a party reports the last position at which it was asked for votes; the coordinator keeps what parties
that voted must have seen, and leaves out one whose state is older than that: it has forgotten what it gave.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from consilium.coordinator.config import FederationConfig
from consilium.protocol.errors import LedgerError
from consilium.protocol.files import replace_private
from consilium.protocol.parties.messages import PROTOCOL_VERSION, HelloReply, HelloRequest, LedgerPosition
from consilium.protocol.versions import program_versions

SEEN_FILE = "seen.json"


class SeenPositions:
    """By party, the least `HelloReply.seen` that it must report from now on; a file in the run folder."""

    def __init__(self, path: Path) -> None:
        """Raises LedgerError if the file is damaged."""
        self._path = path
        self.least: dict[str, int] = {}
        if path.exists():
            try:
                found = json.loads(path.read_text(encoding="utf-8"))
                self.least = {str(party): int(seen) for party, seen in found.items()}
            except (OSError, ValueError, TypeError, AttributeError):
                raise LedgerError(
                    f"{path} cannot be read", "Restore it with the ledger beside it; without both nothing is released"
                ) from None

    def note(self, parties: Iterable[str], batch: int) -> None:
        """These parties voted when the ledger stood at `batch`; on disk when this returns."""
        later = {party: batch + 1 for party in parties if self.least.get(party, 0) <= batch}
        if later:
            self.least |= later
            replace_private(self._path, json.dumps(self.least, sort_keys=True) + "\n")


@dataclass(frozen=True)
class Greeting:
    """What this coordinator says of itself, and knows of each party from before (`SeenPositions.least`).

    position: where the ledger stands when it is asked.
    """

    position: Callable[[], LedgerPosition]
    least: Mapping[str, int] = field(default_factory=dict)
    program: str = field(default_factory=program_versions)

    @classmethod
    def of_empty(cls, ledger: str) -> Greeting:
        """Where nothing was asked yet. ledger: its id."""
        return cls(lambda: LedgerPosition(ledger=ledger, batch=0, head="0" * 64))

    def request(self, config: FederationConfig, late: bool = False) -> HelloRequest:
        """The message."""
        return HelloRequest(
            **config.terms().model_dump(),
            protocol_version=PROTOCOL_VERSION,
            **self.position().model_dump(),
            program=self.program,
            late=late,
        )

    def behind(self, reply: HelloReply) -> str | None:
        """Why a party whose state went back cannot take part, or None."""
        least = self.least.get(reply.party, 0)
        if reply.seen >= least:
            return None
        return (
            f"its state went back: it was asked at position {least} of the ledger, and knows {reply.seen}. Restore the"
            " newest backup of its kit; if that is lost, revoke it, and enrol it under a new name with new keys"
        )

    def other_version(self, reply: HelloReply) -> dict[str, str] | None:
        """Both programs with their versions, if they differ."""
        if reply.program == self.program:
            return None
        return {"party": reply.party, "theirs": reply.program or "an unknown version", "ours": self.program}
