"""What collectors of sums that nobody reads whole have in common, and what they remember from one session to the next:
who is not asked any more, and whose block may spoil exact sums.

In whose block is the party that gives an exact sum a wrong total? Masks hide who it is. But exact sums are over whole
blocks (`sums.roster`), asking one again uses nothing up, and honest parties never spoil a total: one of the blocks that
were in a spoiled sum lies. So a block that was in none of the sums that were spoiled since is cleared, and each sum is
taken without half of those that are left, as far as enough parties remain. Sums that come out right clear nobody, since
a liar may lie now and then; they cost nothing either. With k blocks of which g can be spared, one liar spoils at most
`most_spoiled(k, g)` sums before its block is the only one left, however it chooses when to lie. Liars in several blocks
can have another block left out."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np

from consilium.accounting.events import PartyNoise
from consilium.coordinator.collection.exchange import Member, Transport
from consilium.coordinator.collection.means import Standing
from consilium.coordinator.config import FederationConfig
from consilium.coordinator.events import EventLog
from consilium.protocol.errors import ConfigError
from consilium.protocol.files import replace_private
from consilium.sums.roster import SumRoster
from consilium.sums.terms import SessionTerms

Block = frozenset[int]
"""Places in the roster."""


def narrowed(suspects: Sequence[Block], summed: Collection[Block]) -> list[Block]:
    """The blocks of which one holds a liar, once the sum over the blocks `summed` was spoiled.

    suspects : those so far; none where no sum was spoiled yet. Where they were all left out of this sum there is a
    second liar, and the search begins anew.

    >>> a, b, c = frozenset({0, 1}), frozenset({2, 3}), frozenset({4, 5})
    >>> narrowed([], [a, b]) == [a, b], narrowed([a, b], [b, c]) == [b], narrowed([a], [b, c]) == [b, c]
    (True, True, True)
    """
    return [block for block in suspects if block in summed] or sorted(summed, key=min)


def set_aside(suspects: Sequence[Block], there: Collection[int], least: int, rng: np.random.Generator) -> Block:
    """Who is left out of the next sum: blocks at random, so that half of the suspects are not in it.

    there : places of the parties that could be summed. least : how many must be.
    """
    present = [block for block in suspects if block <= {*there}]
    wanted, room = len(suspects) // 2 - (len(suspects) - len(present)), len(there) - least
    aside: list[Block] = []
    for number in rng.permutation(len(present)):
        if len(aside) < wanted and len(present[number]) <= room:
            aside.append(present[number])
            room -= len(present[number])
    return frozenset[int]().union(*aside)


def most_spoiled(blocks: int, spare: int) -> int:
    """Sums that one liar can spoil before its block is out, where all parties are there. spare : blocks that a sum can
    do without, at least one.

    >>> most_spoiled(5, 1), most_spoiled(103, 34)
    (5, 9)
    """
    spoiled = 1
    while blocks > 1:
        blocks -= min(spare, blocks // 2)
        spoiled += 1
    return spoiled


HISTORY = "history.json"


class History:
    """One JSON file, made on first use; it is on disk when a method returns.

    roster: its hash. left_out: reason by name. refused: in how many verified sessions both aggregators did not accept a
    party, by name. suspects: blocks of which one spoils exact sums; none where no sum
    was spoiled yet.

    Raises
    ------
    ConfigError : the file is not one of these, or of another roster.
    """

    def __init__(self, path: Path, roster: str) -> None:
        self._path, self._roster = path, roster
        self.left_out: dict[str, str] = {}
        self.refused: dict[str, int] = {}
        self.suspects: list[Block] = []
        if not path.exists():
            return
        try:
            content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            self.left_out = {str(name): str(reason) for name, reason in content["left_out"].items()}
            self.refused = {str(name): int(times) for name, times in content.get("refused", {}).items()}
            self.suspects = [frozenset(map(int, block)) for block in content.get("suspects", [])]
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

    def suspect(self, blocks: Iterable[Block]) -> None:
        """One of these blocks spoils exact sums."""
        self.suspects = list(blocks)
        self._save()

    def _save(self) -> None:
        content = {
            "roster": self._roster,
            "left_out": self.left_out,
            "refused": self.refused,
            "suspects": [sorted(block) for block in self.suspects],
        }
        replace_private(self._path, json.dumps(content) + "\n")


def _unusable(path: Path, fault: str) -> ConfigError:
    return ConfigError(f"{path} {fault}", "Restore it. Without it parties that lied are asked again")


Terms = TypeVar("Terms", bound=SessionTerms)


class SumCollector:
    """A `Collector` whose sums nobody reads whole. The state of a session is on disk from before its first request
    until its labels are in the ledger.

    folder: where the states of open sessions are, made on first use. SUFFIX: of a session's file or folder.
    """

    SUFFIX: ClassVar[str]
    _history: History

    def __init__(
        self,
        transport: Transport,
        config: FederationConfig,
        members: list[Member],
        roster: SumRoster,
        folder: Path,
        standing: Standing,
        log: EventLog,
    ) -> None:
        self._transport, self._config, self._members, self._roster = transport, config, members, roster
        self._folder, self._standing, self._log = folder, standing, log
        self._finished: list[Callable[[], object]] = []

    def settle(self) -> None:
        """Forget the sessions that gave the last sums: these are in the ledger. Those that failed are kept."""
        for forget in self._finished:
            forget()
        self._finished.clear()

    def _begin(self, query_set: str, phase: int) -> Path:
        """The place of a session, and the history as it is now."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        self._history = History(self._folder / HISTORY, self._roster.digest)
        return self._folder / f"{query_set[:32]}-{phase}{self.SUFFIX}"

    def _giver_noise(self, phase: int) -> PartyNoise:
        """What each party, or each aggregator, adds in this phase."""
        return self._config.node_event(0, 0).party_noise(phase) or PartyNoise(0.0, 0)

    def _new_terms(self, kind: type[Terms], queries: np.ndarray, phase: int, **others: object) -> Terms:
        """Of a new session on these queries. others: fields of this kind of terms."""
        return kind.create(
            self._roster,
            self._config.digest(),
            queries,
            len(self._config.rows.classes),
            self._config.teachers_per_party,
            position=self._standing.position(),
            phase=phase,
            agreed="" if self._config.noise_in_sums else self._config.terms().digest(),
            **others,
        )
