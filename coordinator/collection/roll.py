"""Where each party stands, by name, read from the events of a run: for `status`, the summary and whoever shows it.

The event log is the one record: what a killed coordinator knew is in it, and a new one goes on with it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from consilium.protocol.refusals import CURES, Rule

PASSING = frozenset({"enrol", "train"})
"""Stages that a party has to get through to take part; to miss another one costs it one sum."""
SILENT_IN_0_9 = re.compile(r"(^|: )(no answer within|node )")
REFUSED_IN_0_9 = re.compile(r"refused: ([a-z-]+)")
"""How reasons began in logs of version 0.9, which have neither `rule` nor `silent`."""


@dataclass(frozen=True)
class LeftOut:
    """The event of a party that is left out of a stage. rule: by which it refused; None where it did not. silent: it
    said nothing."""

    party: str
    stage: str
    reason: str
    rule: Rule | None
    silent: bool

    @classmethod
    def read(cls, event: Mapping[str, Any]) -> LeftOut:
        """From the log. Raises KeyError where something is missing."""
        reason, word, silent = str(event["reason"]), event.get("rule"), bool(event.get("silent"))
        if "rule" not in event:
            refused = REFUSED_IN_0_9.search(reason)
            word, silent = refused and refused[1], SILENT_IN_0_9.search(reason) is not None
        rule = Rule(word) if word in set(Rule) else None
        return cls(str(event["party"]), str(event["stage"]), reason, rule, silent)

    @property
    def text(self) -> str:
        """For a person."""
        return f"{self.party} left out of stage {self.stage}: {self.reason}"

    @property
    def words(self) -> str:
        """The same, and what to do about it where that is known."""
        return f"{self.text}. {CURES[self.rule]}" if self.rule else self.text


SECOND, AWAY = "aggregator ", "away"


def shown(name: str) -> str:
    """What the second aggregator is called in logs; no party can be called so.

    >>> shown("board")
    'aggregator board'
    """
    return f"{SECOND}{name}"


def second_of(shown: str) -> str | None:
    """The second aggregator's name, from what it is called in logs; None for anybody else.

    >>> second_of("aggregator board"), second_of("zurich")
    ('board', None)
    """
    return shown.removeprefix(SECOND) if shown.startswith(SECOND) else None


class PartyState(StrEnum):
    """How far a party has come since the coordinator was started last."""

    AWAITED = "awaited"
    ENROLLED = "enrolled"
    LATE = "late"
    TAKES_PART = "takes part"
    REFUSED = "refused"
    LEFT_OUT = "left out"


@dataclass
class RollEntry:
    """One party. since: time of its last change. reason: why it is refused or was left out last. rule: of a refusal.
    voted: its votes are in a sum of this federation; ever: it took part at some time, before a restart too."""

    state: PartyState = PartyState.AWAITED
    connected: bool = False
    since: str = ""
    reason: str = ""
    rule: Rule | None = None
    voted: bool = False
    ever: bool = False

    @property
    def words(self) -> str:
        """For a person: state, connection, and what to do about it.

        >>> RollEntry(PartyState.TAKES_PART, connected=True, voted=True).words
        'takes part, connected, in sums'
        """
        parts: list[str] = [self.state.value]
        match self.state:
            case PartyState.TAKES_PART:
                parts += ["connected" if self.connected else "not connected now"]
                parts += ["in sums" if self.voted else "in no sum yet"]
                parts += [f"last left out: {self.reason}"] if self.reason else []
            case PartyState.LATE:
                parts += ["takes part from the next questions on"]
            case PartyState.REFUSED | PartyState.LEFT_OUT:
                return f"{self.reason}. {CURES[self.rule]}" if self.rule else f"{self.state.value}: {self.reason}"
            case _:
                parts += ["connected" if self.connected else "not connected"]
        return ", ".join(parts)

    def to_json(self) -> dict[str, Any]:
        """As plain values, with the words."""
        return {**asdict(self), "state": self.state.value, "words": self.words}


@dataclass
class SecondEntry:
    """The second aggregator. served: it said that it serves this federation, at some time. since: its last change."""

    connected: bool = False
    served: bool = False
    since: str = ""

    @property
    def words(self) -> str:
        """For a person.

        >>> SecondEntry().words, SecondEntry(connected=True, served=True).words
        ('away', 'connected, checks votes')
        """
        return AWAY if not self.connected else f"connected{', checks votes' if self.served else ''}"

    def to_json(self) -> dict[str, Any]:
        """As plain values, with the words."""
        return {**asdict(self), "words": self.words}


class Roll:
    """All parties of a run. names: those that may connect; others are added as events tell of them. seconds: the second
    aggregator of verified votes, by its name, and those before it."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self.seconds: dict[str, SecondEntry] = {}
        self.entries: dict[str, RollEntry] = {name: RollEntry() for name in sorted(names)}

    @classmethod
    def of(cls, events: Iterable[dict[str, Any]], names: Iterable[str] = ()) -> Roll:
        """After all these events."""
        roll = cls(names)
        for event in events:
            roll.hear(event)
        return roll

    @property
    def took_part(self) -> list[str]:
        """Everybody who ever did in this run, sorted."""
        return sorted(name for name, entry in self.entries.items() if entry.ever)

    def hear(self, event: dict[str, Any]) -> None:
        """Take one event in, in its turn."""
        match event.get("event"):
            case "awaiting":
                for second in self.seconds.values():
                    second.connected = False
                for entry in self.entries.values():
                    entry.state, entry.connected, entry.reason = PartyState.AWAITED, False, ""
                self._of(event)
            case "connected" | "lost" as what:
                for entry in self._of(event):
                    entry.connected = what == "connected"
                for name in filter(None, map(second_of, event.get("parties", ()))):
                    self._second(name, event).connected = what == "connected"
            case "second-aggregator":
                second = self._second(str(event["name"]), event)
                second.connected = second.served = True
            case "enrolled":
                for entry in self._of(event):
                    entry.state, entry.reason = PartyState.ENROLLED, ""
            case "late":
                for entry in self._of(event):
                    entry.state, entry.reason, entry.ever = PartyState.LATE, "", True
            case "takes-part":
                for entry in self._of(event):
                    entry.state, entry.reason, entry.ever = PartyState.TAKES_PART, "", True
            case "voted":
                for entry in self._of(event):
                    entry.voted = entry.ever = True
            case "left-out":
                self._left_out(event)
            case "excluded":
                for entry in self._of({**event, "parties": [event["party"]]}):
                    entry.state, entry.rule = PartyState.LEFT_OUT, None
                    entry.reason = f"found at fault: {event['reason']}"

    def _of(self, event: dict[str, Any]) -> list[RollEntry]:
        names = [str(name) for name in event.get("parties", ()) if second_of(str(name)) is None]
        entries = [self.entries.setdefault(name, RollEntry()) for name in names]
        for entry in entries:
            entry.since = str(event.get("at", ""))
        return entries

    def _second(self, name: str, event: dict[str, Any]) -> SecondEntry:
        entry = self.seconds.setdefault(name, SecondEntry())
        entry.since = str(event.get("at", ""))
        return entry

    def _left_out(self, event: dict[str, Any]) -> None:
        lost = LeftOut.read(event)
        if lost.party not in self.entries and lost.party.startswith("node "):
            return  # a simulated one that never told its name
        (entry,) = self._of({**event, "parties": [lost.party]})
        if lost.stage in PASSING:
            entry.state = PartyState.REFUSED if lost.rule else PartyState.LEFT_OUT
            entry.reason, entry.rule = lost.reason, lost.rule
        else:
            entry.reason, entry.rule = f"{lost.stage}: {lost.reason}", None


def read_events(path: Path) -> Iterator[dict[str, Any]]:
    """The events of a run so far; none where there is no log. A last line that a killed process left is passed over."""
    if not path.exists():
        return
    with open(path, encoding="utf-8") as file:
        for line in file:
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if isinstance(event, dict):
                yield event
