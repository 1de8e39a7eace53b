"""Worker processes of the local engine, as the engine has them."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import Pipe
from typing import TYPE_CHECKING, Any

from consilium.models.devices import ONE_THREAD
from consilium.node.flower import python_module

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
    nothing else to do. It is no fork of this process: that would wait for threads that only this one has."""

    def __init__(self, teacher: TeacherKind | None = None) -> None:
        self._connection, theirs = Pipe()
        self._process = subprocess.Popen(
            python_module("consilium.simulations.engines.worker", str(theirs.fileno())),
            pass_fds=[theirs.fileno()],
            stdout=subprocess.DEVNULL,
            env={**os.environ, **ONE_THREAD, IMPORTS: os.pathsep.join(search_path())},
        )
        theirs.close()
        if teacher is not None:
            self.prepare({}, teacher)

    @property
    def gone(self) -> bool:
        return self._connection.closed or self._process.poll() is not None

    def prepare(self, environment: dict[str, str], teacher: TeacherKind) -> None:
        """What it should have of the environment beside that in which it was started, and the kind of teachers."""
        with suppress(OSError):  # it died: whoever gives it work will see
            self._connection.send((environment, teacher.model_dump_json()))

    def begin(self, function: Callable[..., Any], *arguments: Any) -> bool:
        """Whether it has the task: a function of some module, called with these arguments and whom it tells what it has
        so far. False where it is dead, or the task cannot be sent."""
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
        return self._connection.fileno()

    def stop(self) -> None:
        if not self._connection.closed:
            self._process.kill()
            self._connection.close()
            self._process.wait()


def search_path() -> list[str]:
    """Where this process finds modules, as absolute paths."""
    return [os.path.abspath(entry) for entry in sys.path]


@contextmanager
def running_workers(count: int | None = None, teacher: TeacherKind | None = None) -> Iterator[list[Worker]]:
    """`count` worker processes, one for each core by default, for teachers of this kind; they are ended with the
    context."""
    workers = [Worker(teacher) for _ in range(count or os.cpu_count() or 1)]
    try:
        yield workers
    finally:
        for worker in workers:
            worker.stop()
