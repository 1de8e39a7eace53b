"""What has become of a run so far, by its events in their order: its stage, what went wrong, where each party stands.

For `status`, the summary and the doctor. The event log is the one record: what
a killed coordinator knew is in it, and a new one goes on with it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from consilium.coordinator.events import (
    Awaiting,
    Closed,
    Connected,
    Enrolled,
    Event,
    Excluded,
    Failed,
    FalseVotes,
    Late,
    LeftOut,
    Lost,
    NotAnswered,
    OfParties,
    OtherConsilium,
    Released,
    SecondAggregatorAnswered,
    Serving,
    StageBegins,
    StageGoesOn,
    TakesPart,
    Voted,
    WaitingForParties,
)
from consilium.protocol.refusals import CURES, Rule
from consilium.report.words import many

MOST_TROUBLES = 10
NO_ANSWER = "Its team looks whether the node runs, with `consilium doctor` and `consilium status`"
UNKNOWN = "Run `consilium doctor` at both ends; the run's events.jsonl has what the coordinator saw."
NOT_STARTED = "not started"
PASSING = frozenset({"enrol", "train"})
"""Stages that a party has to get through to take part; to miss another one costs it one sum."""
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
    REVOKED = "revoked"


@dataclass
class RollEntry:
    """One party. reason: why it is refused or was left out last. rule: of a refusal. queries: that it answered in sums
    of this federation; ever: it took part at some time. Both before a restart too."""

    state: PartyState = PartyState.AWAITED
    connected: bool = False
    reason: str = ""
    rule: Rule | None = None
    queries: int = 0
    ever: bool = False

    @property
    def words(self) -> str:
        """For a person: state, connection, and what to do about it.

        >>> RollEntry(PartyState.TAKES_PART, connected=True, queries=36).words
        'takes part, connected, answered 36 queries'
        """
        parts: list[str] = [self.state.value]
        match self.state:
            case PartyState.TAKES_PART:
                parts += ["connected" if self.connected else "not connected now"]
                parts += [] if self.queries else ["in no sum yet"]
                parts += [f"last left out: {self.reason}"] if self.reason else []
            case PartyState.LATE:
                parts += ["takes part from the next questions on"]
            case PartyState.REFUSED | PartyState.LEFT_OUT:
                parts = [f"{self.reason}. {CURES[self.rule]}" if self.rule else f"{self.state.value}: {self.reason}"]
            case PartyState.REVOKED:
                parts += ["the operator shut it out"]
            case _:
                parts += ["connected" if self.connected else "not connected"]
        if self.queries:
            parts += [f"answered {many(self.queries, 'query')}"]
        return ", ".join(parts)


@dataclass
class SecondEntry:
    """The second aggregator. served: it said that it serves this federation, at some time."""

    connected: bool = False
    served: bool = False

    @property
    def words(self) -> str:
        """For a person.

        >>> SecondEntry().words, SecondEntry(connected=True, served=True).words
        ('away', 'connected, checks votes')
        """
        return AWAY if not self.connected else f"connected{', checks votes' if self.served else ''}"


def entry_json(entry: RollEntry) -> dict[str, Any]:
    """As plain values, with the words."""
    return {**asdict(entry), "words": entry.words}


class Roll:
    """All parties of a run. names: those that may connect; others are added as events tell of them. seconds: the second
    aggregator of verified votes, by its name, and those before it."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self.seconds: dict[str, SecondEntry] = {}
        self.entries: dict[str, RollEntry] = {name: RollEntry() for name in sorted(names)}

    @property
    def took_part(self) -> list[str]:
        """Everybody who ever did in this run, sorted."""
        return sorted(name for name, entry in self.entries.items() if entry.ever)

    def take(self, event: Event) -> None:
        """Take one event in, in its turn."""
        if isinstance(event, Awaiting):
            for each in (*self.entries.values(), *self.seconds.values()):
                each.connected = False
            for entry in self.entries.values():
                entry.state, entry.reason = PartyState.AWAITED, ""
        if isinstance(event, OfParties):
            for name in event.parties:
                if (second := second_of(name)) is None:
                    self._of_party(event, self._entry(name))
                else:
                    self.seconds.setdefault(second, SecondEntry()).connected = isinstance(event, Connected)
        match event:
            case SecondAggregatorAnswered():
                self.seconds[event.name] = SecondEntry(connected=True, served=True)
            case LeftOut():
                if event.party not in self.entries and event.party.startswith("node "):
                    return  # a simulated one that never told its name
                entry = self._entry(event.party)
                if event.stage in PASSING:
                    entry.state = PartyState.REFUSED if event.rule else PartyState.LEFT_OUT
                    entry.reason, entry.rule = event.reason, event.rule
                else:
                    entry.reason, entry.rule = f"{event.stage}: {event.reason}", None
            case Excluded():
                entry = self._entry(event.party)
                entry.state, entry.rule, entry.reason = PartyState.LEFT_OUT, None, f"found at fault: {event.reason}"

    def _entry(self, name: str) -> RollEntry:
        return self.entries.setdefault(name, RollEntry())

    def _of_party(self, event: OfParties, entry: RollEntry) -> None:
        match event:
            case Connected() | Lost():
                entry.connected = isinstance(event, Connected)
            case Enrolled():
                if entry.state is not PartyState.TAKES_PART:  # one that comes back while it does goes on with it
                    entry.state, entry.reason = PartyState.ENROLLED, ""
            case Late() | TakesPart():
                entry.state = PartyState.LATE if isinstance(event, Late) else PartyState.TAKES_PART
                entry.reason, entry.ever = "", True
            case Voted():
                entry.queries, entry.ever = entry.queries + event.queries, True
                if entry.state in (PartyState.ENROLLED, PartyState.LATE):  # it came back, and was asked at once
                    entry.state = PartyState.TAKES_PART


