"""One worker process of the local engine: does the tasks that it is handed, as to answer messages to its parties.

Started as `python -P -m consilium.simulations.engines.worker FD...`; each FD is a socket to the engine. For each FD but
the first it forks once its libraries are imported, and before it has done, or been told, anything. Or a fork of the
engine's process, which has no threads yet. A party that hangs can be killed without harm to others.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import signal
import sys
from multiprocessing.connection import Connection

import numpy as np

from consilium.data.private_rows import Rows, remarks
from consilium.models.devices import one_thread
from consilium.models.keys import teacher_from_json
from consilium.models.table import fit_teachers
from consilium.simulations.beside import Finished, Task
from consilium.simulations.engines import local  # noqa: F401 (what parties need, before the process is forked)
from consilium.simulations.engines.process import IMPORTS


def prepare(environment: dict[str, str], described: str) -> None:
    """Take this over, and import what a teacher needs of which this is the description, by training one on two rows.
    Whatever is wrong with it, the parties will say."""
    os.environ.update(environment)
    with contextlib.suppress(Exception):
        two = np.arange(2)
        fit_teachers(teacher_from_json(described), Rows(np.eye(2), two), [two], [0], 2)


def serve(connection: Connection) -> None:
    """Do pickled tasks until the engine closes the connection, and say what each tells, as it tells it, and `Finished`,
    or None where it failed. What is to be prepared, an environment and the description of a teacher, has no answer."""
    with contextlib.suppress(OSError):  # nobody is there any more, which the next line finds
        connection.send(os.getpid())
    while True:
        try:
            work = connection.recv()
        except (EOFError, OSError):
            return
        if isinstance(work, tuple):
            prepare(*work)
            continue
        outcome = done(work, connection)
        try:
            connection.send(outcome)
        except OSError:  # the engine was killed while the task went on
            return


def done(content: bytes, connection: Connection) -> Finished | None:
    """What comes of a pickled task; what it tells goes to the engine meanwhile. None: whatever is wrong with it, the
    engine will say, which does it then."""
    with contextlib.suppress(Exception):
        task: Task = pickle.loads(content)
        return Finished(task.run(lambda *told: connection.send(told)))
    return None


def find_modules(folders: list[str]) -> None:
    """Look into these folders too, after all others: what is installed is never hidden by a file beside a script."""
    sys.path += [folder for folder in folders if folder and folder not in sys.path]


def own_end(ends: list[int]) -> int:
    """Fork for each of these file descriptors but the first; the one that is this process's. The others are closed: the
    engine sees that a process is gone when nobody holds its end."""
    own = ends[0]
    for end in ends[1:]:
        if os.fork() == 0:
            own = end
            break
    for end in ends:
        if end != own:
            os.close(end)
    return own


def settle_in() -> None:
    """As a worker should be, whatever process it was made of."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # the engine's to handle
        signal.signal(number, signal.SIG_IGN)
    remarks.setLevel(logging.ERROR)
    logging.getLogger("consilium.party").setLevel(logging.ERROR)  # the run's warning counts them and says why


def work_as_fork(connection: Connection, engine: Connection) -> None:
    """In a fork of the engine's process. engine: the other end, which would never be closed if it were open here."""
    engine.close()
    settle_in()
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    with one_thread():
        serve(connection)


if __name__ == "__main__":
    settle_in()
    find_modules(os.environ.get(IMPORTS, "").split(os.pathsep))
    serve(Connection(own_end([int(end) for end in sys.argv[1:]])))
