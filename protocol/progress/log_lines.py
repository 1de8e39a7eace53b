"""Lines of a log: when each stage begins and ends, and how far it is about every ten seconds or tenth of the way."""

from __future__ import annotations

import time
from typing import IO

from consilium.protocol.progress.stages import StageChange, Stages, StageState
from consilium.protocol.progress.time_left import spent

EVERY_SECONDS = 10.0
LEAST_SECONDS = 2.0
"""Between two lines about how far a stage is, however fast it goes."""
PART = 0.1
"""Of a stage: so much more is worth a line."""


class LogLines:
    """See `Display`. A stage that comes again, as one batch of votes after the other, is told by the clock alone."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self._stages = Stages()
        self._last = 0.0
        self._shares: dict[str, float] = {}

    def begin(self, stage: str, total: int, at: float) -> None:
        """See `Display`."""
        self._show(self._stages.begin(stage, total, at), at)

    def update(self, stage: str, done: int, total: int, at: float) -> None:
        """See `Display`."""
        change = self._stages.update(stage, done, total, at)
        self._show(change, at)
        found = change.stage
        if found.ended is None and found.counted and found.times == 1:
            share = found.done / found.total
            if share >= self._shares.get(stage, 0.0) + PART and at >= self._last + LEAST_SECONDS:
                self._tell(at)
                self._shares[stage] = share

    def say(self, text: str, at: float, warning: bool = False) -> None:
        """See `Display`."""
        self._write(f"{'warning: ' if warning else ''}{text}", at)

    def restart(self, at: float) -> None:
        """See `Display`."""
        self.rest(at)
        self._stages, self._shares = Stages(), {}

    def tick(self, now: float) -> None:
        """See `Display`."""
        if self._stages.open and now >= self._last + EVERY_SECONDS:
            self._tell(now)

    def rest(self, at: float) -> None:
        """See `Display`."""
        self._ended(self._stages.end(at), at)

    def end(self, at: float, broken: bool = False) -> None:
        """See `Display`."""
        if not broken:
            self.rest(at)

    def _show(self, change: StageChange, at: float) -> None:
        found = change.stage
        self._ended([each for each in change.ended if each is not found], at)
        if change.begun and found.times == 1:
            self._write(f"{found.words} ({found.total})" if found.counted else found.words, at)
        self._ended([each for each in change.ended if each is found], at)

    def _ended(self, stages: list[StageState], at: float) -> None:
        for each in stages:
            if each.times == 1:
                how = "done" if each.done >= each.total else "ended"
                self._write(f"{each}, {how} in {spent(each.seconds(at))}", at)

    def _tell(self, at: float) -> None:
        """All that is open, in one line."""
        self._write("; ".join(each.told(at) for each in self._stages.open), at)

    def _write(self, text: str, at: float) -> None:
        self._last = at
        print(f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(at))}  {text}", file=self._file, flush=True)