@dataclass(frozen=True)
class RunTrouble:
    """What went wrong, and what to do about it. at: time of day, UTC, as in the log."""

    at: str
    what: str
    cure: str

    @property
    def words(self) -> str:
        """In a line."""
        return f"{self.at} {self.what}{f'. {self.cure}' if self.cure else ''}"


class RunState:
    """After the events that it took. names: of the parties that may connect.

    stage: its name; stage_words: for people. since: when that began. last: time of the last event. started, starts:
    when a coordinator was started last, and how often one was. versions: by party, in words, where another runs.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self.roll = Roll(names)
        self.stage = self.stage_words = NOT_STARTED
        self.since = self.last = self.started = ""
        self.starts = 0
        self.versions: dict[str, str] = {}
        self._troubles: deque[RunTrouble] = deque(maxlen=MOST_TROUBLES)

    @classmethod
    def of(cls, events: Iterable[Event], names: Iterable[str] = ()) -> RunState:
        """After all these events."""
        state = cls(names)
        for event in events:
            state.take(event)
        return state

    @property
    def troubles(self) -> list[RunTrouble]:
        """The last ones, newest first."""
        return list(reversed(self._troubles))

    def take(self, event: Event) -> None:
        """One event. Of what is not known here nothing is kept."""
        self.last = event.at or self.last
        self.roll.take(event)
        match event:
            case WaitingForParties():
                words = f"waiting for parties; connected: {event.connected}, needed: {event.required}"
                self._begin("waiting", words)
            case StageBegins():
                self._begin(event.stage, event.stage)
            case StageGoesOn():
                if event.stage != self.stage:
                    self._begin(event.stage, event.stage)
            case Serving():
                self._begin("serving", f"serving students at {event.address}")
            case Released():
                self._begin("serving", "serving students")
            case Failed():
                self._begin("failed", "failed")
                self._trouble(event.what, event.action)
            case Closed():
                self._begin("closed", "closed")
            case LeftOut():
                cure = f"{CURES[event.rule]}." if event.rule else NO_ANSWER if event.silent else UNKNOWN
                self._trouble(event.text, cure)
            case Excluded():
                cure = "Compare versions with its team. If it stays so, revoke it."
                self._trouble(event.words, cure)
            case FalseVotes():
                self._trouble(event.what, event.action)
            case NotAnswered():
                self._trouble(event.words, event.cure)
                self._begin("serving", "serving students")
            case Awaiting():
                self.versions.clear()
                self.started, self.starts = event.at, self.starts + 1
            case OtherConsilium():
                self.versions[event.party] = f"{event.party} runs {event.theirs}, this coordinator {event.ours}"

    def _begin(self, stage: str, words: str) -> None:
        if (stage, words) == (self.stage, self.stage_words):
            return  # who is waited for is said every minute
        self.stage, self.stage_words, self.since = stage, words, self.last

    def _trouble(self, message: str, cure: str) -> None:
        self._troubles.append(RunTrouble(self.last, message, cure))
