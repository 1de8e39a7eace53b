"""Which steps of a study are done when, each once and after what it needs; and where: here, or in worker processes.

Steps of one division are handed out together, several small ones at a time, so that a worker reads an ensemble once for
many of them."""

from __future__ import annotations

import math
import os
import socket
import subprocess
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Protocol

from consilium.models.devices import ONE_THREAD
from consilium.node.flower import python_module
from consilium.protocol.errors import EngineError
from consilium.simulations.study.cache import StepCache
from consilium.simulations.study.cells import deciding_versions
from consilium.simulations.study.tasks import BatchDone, StepDesk, StepDone, StepFailure, StudyStep, work_off

Tell = Callable[[Mapping[str, tuple[int, int]]], None]
"""Told how many steps of each kind are done, of how many."""
BATCH_SECONDS = 5.0
MOST_IN_BATCH = 64
MOST_ATTEMPTS = 3
_FIRST = ("ensemble", "plan")
"""Kinds that others wait for, and that take long: each alone, before all others."""


@dataclass(frozen=True)
class Died:
    """What did the steps ended in the middle, and nobody knows why. what: for people."""

    what: str


class Executor(Protocol):
    """Where steps are done."""

    workers: int

    def room(self) -> int:
        """So many further batches may be handed out now."""
        ...

    def submit(self, number: int, steps: list[StudyStep]) -> None:
        """Do a batch."""
        ...

    def finished(self) -> list[tuple[int, BatchDone | Died]]:
        """Batches that have ended since the last time; waits for a moment if there is none.

        Raises
        ------
        EngineError : nothing can be done here any more.
        """
        ...


@dataclass
class Tally:
    """What became of all steps. failures: of each that has no result, its own or that of one that it needs."""

    hits: int = 0
    done: int = 0
    seconds: float = 0.0
    failures: dict[str, StepFailure] = field(default_factory=dict)
    times: dict[str, list[float]] = field(default_factory=dict)

    def usual(self, what: str) -> float | None:
        """Mean seconds of steps like this one, None where there was none."""
        found = self.times.get(what)
        return sum(found) / len(found) if found else None


def missing(steps: Mapping[str, StudyStep], targets: Iterable[str], cache: StepCache) -> dict[str, StudyStep]:
    """The steps to do so that all targets are there, in the order of the targets, each after what it needs."""
    found: dict[str, StudyStep] = {}
    seen: set[str] = set()

    def want(address: str) -> None:
        if address in seen:
            return
        seen.add(address)
        if not cache.has(address):
            for each in steps[address].needs.values():
                want(each)
            found[address] = steps[address]

    for target in targets:
        want(target)
    return found


def do_steps(
    steps: Mapping[str, StudyStep],
    targets: Iterable[str],
    cache: StepCache,
    executor: Executor,
    tally: Tally,
    tell: Tell,
) -> None:
    """Do all that is missing of the targets; what becomes of it is added to `tally`.

    Raises
    ------
    EngineError : the executor is gone, or a node has other versions. StorageError : the cache cannot be written.
    """
    wanted = list(dict.fromkeys(targets))
    tally.hits += sum(map(cache.has, wanted))
    _Work(steps, missing(steps, wanted, cache), cache, executor, tally, tell).carry_out()


