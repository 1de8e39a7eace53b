"""Steps of a study in the order of what they need, each once: in this process, in processes here, or on a cluster.

Steps of one division are handed out together, several small ones at a time, so that a worker reads an ensemble once for
many of them."""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from typing import Protocol

from joblib.externals.loky.process_executor import ProcessPoolExecutor

from consilium.models.devices import ONE_THREAD
from consilium.protocol.errors import EngineError
from consilium.simulations.study.cache import LostStep, Shelf, StepCache
from consilium.simulations.study.cells import deciding_versions
from consilium.simulations.study.tasks import BatchDone, StepDesk, StepDone, StepFailure, StudyStep, compute_batch

Report = Callable[[Mapping[str, tuple[int, int]]], None]
"""Of each kind, how many steps have ended, of how many."""
BATCH_SECONDS = 5.0
MOST_IN_BATCH = 64
MOST_ATTEMPTS = 3
_FIRST = ("ensemble",)
"""Kinds that others wait for, and that take long: each alone, before all others."""


class WorkerDied(Exception):
    """What computed a batch ended in the middle, and nobody knows why. Its text is for people."""


class StepPool(Protocol):
    """Where batches of steps are computed. workers: at once; room: batches that are handed out at the same time."""

    workers: int
    room: int

    def submit(self, steps: list[StudyStep]) -> Future[BatchDone]:
        """Begin a batch. Raises LostStep where something that it reads is gone already."""
        ...

    def result(self, future: Future[BatchDone]) -> BatchDone:
        """Of a batch that has ended. Raises WorkerDied; EngineError: nothing can be computed there any more."""
        ...


@dataclass
class Tally:
    """What became of all steps. failures: of each that has no result, its own or that of one that it needs."""

    hits: int = 0
    done: int = 0
    seconds: float = 0.0
    failures: dict[str, StepFailure] = field(default_factory=dict)
    times: dict[str, list[float]] = field(default_factory=dict)

    def usual(self, label: str) -> float | None:
        """Mean seconds of steps like this one, None where there was none."""
        times = self.times.get(label)
        return sum(times) / len(times) if times else None


def missing(steps: Mapping[str, StudyStep], targets: Iterable[str], cache: StepCache) -> dict[str, StudyStep]:
    """The steps to do so that all targets are there, in the order of the targets, each after what it needs."""
    return _missing(steps, targets, cache, Tally(), Counter())


def _missing(
    steps: Mapping[str, StudyStep], targets: Iterable[str], cache: StepCache, tally: Tally, ended: Counter[str]
) -> dict[str, StudyStep]:
    """See `missing`. What needs a step that failed fails too: it goes to the tally, and counts as ended."""
    todo: dict[str, StudyStep] = {}
    seen: set[str] = set()

    def visit(address: str) -> StepFailure | None:
        if address in seen or address in tally.failures or cache.has(address):
            return tally.failures.get(address)
        seen.add(address)
        step = steps[address]
        failures = [failure for need in step.needs.values() if (failure := visit(need)) is not None]
        if failures:
            tally.failures[address] = failures[0]
            ended[step.kind] += 1
            return failures[0]
        todo[address] = step
        return None

    for target in targets:
        visit(target)
    return todo


def compute(
    steps: Mapping[str, StudyStep],
    targets: Iterable[str],
    cache: StepCache,
    pool: StepPool,
    tally: Tally,
    report: Report,
) -> None:
    """Compute all that is missing of the targets; what becomes of it is added to `tally`.

    In rounds: what was lost meanwhile (somebody cleared the cache, a worker died) is missing in the next one.

    Raises
    ------
    EngineError : the pool is gone, or a node has other versions. StorageError : the cache cannot be written.
    """
    targets = list(dict.fromkeys(targets))
    tally.hits += sum(map(cache.has, targets))
    ended: Counter[str] = Counter()
    attempts: Counter[str] = Counter()
    while todo := _missing(steps, targets, cache, tally, ended):
        _Round(steps, todo, cache, pool, tally, report, ended, attempts).run()
    report({kind: (count, count) for kind, count in ended.items()})


