"""Worker processes of the local engine, as the engine has them."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from consilium.models.devices import ONE_THREAD
from consilium.node.flower import python_module
from consilium.simulations.beside import Finished, Task

if TYPE_CHECKING:
    from consilium.models.keys import TeacherKind


class Worker:
    """One worker process. teacher: of a kind whose libraries it imports while it has nothing else to do. made: where it
    is a fork of this process, which has imported them, and the connection to it."""

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

    def begin(self, task: Task) -> bool:
        """See `simulations.beside.IdleProcess`."""
        if self._connection.closed:
            return False
        try:
            self._connection.send(pickle.dumps(task, pickle.HIGHEST_PROTOCOL))
        except Exception:  # whatever of it cannot be pickled
            return False
        return True

    def heard(self) -> tuple[Any, ...] | Finished | None:
        """See `simulations.beside.IdleProcess`."""
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


IMPORTS = "CONSILIUM_IMPORTS"
"""Variable with the folders in which whoever starts a process finds modules: also those beside a script or notebook."""


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
