"""One worker process of the local engine: does the tasks that it is handed, as to answer messages to its parties.

A fork of the engine's process, or started as `python -P -m consilium.simulations.engines.worker FD`; FD is a socket to
the engine. A party that hangs can be killed without harm to others.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import pickle
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from multiprocessing.context import ForkProcess

import numpy as np

from consilium.data.private_rows import Rows, remarks
from consilium.models.devices import one_thread
from consilium.models.keys import TeacherKind, teacher_from_json
from consilium.models.table import fit_teachers
from consilium.simulations.engines import local  # noqa: F401 (what parties need, before the process is forked)
from consilium.simulations.engines.process import IMPORTS, Finished, Worker
from consilium.simulations.interruption import SIGNALS


def prepare(environment: dict[str, str], described: str) -> None:
    """Take this over, and import what a teacher needs of which this is the description, by training one on two rows.
    Whatever is wrong with it, the parties will say."""
    os.environ.update(environment)
    with contextlib.suppress(Exception):
        two = np.arange(2)
        fit_teachers(teacher_from_json(described), Rows(np.eye(2), two), [two], [0], 2)


def serve(connection: Connection) -> None:
    """Do pickled tasks until the engine closes the connection, and say what each tells, as it tells it, and `Finished`,
    or None where it failed: the engine, which does it then, will say what is wrong. What is to be prepared, an
    environment and the description of a teacher, has no answer."""
    while True:
        try:
            work = connection.recv()
        except (EOFError, OSError):
            return
        if isinstance(work, tuple):
            prepare(*work)
            continue
        outcome = None
        with contextlib.suppress(Exception):
            function, arguments = pickle.loads(work)
            outcome = Finished(function(*arguments, lambda *told: connection.send(told)))
        try:
            connection.send(outcome)
        except OSError:  # the engine was killed while the task went on
            return


def settle_in() -> None:
    """As a worker should be, whatever process it was made of."""
    for number in SIGNALS:  # the engine's to handle
        signal.signal(number, signal.SIG_IGN)
    remarks.setLevel(logging.ERROR)
    logging.getLogger("consilium.party").setLevel(logging.ERROR)  # the run's warning counts them and says why


class _Fork(ForkProcess):
    """A fork of this process, with what a worker uses of `subprocess.Popen`."""

    def poll(self) -> int | None:
        return self.exitcode

    def wait(self) -> None:
        self.join()


def _forked() -> Worker:
    ours, theirs = Pipe()
    process = _Fork(target=_work_as_fork, args=(theirs, ours), daemon=True)
    process.start()
    theirs.close()
    return Worker(made=(process, ours))


def _work_as_fork(connection: Connection, engine: Connection) -> None:
    engine.close()  # it would never be closed if it were open here too
    settle_in()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    with one_thread():
        serve(connection)


THREADED = frozenset({"polars", "torch"})
"""Libraries with threads of their own: a fork of a process that used them waits for threads that it does not have."""


@contextmanager
def running_workers(count: int | None = None, teacher: TeacherKind | None = None) -> Iterator[list[Worker]]:
    """`count` worker processes, one for each core by default; they are ended with the context. Forks of this process,
    which share its memory and have imported what they need. Where a fork could hang, since this process has threads, or
    a library may have had some, or the system's libraries forbid it, each takes a second to import its own, for
    teachers of this kind too."""
    count = count or os.cpu_count() or 1
    alone = threading.active_count() == 1 and not THREADED & sys.modules.keys()
    if sys.platform == "linux" and alone:
        gc.freeze()  # a collection would copy all memory that the processes share
        workers = [_forked() for _ in range(count)]
    else:
        workers = [Worker(teacher) for _ in range(count)]
    try:
        yield workers
    finally:
        for worker in workers:
            worker.stop()


if __name__ == "__main__":
    settle_in()
    # after all others: what is installed is never hidden by a file beside a script
    sys.path += [folder for folder in os.environ.get(IMPORTS, "").split(os.pathsep) if folder not in ("", *sys.path)]
    serve(Connection(int(sys.argv[1])))
