"""Worker processes of the local engine, as the engine has them. Importing this takes no time, so that they may be
started before the engine's own libraries load: each takes a second to import its own."""

from __future__ import annotations

import os
import pickle
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

from consilium.models.devices import ONE_THREAD
from consilium.node.flower import python_module
from consilium.simulations.beside import Advance, Finished, Task

if TYPE_CHECKING:
    from flwr.app import Context, Message, RecordDict

    from consilium.protocol.teachers import TeacherKind


class Worker:
    """One worker process. teacher: of a kind whose libraries it imports while it has nothing else to do."""

    def __init__(self, teacher: TeacherKind | None = None) -> None:
        ours, theirs = socket.socketpair()
        self._process = subprocess.Popen(
            python_module("consilium.simulations.engines.worker", str(theirs.fileno())),
            pass_fds=[theirs.fileno()],
            stdout=subprocess.DEVNULL,
            env={**os.environ, **ONE_THREAD},
        )
        theirs.close()
        self._connection = Connection(ours.detach())
        if teacher is not None:
            self.prepare({}, teacher)

    def prepare(self, environment: dict[str, str], teacher: TeacherKind) -> None:
        """What it should have of the environment beside that in which it was started, and the kind of teachers."""
        with suppress(OSError):  # it died: whoever gives it work will see
            self._connection.send((environment, teacher.model_dump_json()))

    def handle(self, message: Message, context: Context, seconds: float) -> tuple[Message, RecordDict] | None:
        """Reply and new state of the node; None if there is no reply within `seconds`.

        Raises
        ------
        EOFError, OSError : the process died.
        """
        self._connection.send((message, context))
        return self._connection.recv() if self._connection.poll(seconds) else None

    def begin(self, task: Task) -> bool:
        """See `simulations.beside.IdleProcess`."""
        if self._process.poll() is not None or self._connection.closed:
            return False
        try:
            self._connection.send(pickle.dumps(task))
        except Exception:  # whatever of it cannot be pickled
            return False
        return True

    def heard(self) -> Advance | Finished | None:
        """See `simulations.beside.IdleProcess`."""
        try:
            return self._connection.recv()
        except Exception:  # the process died, or what it sent is not known here
            return None

    def kill(self) -> None:
        """End the process, whatever it is doing; a thread that waits in `handle` gets an EOFError."""
        self._process.kill()

    def stop(self) -> None:
        """End the process and give back what it held. Not while another thread is in `handle`. Twice does no harm."""
        self._process.kill()
        self._process.wait()
        if not self._connection.closed:
            self._connection.close()


@contextmanager
def running_workers(count: int | None = None, teacher: TeacherKind | None = None) -> Iterator[list[Worker]]:
    """`count` worker processes, one for each core by default; they are ended with the context.

    They take two seconds to import what they need, for teachers of this kind too, so start them before anything else.
    """
    workers = [Worker(teacher) for _ in range(count or os.cpu_count() or 1)]
    try:
        yield workers
    finally:
        for worker in workers:
            worker.stop()
