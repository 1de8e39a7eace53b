"""Worker processes of the local engine, as the engine has them. Importing this takes no time, so that they may be
started before the engine's own libraries load: each takes a second to import its own."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from multiprocessing.context import ForkProcess
from typing import TYPE_CHECKING, Any

from consilium.models.devices import ONE_THREAD
from consilium.node.flower import python_module
from consilium.simulations.beside import Finished, Task

if TYPE_CHECKING:
    from consilium.models.keys import TeacherKind


class Worker:
    """One worker process. teacher: of a kind whose libraries it imports while it has nothing else to do."""

    def __init__(self, teacher: TeacherKind | None = None) -> None:
        process, (connection,) = _launched(1)
        self._take(process, connection, process.pid, teacher)

    @classmethod
    def several(cls, count: int, teacher: TeacherKind | None = None) -> list[Worker]:
        """So many of them. On Linux one process imports the libraries and the others are forked from it, before it does
        anything else; elsewhere, where libraries of the system forbid that, each imports its own."""
        if sys.platform != "linux":
            return [cls(teacher) for _ in range(count)]
        process, connections = _launched(count)
        workers: list[Worker] = [cls.__new__(cls) for _ in range(count)]
        for number, (worker, connection) in enumerate(zip(workers, connections, strict=True)):
            worker._take(process, connection, None if number else process.pid, teacher)
        return workers

    def _take(
        self,
        process: subprocess.Popen[bytes] | _Fork,
        connection: Connection,
        pid: int | None,
        teacher: TeacherKind | None,
    ) -> None:
        self._process, self._connection, self._pid, self._greeted = process, connection, pid, False
        if teacher is not None:
            self.prepare({}, teacher)

    @property
    def gone(self) -> bool:
        """Whether it was ended here, or its process is known to have ended."""
        return self._connection.closed or (self._pid == self._process.pid and self._process.poll() is not None)

    def _greet(self, seconds: float) -> bool:
        """Hear the number of the process, which is the first that it says; False if it does not in time."""
        if not self._greeted:
            if not self._connection.poll(seconds):
                return False
            self._pid, self._greeted = self._connection.recv(), True
        return True

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
            self._greet(WAIT_SECONDS)
            return self._connection.recv()
        except Exception:  # the process died, or what it sent is not known here
            return None

    def kill(self) -> None:
        """End the process, whatever it is doing; a thread that waits in `heard` gets None.

        One that has not said its number yet has begun nothing: it ends with the process that it is forked from or, if
        it is forked already, by itself, as soon as it listens and nobody is there.
        """
        if self._pid is None or self._pid == self._process.pid:
            self._process.kill()
        else:
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
        if self._pid is None:
            self._hang_up()

    def stop(self) -> None:
        """End the process and give back what it held. Not while another thread is in `heard`. Twice does no harm."""
        if self._connection.closed:
            return
        with suppress(EOFError, OSError):
            self._greet(0)
        Worker.kill(self)
        with suppress(EOFError, OSError):
            while True:  # a forked process is nobody's here to wait for: it is gone when its end of the socket is
                self._connection.recv_bytes()
        self._connection.close()
        if self._pid is None or self._pid == self._process.pid:
            self._process.wait()

    def _hang_up(self) -> None:
        """Let the process find nobody at this end; what it says can still be heard."""
        with suppress(OSError), socket.socket(fileno=os.dup(self._connection.fileno())) as end:
            end.shutdown(socket.SHUT_WR)


IMPORTS = "CONSILIUM_IMPORTS"
"""Variable with the folders in which whoever starts a process finds modules: also those beside a script or notebook."""


def search_path() -> list[str]:
    """Where this process finds modules, as absolute paths."""
    return [os.path.abspath(entry) for entry in sys.path]


def _launched(count: int) -> tuple[subprocess.Popen[bytes], list[Connection]]:
    """A process that will be `count` workers, and the connection to each."""
    pairs = [socket.socketpair() for _ in range(count)]
    ends = [theirs.fileno() for _, theirs in pairs]
    process = subprocess.Popen(
        python_module("consilium.simulations.engines.worker", *map(str, ends)),
        pass_fds=ends,
        stdout=subprocess.DEVNULL,
        env={**os.environ, **ONE_THREAD, IMPORTS: os.pathsep.join(search_path())},
    )
    for _, theirs in pairs:
        theirs.close()
    return process, [Connection(ours.detach()) for ours, _ in pairs]


WAIT_SECONDS = 600.0
"""Longest for a process to import its libraries."""


class _Fork(ForkProcess):
    """A fork of this process, with what is used of `subprocess.Popen`."""

    def poll(self) -> int | None:
        return self.exitcode

    def wait(self) -> None:
        self.join()


def _forked(count: int) -> list[Worker]:
    """So many forks of this process, once it has imported what they need."""
    from consilium.simulations.engines.worker import work_as_fork

    gc.freeze()  # a collection would copy all memory that the processes share
    workers = []
    for _ in range(count):
        ours, theirs = Pipe()
        process = _Fork(target=work_as_fork, args=(theirs, ours), daemon=True)
        process.start()
        theirs.close()
        workers.append(Worker.__new__(Worker))
        workers[-1]._take(process, ours, process.pid, None)
    return workers


@contextmanager
def running_workers(
    count: int | None = None, teacher: TeacherKind | None = None, fork: bool = False
) -> Iterator[list[Worker]]:
    """`count` worker processes, one for each core by default; they are ended with the context.

    They take a second to import what they need, for teachers of this kind too, so start them before anything else.
    fork: of this process, which then imports that once for all; not in a process that has threads, or that is not ours.
    """
    count = count or os.cpu_count() or 1
    if fork and sys.platform == "linux" and threading.active_count() == 1:
        workers = _forked(count)
    else:
        workers = Worker.several(count, teacher)
    try:
        yield workers
    finally:
        for worker in workers:
            worker.stop()
