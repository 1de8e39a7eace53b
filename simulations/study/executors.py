"""Where the steps of a study are done: in this process, or in worker processes of this machine."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait

from consilium.node.flower import python_module
from consilium.protocol.devices import ONE_THREAD
from consilium.protocol.errors import EngineError
from consilium.simulations.study.cache import StepCache
from consilium.simulations.study.desk import StepDesk
from consilium.simulations.study.schedule import Died
from consilium.simulations.study.tasks import BatchDone, StudyStep, work_off

POLL_SECONDS = 0.5
READY = "ready"
"""What a process says once it has loaded its libraries."""


class Shelf:
    """Where a step's bytes lie: the cache, or, of rows that only travel, a folder of this study alone."""

    def __init__(self, cache: StepCache, loose: StepCache) -> None:
        self.cache, self.loose = cache, loose

    def folder(self, address: str) -> StepCache:
        """Where this one is."""
        return self.loose if self.loose.has(address) else self.cache

    def read(self, address: str) -> bytes:
        """Raises LostStep."""
        return self.folder(address).get(address)


def addresses(steps: list[StudyStep]) -> set[str]:
    """Of everything that these steps read."""
    travels = {str(step.params["source"]) for step in steps if step.params["source"] is not None}
    return travels | {address for step in steps for address in step.needs.values()}


class HereExecutor:
    """In this process, one batch at a time."""

    workers = 1

    def __init__(self, shelf: Shelf) -> None:
        self._shelf, self._desk = shelf, StepDesk()
        self._waiting: list[tuple[int, list[StudyStep]]] = []

    def room(self) -> int:
        """See `Executor`."""
        return 0 if self._waiting else 1

    def submit(self, number: int, steps: list[StudyStep]) -> None:
        """See `Executor`."""
        self._waiting.append((number, steps))

    def finished(self) -> list[tuple[int, BatchDone | Died]]:
        """See `Executor`."""
        waiting, self._waiting = self._waiting, []
        return [(number, work_off(steps, self._shelf.read, self._desk)) for number, steps in waiting]


class _Process:
    """One worker process, see `study.worker`, and what it works on."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        self._process = subprocess.Popen(
            python_module("consilium.simulations.study.worker", str(theirs.fileno())),
            pass_fds=[theirs.fileno()],
            stdout=subprocess.DEVNULL,
            env={**os.environ, **ONE_THREAD},
        )
        theirs.close()
        self.connection = Connection(ours.detach())
        self.number: int | None = None
        self.ready = False

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        self.connection.close()


class LocalExecutor:
    """Worker processes of this machine. One that dies is replaced."""

    def __init__(self, shelf: Shelf, processes: list[_Process]) -> None:
        self._shelf, self._processes = shelf, processes
        self.workers = len(processes)

    def room(self) -> int:
        """See `Executor`."""
        return sum(process.number is None for process in self._processes)

    def submit(self, number: int, steps: list[StudyStep]) -> None:
        """See `Executor`. A process that cannot take them has died, which `finished` finds."""
        process = next(each for each in self._processes if each.number is None)
        process.number = number
        places = {address: self._shelf.folder(address).path(address) for address in addresses(steps)}
        try:
            process.connection.send((steps, places))
        except OSError:
            return

    def finished(self) -> list[tuple[int, BatchDone | Died]]:
        """See `Executor`."""
        busy = {each.connection: each for each in self._processes if each.number is not None}
        found: list[tuple[int, BatchDone | Died]] = []
        for connection in wait(list(busy), POLL_SECONDS):
            process = busy[connection]  # pyright: ignore[reportArgumentType]
            try:
                done = process.connection.recv()
            except (EOFError, OSError):
                if not process.ready:
                    raise EngineError(
                        "a worker process of the study ended before it was ready",
                        "Its reason stands above. With --workers 1 there are none",
                    ) from None
                done = Died("the worker process ended, perhaps for want of memory")
            if done == READY:
                process.ready = True
                continue
            number, process.number = process.number, None
            if isinstance(done, Died):
                self._replace(process)
            if number is not None:
                found.append((number, done))
        return found

    def _replace(self, process: _Process) -> None:
        process.end()
        self._processes[self._processes.index(process)] = _Process()


@contextmanager
def local_executor(shelf: Shelf, workers: int) -> Iterator[HereExecutor | LocalExecutor]:
    """This process for one worker, else so many processes, which end with the context."""
    if workers == 1:
        yield HereExecutor(shelf)
        return
    processes = [_Process() for _ in range(workers)]
    try:
        yield LocalExecutor(shelf, processes)
    finally:
        for process in processes:
            process.end()
