"""What the event log of a run says to somebody who looks at it now: stage, how far it is, what went wrong last."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from consilium.coordinator.collection.roll import LeftOut
from consilium.protocol.refusals import CURES

MOST_TROUBLES = 10
NO_ANSWER = "Its team looks whether the node runs, with `consilium doctor .` and `consilium status .`"
UNKNOWN = "Run `consilium doctor .` at both ends; the run's events.jsonl has what the coordinator saw."
STAGES = ("waiting", "enrol", "train", "vote", "secure sum", "serving", "closed", "failed", "not started", "other")
"""What metrics call them; stages of a secure sum are one."""


@dataclass(frozen=True)
class Trouble:
    """What went wrong, and what to do about it. at: time of day, UTC, as in the log. kind: for counting."""

    at: str
    kind: str
    what: str
    cure: str


class Journal:
    """Takes events in their order."""

    def __init__(self) -> None:
        self.stage = "not started"
        self.done, self.total = 0, 0
        self.last = ""
        self.counts: Counter[str] = Counter()
        self.warnings: dict[str, str] = {}
        self._troubles: deque[Trouble] = deque(maxlen=MOST_TROUBLES)

    @property
    def troubles(self) -> list[Trouble]:
        """The last ones, newest first."""
        return list(reversed(self._troubles))

    @property
    def kind_of_stage(self) -> str:
        """One of `STAGES`."""
        head = self.stage.partition(":")[0]
        return head if head in STAGES else "other"

    def take(self, event: Mapping[str, Any]) -> None:
        """One event. Of what is not known here nothing is shown."""
        self.last = str(event.get("at", self.last))
        taken = _TAKEN.get(str(event.get("event")))
        if taken is not None:
            try:
                taken(self, event)
            except (KeyError, TypeError, ValueError):  # a line of another version, or damaged
                return

    def _begin(self, stage: str, done: int = 0, total: int = 0) -> None:
        self.stage, self.done, self.total = stage, done, total

    def _trouble(self, kind: str, what: str, cure: str) -> None:
        self.counts[kind] += 1
        self._troubles.append(Trouble(self.last, kind, what, cure))

    def _on_waiting(self, event: Mapping[str, Any]) -> None:
        self._begin("waiting", int(event["connected"]), int(event["required"]))

    def _on_stage(self, event: Mapping[str, Any]) -> None:
        self._begin(str(event["stage"]), 0, int(event["total"]))

    def _on_progress(self, event: Mapping[str, Any]) -> None:
        self._begin(str(event["stage"]), int(event["done"]), int(event["total"]))

    def _on_serving(self, event: Mapping[str, Any]) -> None:
        self._begin("serving")

    def _on_closed(self, event: Mapping[str, Any]) -> None:
        self._begin("closed")

    def _on_failed(self, event: Mapping[str, Any]) -> None:
        self._begin("failed")
        self._trouble("failed", str(event["what"]), str(event["action"]))

    def _on_left_out(self, event: Mapping[str, Any]) -> None:
        lost = LeftOut.read(event)
        cure = f"{CURES[lost.rule]}." if lost.rule else NO_ANSWER if lost.silent else UNKNOWN
        self._trouble("left-out", lost.text, cure)

    def _on_excluded(self, event: Mapping[str, Any]) -> None:
        what = f"{event['party']} is in no further sum: its part in one was wrong ({event['reason']})"
        self._trouble("excluded", what, "Compare versions and kits with its team. If it stays so, revoke it.")

    def _on_false_votes(self, event: Mapping[str, Any]) -> None:
        self._trouble("false-votes", str(event["what"]), str(event["action"]))

    def _on_not_answered(self, event: Mapping[str, Any]) -> None:
        what = "a student's question was not answered"  # why could say something about votes
        self._trouble("not-answered", what, "The student was told what to do; the event log says more.")
        self._begin("serving")

    def _on_warned(self, event: Mapping[str, Any]) -> None:
        self.warnings[str(event["code"])] = str(event["text"])


_TAKEN = {
    "waiting": Journal._on_waiting,
    "stage": Journal._on_stage,
    "progress": Journal._on_progress,
    "serving": Journal._on_serving,
    "released": Journal._on_serving,
    "closed": Journal._on_closed,
    "failed": Journal._on_failed,
    "left-out": Journal._on_left_out,
    "excluded": Journal._on_excluded,
    "false-votes": Journal._on_false_votes,
    "not-answered": Journal._on_not_answered,
    "warned": Journal._on_warned,
}
TROUBLES = ("left-out", "excluded", "false-votes", "failed", "not-answered")
"""Kinds of troubles, for metrics that count them."""