class _Work:
    def __init__(
        self,
        steps: Mapping[str, StudyStep],
        todo: dict[str, StudyStep],
        cache: StepCache,
        executor: Executor,
        tally: Tally,
        tell: Tell,
    ) -> None:
        self._steps, self._todo, self._cache, self._executor = steps, todo, cache, executor
        self._tally, self._tell = tally, tell
        self._totals = Counter(step.kind for step in todo.values())
        self._ended: Counter[str] = Counter()
        self._waits: dict[str, set[str]] = {}
        self._dependents: dict[str, list[str]] = {}
        self._ready: OrderedDict[str, deque[StudyStep]] = OrderedDict()
        self._first: deque[StudyStep] = deque()
        self._running: dict[int, list[StudyStep]] = {}
        self._attempts: Counter[str] = Counter()
        self._number = 0

    def carry_out(self) -> None:
        self._told()
        for step in list(self._todo.values()):
            self._enter(step)
        while self._running or self._ready or self._first:
            while (self._ready or self._first) and self._executor.room() > 0:
                self._hand_out()
            for number, done in self._executor.finished():
                batch = self._running.pop(number)
                if isinstance(done, Died):
                    self._again(batch, done)
                else:
                    _check_versions(done)
                    for each in done.steps:
                        self._take(each)

    def _enter(self, step: StudyStep) -> None:
        """A step is to be done: now, or once what it needs is there."""
        if step.address in self._tally.failures:
            self._todo.pop(step.address, None)
            return
        for each in step.needs.values():
            if each in self._tally.failures:
                self._fail(step, self._tally.failures[each])
                return
        waits = {each for each in step.needs.values() if each in self._todo}
        if not waits:
            self._make_ready(step)
            return
        self._waits[step.address] = waits
        for each in waits:
            self._dependents.setdefault(each, []).append(step.address)

    def _make_ready(self, step: StudyStep) -> None:
        if step.kind in _FIRST:
            self._first.append(step)
        else:
            self._ready.setdefault(_group(step), deque()).append(step)

    def _hand_out(self) -> None:
        if self._first:
            batch = [self._first.popleft()]
        else:
            name, group = next(iter(self._ready.items()))
            share = math.ceil(len(group) / self._executor.workers)
            batch: list[StudyStep] = []
            seconds = 0.0
            while group and len(batch) < min(share, MOST_IN_BATCH):
                usual = self._tally.usual(group[0].what)
                seconds += BATCH_SECONDS if usual is None else usual
                if batch and (seconds > BATCH_SECONDS or self._attempts[group[0].address]):
                    break
                batch.append(group.popleft())
            if not group:
                del self._ready[name]
        self._number += 1
        self._running[self._number] = batch
        self._executor.submit(self._number, batch)

    def _take(self, done: StepDone) -> None:
        step = self._steps[done.address]
        if done.lost:
            self._find_again(step, done.lost)
        elif done.content is None:
            self._fail(step, done.failure or StepFailure("EngineError", "a step ended without a result"))
        else:
            self._cache.put(step.address, done.content, step.what, done.seconds)
            self._tally.done += 1
            self._tally.seconds += done.seconds
            self._tally.times.setdefault(step.what, []).append(done.seconds)
            self._end(step)
            for address in self._dependents.pop(step.address, ()):
                waits = self._waits.get(address)
                if waits is not None:
                    waits.discard(step.address)
                    if not waits:
                        del self._waits[address]
                        self._make_ready(self._steps[address])

    def _fail(self, step: StudyStep, failure: StepFailure) -> None:
        """A step has no result, nor has anything that needs it."""
        if step.address in self._tally.failures:
            return
        self._tally.failures[step.address] = failure
        self._end(step)
        for address in self._dependents.pop(step.address, ()):
            self._waits.pop(address, None)
            self._fail(self._steps[address], failure)

    def _end(self, step: StudyStep) -> None:
        self._todo.pop(step.address, None)
        self._ended[step.kind] += 1
        self._told()

    def _told(self) -> None:
        self._tell({kind: (self._ended[kind], total) for kind, total in self._totals.items()})

    def _again(self, batch: list[StudyStep], died: Died) -> None:
        """Each by itself, so that one that cannot be done takes no others with it."""
        for step in batch:
            self._attempts[step.address] += 1
            if self._attempts[step.address] < MOST_ATTEMPTS:
                self._make_ready(step)
            else:
                action = "Give it more memory, or fewer --workers"
                self._fail(step, StepFailure("EngineError", died.what, action))

    def _find_again(self, step: StudyStep, lost: str) -> None:
        """A file of the cache was damaged, or somebody has cleared it: what was in it is made anew."""
        self._cache.drop(lost)
        self._attempts[step.address] += 1
        if lost not in self._steps or self._attempts[step.address] >= MOST_ATTEMPTS:
            what = "a step that it needs was lost from the cache again and again"
            self._fail(step, StepFailure("StorageError", what, "See whether somebody else clears the cache"))
            return
        for address, each in missing(self._steps, [lost], self._cache).items():
            if address not in self._todo:
                self._todo[address] = each
                self._totals[each.kind] += 1
                self._enter(each)
        self._enter(step)


def _group(step: StudyStep) -> str:
    return f"{step.params['division']} {step.needs.get('ensemble', '')}"


def _check_versions(done: BatchDone) -> None:
    own = deciding_versions()
    if dict(done.versions) != own:
        different = sorted(name for name in {*own, *done.versions} if own.get(name) != done.versions.get(name))
        name = different[0]
        raise EngineError(
            f"a node has {name} {done.versions.get(name, 'not at all')}, and here it is {own.get(name, 'absent')}:"
            " results would depend on where a step ran",
            "Install the same versions on all nodes",
        )


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
