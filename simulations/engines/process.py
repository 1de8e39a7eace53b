"""Worker processes of the local engine, as the engine has them, and work that they do beside other work."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from consilium.models.devices import ONE_THREAD
from consilium.node.flower import python_module
from consilium.protocol.label_source import Progress, no_progress

if TYPE_CHECKING:
    from consilium.models.keys import TeacherKind

IMPORTS = "CONSILIUM_IMPORTS"
"""Variable with the folders in which whoever starts a process finds modules: also those beside a script or notebook."""


@dataclass(frozen=True)
class Finished:
    """What came of a task."""

    result: Any = field(repr=False)


class Worker:
    """One worker process, which does one task at a time. teacher: of a kind whose libraries it imports while it has
    nothing else to do. made: where it is a fork of this process, which has imported them, and the connection to it."""

    def __init__(self, teacher: TeacherKind | None = None, made: tuple[Any, Connection] | None = None) -> None:
        self._process, self._connection = made or _launched()
        if teacher is not None:
            self.prepare({}, teacher)

    @property
    def gone(self) -> bool:
        """Whether it was ended here, or its process is known to have ended."""
        return self._connection.closed or self._process.poll() is not None

    def prepare(self, environment: dict[str, str], teacher: TeacherKind) -> None:
        """What it should have of the environment beside that in which it was started, and the kind of teachers."""
        with suppress(OSError):  # it died: whoever gives it work will see
            self._connection.send((environment, teacher.model_dump_json()))

    def begin(self, function: Callable[..., Any], *arguments: Any) -> bool:
        """Whether it has the task: a function of some module, called with these arguments and whom it tells what it has
        so far, a `Progress` mostly. False where it is dead, or the task cannot be sent."""
        if self._connection.closed:
            return False
        try:
            self._connection.send(pickle.dumps((function, arguments), pickle.HIGHEST_PROTOCOL))
        except Exception:  # whatever of it cannot be pickled
            return False
        return True

    def heard(self) -> tuple[Any, ...] | Finished | None:
        """What it says next, once it does: what the task tells, or its end; None where it cannot do it, or died."""
        try:
            return self._connection.recv()
        except Exception:  # the process died, or what it sent is not known here
            return None

    def fileno(self) -> int:
        """Where it can be waited for until it says something."""
        return self._connection.fileno()

    def stop(self) -> None:
        """End the process and give back what it held. Twice does no harm."""
        if not self._connection.closed:
            self._process.kill()
            self._connection.close()
            self._process.wait()


def search_path() -> list[str]:
    """Where this process finds modules, as absolute paths."""
    return [os.path.abspath(entry) for entry in sys.path]


def _launched() -> tuple[subprocess.Popen[bytes], Connection]:
    """A process of its own, and the connection to it."""
    ours, theirs = Pipe()
    process = subprocess.Popen(
        python_module("consilium.simulations.engines.worker", str(theirs.fileno())),
        pass_fds=[theirs.fileno()],
        stdout=subprocess.DEVNULL,
        env={**os.environ, **ONE_THREAD, IMPORTS: os.pathsep.join(search_path())},
    )
    theirs.close()
    return process, ours


class Pending:
    """A task that a worker has or, where none has it, that is done here when its result is wanted."""

    def __init__(self, worker: Worker | None, function: Callable[..., Any], *arguments: Any) -> None:
        self._function, self._arguments = function, arguments
        self.worker = worker if worker is not None and worker.begin(function, *arguments) else None

    def result(self, progress: Progress = no_progress) -> Any:
        """Wait for it; progress is told of it as it comes. What the worker could not do is done here, and raises here
        what it raises."""
        while self.worker is not None:
            heard = self.worker.heard()
            if isinstance(heard, tuple):
                progress(*heard)
                continue
            self.worker = None
            if heard is not None:
                return heard.result
        return self._function(*self._arguments, progress)


Begin = Callable[..., Pending]
"""Called with a function and its arguments but the last, a `Progress`."""


def when_wanted(function: Callable[..., Any], *arguments: Any) -> Pending:
    """A `Begin` without workers."""
    return Pending(None, function, *arguments)


class Idle:
    """A `Begin` for workers that have nothing else to do: each has one task, further ones are done here. A context,
    with which workers are ended that have a task whose result nobody waited for: what they say is for nobody."""

    def __init__(self, workers: Sequence[Worker]) -> None:
        self._workers = list(workers)
        self._begun: list[Pending] = []

    def __enter__(self) -> Idle:
        return self

    def __exit__(self, *_: object) -> None:
        for pending in self._begun:
            if pending.worker is not None:
                pending.worker.stop()

    def __call__(self, function: Callable[..., Any], *arguments: Any) -> Pending:
        """Begin."""
        self._begun.append(Pending(self._workers.pop() if self._workers else None, function, *arguments))
        return self._begun[-1]
