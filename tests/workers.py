"""Worker processes of the local engine that outlive a run: they import for two seconds, and most runs are shorter.

All runs in this process share them (tests/conftest.py), as long as no test changes the environment or the folder, which
a worker has from its start. A worker that hung or died is replaced.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from consilium.simulations.engines.flower import COORDINATOR_NODE, RUN_ID, assume_identity
from consilium.simulations.engines.process import Finished, Worker


def surroundings() -> tuple[dict[str, str], str]:
    """What a process that is started now has from this one."""
    return {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}, os.getcwd()


class Workers:
    """Two processes, started when they are first needed. In place of `running_workers`."""

    def __init__(self) -> None:
        self._idle: list[Worker] = []
        self._surroundings = surroundings()

    @contextmanager
    def running(self, count: int | None = None, teacher: Any = None) -> Iterator[list[Worker]]:
        """Two, or so many, for any teacher."""
        if surroundings() != self._surroundings:
            self.end()
            self._surroundings = surroundings()
        lent: list[Worker] = [self._idle.pop() if self._idle else Worker() for _ in range(count or 2)]
        try:
            yield lent
        finally:
            lasting = [each for each in lent if not each.gone]
            self._idle += lasting
            for worker in lent:
                if worker not in lasting:  # one that hung or died
                    worker.stop()

    def end(self) -> None:
        """End them all."""
        for worker in self._idle:
            worker.stop()
        self._idle = []


class Here(Worker):
    """This process as a worker."""

    def __init__(self) -> None:
        self._said: deque[Any] = deque()
        self._ready = os.eventfd(1)

    def begin(self, function: Any, *arguments: Any) -> bool:
        """Done at once."""
        self._said.append(Finished(function(*arguments, lambda *told: self._said.append(told))))
        assume_identity(RUN_ID, COORDINATOR_NODE)
        return True

    def heard(self) -> Any:
        """What it said, in order."""
        return self._said.popleft()

    def fileno(self) -> int:
        """Of what is always ready."""
        return self._ready

    def stop(self) -> None:
        """Nobody is ended."""
