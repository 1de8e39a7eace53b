"""What collectors of sums that nobody reads whole have in common, and what they remember from one session to the next:
who is not asked any more."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np

from consilium.accounting.events import PartyNoise
from consilium.coordinator.collection.base import Counts, Queries
from consilium.coordinator.collection.means import Collecting
from consilium.protocol.errors import ConfigError
from consilium.protocol.files import replace_private
from consilium.sums.roster import SumRoster
from consilium.sums.terms import SumTerms

HISTORY = "history.json"


class History:
    """One JSON file, made on first use; it is on disk when a method returns.

    roster: its hash. left_out: reason by name. refused: in how many verified sessions both aggregators did not accept a
    party, by name. Raises ConfigError: the file is not one of these, or of another roster.
    """

    def __init__(self, path: Path, roster: str) -> None:
        self._path, self._roster = path, roster
        self.left_out: dict[str, str] = {}
        self.refused: dict[str, int] = {}
        if not path.exists():
            return
        try:
            content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            self.left_out = {str(name): str(reason) for name, reason in content["left_out"].items()}
            self.refused = {str(name): int(times) for name, times in content.get("refused", {}).items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise _unusable(path, "cannot be read") from None
        if content.get("roster") != roster:
            raise _unusable(path, "is of another roster")

    def leave_out(self, names: Iterable[str], reason: str) -> None:
        """These are at fault and not asked any more."""
        self.left_out |= dict.fromkeys(names, reason)
        self._save()

    def refuse(self, name: str) -> int:
        """Nobody can show why this one was not accepted; how often that was so by now."""
        self.refused[name] = self.refused.get(name, 0) + 1
        self._save()
        return self.refused[name]

    def _save(self) -> None:
        content = {"roster": self._roster, "left_out": self.left_out, "refused": self.refused}
        replace_private(self._path, json.dumps(content) + "\n")


def _unusable(path: Path, fault: str) -> ConfigError:
    return ConfigError(f"{path} {fault}", "Restore it. Without it parties that lied are asked again")


Terms = TypeVar("Terms", bound=SumTerms)


class SumCollector:
    """A `Collector` whose sums nobody reads whole. The state of a session is on disk from before its first request
    until its labels are in the ledger.

    folder: where the states of open sessions are, made on first use. SUFFIX: of a session's file or folder.
    """

    SUFFIX: ClassVar[str]
    _history: History

    def __init__(self, means: Collecting, roster: SumRoster) -> None:
        self._transport, self._config, self._members = means.transport, means.config, means.members
        self._folder, self._standing, self._log, self._roster = means.sessions, means.standing, means.log, roster
        self._finished: list[Callable[[], object]] = []

    def settle(self) -> None:
        """Forget the sessions that gave the last sums: these are in the ledger. Those that failed are kept."""
        for forget in self._finished:
            forget()
        self._finished.clear()

    def _begin(self, queries: Queries) -> Path:
        """The place of a session, and the history as it is now."""
        if queries.round == 1:
            self._finished.clear()  # of a request that came to nothing: its session may be gone on with
        self._folder.mkdir(mode=0o700, exist_ok=True)
        self._history = History(self._folder / HISTORY, self._roster.digest)
        return self._folder / f"{queries.hash[:32]}-{queries.round}{self.SUFFIX}"

    def _giver_noise(self, sigma: float) -> PartyNoise:
        """What each party, or each aggregator, adds for this noise of the mechanism on a count."""
        return self._config.sum_noise(sigma).drawn

    def _counts(self, sums: np.ndarray, parties: Iterable[str], sigma: float) -> Counts:
        """Of these parties, with the noise that all givers have added for this noise of the mechanism."""
        names, drawn = tuple(sorted(parties)), self._giver_noise(sigma)
        held = drawn.sigma * math.sqrt(self._config.givers(len(names)) / drawn.shares)
        return Counts(sums, names, len(names) * self._config.teachers_per_party, held)

    def _new_terms(self, kind: type[Terms], queries: Queries, **others: object) -> Terms:
        """Of a new session on these queries. others: fields of this kind of terms."""
        return kind.of_queries(
            self._roster,
            self._config.digest(),
            queries.rows,
            len(self._config.rows.classes),
            self._config.teachers_per_party,
            position=self._standing.position(),
            round=queries.round,
            **others,
        )
