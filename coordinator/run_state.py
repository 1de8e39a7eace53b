"""What has become of a run so far, by its events in their order: its stage, what went wrong, where each party stands.

For `status`, the summary and the doctor. The event log is the one record: what
a killed coordinator knew is in it, and a new one goes on with it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from consilium.coordinator.events import Event
from consilium.protocol.refusals import CURES, Rule
from consilium.report.words import many

MOST_TROUBLES = 5
NO_ANSWER = "Its team looks whether the node runs, with `consilium doctor` and `consilium status`"
UNKNOWN = "Run `consilium doctor` at both ends; the run's events.jsonl has what the coordinator saw."
NOT_STARTED = "not started"
PASSING = frozenset({"enrol", "train"})
"""Stages that a party has to get through to take part; to miss another one costs it one sum."""
OF_PARTIES = frozenset({"awaiting", "connected", "lost", "enrolled", "late", "takes-part", "voted"})
SECOND, AWAY = "aggregator ", "away"
"""Before the second aggregator's name in logs; no party can be called so."""


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


class RunState:
    """After the events that it took. names: of the parties that may connect.

    since: when the stage began. last: time of the last event. started, starts: when a coordinator was started last, and
    how often one was. versions: by party, in words, where another runs. second: connected second aggregators; served:
    those that ever said that they serve this federation. troubles: what went wrong last.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self.roll = {name: RollEntry() for name in sorted(names)}
        self.second, self.served = set[str](), set[str]()
        self.stage = self.stage_words = NOT_STARTED
        self.since = self.last = self.started = ""
        self.starts = 0
        self.versions: dict[str, str] = {}
        self.troubles: deque[str] = deque(maxlen=MOST_TROUBLES)

    @classmethod
    def of(cls, events: Iterable[Event], names: Iterable[str] = ()) -> RunState:
        """After all these events."""
        state = cls(names)
        for event in events:
            state.take(event)
        return state

    @property
    def took_part(self) -> list[str]:
        """Everybody who ever did in this run, sorted."""
        return sorted(name for name, entry in self.roll.items() if entry.ever)

    def second_words(self, name: str) -> str:
        """How a second aggregator stands, for a person."""
        return AWAY if name not in self.second else f"connected{', checks votes' if name in self.served else ''}"

    def take(self, event: Event) -> None:
        """One event, in its turn. Of what is not known here nothing is kept."""
        self.last = event.at or self.last
        match event.kind:
            case "waiting":
                words = f"waiting for parties; connected: {event.connected}, needed: {event.required}"
                self._begin("waiting", words)
            case "stage":
                self._begin(event.stage)
            case "progress" if event.stage != self.stage:
                self._begin(event.stage)
            case "serving":
                self._begin("serving", f"serving students at {event.address}")
            case "released":
                self._begin("serving", "serving students")
            case "failed":
                self._begin("failed")
                self._trouble(event.what, event.action)
            case "closed":
                self._begin("closed")
            case "left-out":
                self._left_out(event)
            case "false-votes":
                self._trouble(event.what, event.action)
            case "not-answered":
                self._trouble(event.words, event.cure)
                self._begin("serving", "serving students")
            case "awaiting":
                self._start(event)
            case "version":
                self.versions[event.party] = f"{event.party} runs {event.theirs}, this coordinator {event.ours}"
            case "second-aggregator":
                self.second.add(event.name)
                self.served.add(event.name)
        if event.kind in OF_PARTIES:
            for name in event.parties:
                if not name.startswith(SECOND):
                    self._of_party(event, self._entry(name))
                elif event.kind == "connected":
                    self.second.add(name.removeprefix(SECOND))
                else:
                    self.second.discard(name.removeprefix(SECOND))

    def _entry(self, name: str) -> RollEntry:
        return self.roll.setdefault(name, RollEntry())

    def _start(self, event: Event) -> None:
        self.versions.clear()
        self.second.clear()
        self.started, self.starts = event.at, self.starts + 1
        for entry in self.roll.values():
            entry.state, entry.reason, entry.connected = PartyState.AWAITED, "", False

    def _left_out(self, event: Event) -> None:
        self._trouble(event.fact, f"{CURES[event.rule]}." if event.rule else NO_ANSWER if event.silent else UNKNOWN)
        if event.party not in self.roll and event.party.startswith("node "):
            return  # a simulated one that never told its name
        entry = self._entry(event.party)
        if event.stage in PASSING:
            entry.state = PartyState.REFUSED if event.rule else PartyState.LEFT_OUT
            entry.reason, entry.rule = event.reason, event.rule
        else:
            entry.reason, entry.rule = f"{event.stage}: {event.reason}", None

    def _of_party(self, event: Event, entry: RollEntry) -> None:
        match event.kind:
            case "connected" | "lost":
                entry.connected = event.kind == "connected"
            case "enrolled" if entry.state is not PartyState.TAKES_PART:  # one that comes back goes on with it
                entry.state, entry.reason = PartyState.ENROLLED, ""
            case "late" | "takes-part":
                entry.state = PartyState.LATE if event.kind == "late" else PartyState.TAKES_PART
                entry.reason, entry.ever = "", True
            case "voted":
                entry.queries, entry.ever = entry.queries + event.queries, True
                if entry.state in (PartyState.ENROLLED, PartyState.LATE):  # it came back, and was asked at once
                    entry.state = PartyState.TAKES_PART

    def _begin(self, stage: str, words: str = "") -> None:
        words = words or stage
        if (stage, words) != (self.stage, self.stage_words):  # who is waited for is said every minute
            self.stage, self.stage_words, self.since = stage, words, self.last

    def _trouble(self, what: str, cure: str) -> None:
        self.troubles.append(f"{self.last} {what}{f'. {cure}' if cure else ''}")