@dataclass
class _Round:
    steps: Mapping[str, StudyStep]
    todo: dict[str, StudyStep]
    cache: StepCache
    pool: StepPool
    tally: Tally
    report: Report
    ended: Counter[str]
    attempts: Counter[str]
    _first: deque[StudyStep] = field(default_factory=deque)
    _groups: dict[str, deque[StudyStep]] = field(default_factory=dict)
    _running: dict[Future[BatchDone], list[StudyStep]] = field(default_factory=dict)

    def run(self) -> None:
        """Everything that can be, once."""
        self._left = Counter(step.kind for step in self.todo.values())
        self._order = TopologicalSorter(
            {name: self.todo.keys() & step.needs.values() for name, step in self.todo.items()}
        )
        self._order.prepare()
        self._report()
        while True:
            self._hand_out()
            if not self._running:
                return
            for future in wait(self._running, return_when=FIRST_COMPLETED).done:
                batch = self._running.pop(future)
                try:
                    done = self.pool.result(future)
                except WorkerDied as error:
                    for step in batch:
                        self._again(step, StepFailure("EngineError", str(error), _MORE_MEMORY))
                else:
                    _check_versions(done)
                    for step in done.steps:
                        self._take(step)

    def _hand_out(self) -> None:
        for name in self._order.get_ready():
            step = self.todo[name]
            ready = self._first if step.kind in _FIRST else self._groups.setdefault(_group(step), deque())
            ready.append(step)
        while len(self._running) < self.pool.room and (batch := self._batch()):
            try:
                self._running[self.pool.submit(batch)] = batch
            except LostStep as error:  # the others of the batch lack nothing, and are handed out once more
                for step in batch:
                    self._lose(step, error.address)

    def _batch(self) -> list[StudyStep]:
        """What goes out next; nothing where the next one, or one that runs, has to be alone."""
        if not self._first and not self._groups:
            return []
        name, group = ("", self._first) if self._first else next(iter(self._groups.items()))
        if self._running and any(map(self._suspect, (group[0], *(batch[0] for batch in self._running.values())))):
            return []
        share = 1 if self._first else min(MOST_IN_BATCH, math.ceil(len(group) / self.pool.workers))
        batch = [group.popleft()]
        seconds = self._usual(batch[0])
        while group and len(batch) < share and seconds + self._usual(group[0]) <= BATCH_SECONDS:
            seconds += self._usual(group[0])
            batch.append(group.popleft())
        if not group:
            self._groups.pop(name, None)
        return batch

    def _usual(self, step: StudyStep) -> float:
        """Seconds that it takes; a batch's where nobody knows, or where a worker died: such a step goes by itself."""
        usual = None if self.attempts[step.address] else self.tally.usual(step.label)
        return BATCH_SECONDS if usual is None else usual

    def _suspect(self, step: StudyStep) -> bool:
        """Whether workers died with it so often that it runs alone: if another dies, nothing else was the reason."""
        return self.attempts[step.address] == MOST_ATTEMPTS - 1

    def _take(self, done: StepDone) -> None:
        step = self.todo[done.address]
        if done.lost:
            self._lose(step, done.lost)
        elif done.content is None:
            self._fail(step, done.failure or StepFailure("EngineError", "a step ended without a result"))
        else:
            self.cache.put(step.address, done.content, step.label, done.seconds)
            self.tally.done += 1
            self.tally.seconds += done.seconds
            self.tally.times.setdefault(step.label, []).append(done.seconds)
            self._order.done(step.address)
            self._end(step)

    def _lose(self, step: StudyStep, lost: str) -> None:
        """A file of the cache was damaged, or somebody has cleared it: what was in it is made anew."""
        self.cache.drop(lost)
        message = "a step that it needs was lost from the cache again and again"
        failure = StepFailure("StorageError", message, "See whether somebody else clears the cache")
        if lost in self.steps:
            self._again(step, failure)
        else:
            self._fail(step, failure)

    def _again(self, step: StudyStep, failure: StepFailure) -> None:
        """In the next round, by itself, so that one that cannot be done takes no others with it."""
        self.attempts[step.address] += 1
        if self.attempts[step.address] >= MOST_ATTEMPTS:
            self._fail(step, failure)

    def _fail(self, step: StudyStep, failure: StepFailure) -> None:
        self.tally.failures[step.address] = failure
        self._end(step)

    def _end(self, step: StudyStep) -> None:
        self.ended[step.kind] += 1
        self._left[step.kind] -= 1
        self._report()

    def _report(self) -> None:
        kinds = {**self._left, **self.ended}
        self.report({kind: (self.ended[kind], self.ended[kind] + self._left[kind]) for kind in kinds})


_MORE_MEMORY = "Give it more memory, or fewer --workers"


def _group(step: StudyStep) -> str:
    return f"{step.params['division']} {step.needs.get('ensemble', '')}"


def _check_versions(done: BatchDone) -> None:
    mine, theirs = deciding_versions(), dict(done.versions)
    if theirs != mine:
        name = min(name for name in {*mine, *theirs} if mine.get(name) != theirs.get(name))
        raise EngineError(
            f"a node has {name} {theirs.get(name, 'not at all')}, and here it is {mine.get(name, 'absent')}:"
            " results would depend on where a step ran",
            "Install the same versions on all nodes",
        )


class OwnProcess:
    """A pool of this process alone, one batch at a time."""

    workers = room = 1

    def __init__(self, shelf: Shelf) -> None:
        self._shelf, self._desk = shelf, StepDesk()

    def submit(self, steps: list[StudyStep]) -> Future[BatchDone]:
        """See `StepPool`: it is done when this returns."""
        future: Future[BatchDone] = Future()
        future.set_result(compute_batch(steps, self._shelf.read, self._desk))
        return future

    def result(self, future: Future[BatchDone]) -> BatchDone:
        """See `StepPool`."""
        return future.result()


class LocalPool:
    """Worker processes of this machine. All are replaced where one dies.

    They are loky's, whose start imports no script of the caller's, and which say it when one of them is gone.
    """

    def __init__(self, shelf: Shelf, workers: int) -> None:
        self._shelf, self.workers, self.room = shelf, workers, workers
        self._start()
        self._ready = self._processes.submit(os.getpid)

    def _start(self) -> None:
        environment = {**ONE_THREAD, "PYTHONSAFEPATH": "1"}  # a module in the user's folder is none of a worker's
        self._processes = ProcessPoolExecutor(
            self.workers, initializer=begin_worker, initargs=(os.getpid(),), env=environment
        )

    def submit(self, steps: list[StudyStep]) -> Future[BatchDone]:
        """See `StepPool`."""
        try:
            return self._processes.submit(_compute_here, steps, self._shelf)
        except BrokenExecutor:
            self.end()
            self._start()
            return self._processes.submit(_compute_here, steps, self._shelf)

    def result(self, future: Future[BatchDone]) -> BatchDone:
        """See `StepPool`."""
        try:
            return future.result()
        except BrokenExecutor:
            if self._ready.exception() is not None:
                raise EngineError(
                    "a worker process of the study ended before it was ready",
                    "Its reason stands above. With --workers 1 there are none",
                ) from None
            raise WorkerDied("the worker process ended, perhaps for want of memory") from None

    def end(self) -> None:
        """Kill them."""
        self._processes.shutdown(wait=True, kill_workers=True)


_DESK = StepDesk()
"""Of a worker process."""
POLL_SECONDS = 1.0


def begin_worker(command: int) -> None:
    """In a worker process: signals are the command's to handle, what libraries print is no output of it, and no worker
    outlives the process of this number."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno() if sys.__stdout__ else 1)
    threading.Thread(target=_end_with, args=(command,), daemon=True).start()


def _end_with(command: int) -> None:
    """End this process soon after the command's has gone, in whatever step it is: nobody waits for it any more."""
    while os.getppid() == command:
        time.sleep(POLL_SECONDS)
    os._exit(1)


def _compute_here(steps: list[StudyStep], shelf: Shelf) -> BatchDone:
    return compute_batch(steps, shelf.read, _DESK)


@contextmanager
def local_pool(shelf: Shelf, workers: int) -> Iterator[OwnProcess | LocalPool]:
    """This process for one worker, else so many processes, which end with the context."""
    if workers == 1:
        yield OwnProcess(shelf)
        return
    pool = LocalPool(shelf, workers)
    try:
        yield pool
    finally:
        pool.end()
