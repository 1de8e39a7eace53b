"""One worker process of the local engine: runs the tasks that it is handed, such as to answer messages for parties.

Started as `python -P -m consilium.simulations.engines.worker FD`; FD is a socket to the engine. A party that hangs can
be killed without harm to others.
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
from consilium.models.keys import teacher_from_json
from consilium.models.table import fit_teachers
from consilium.simulations.engines import local  # noqa: F401 (imports what parties need, before they come)
from consilium.simulations.engines.process import IMPORTS, Finished
from consilium.simulations.interruption import SIGNALS


def prepare(environment: dict[str, str], described: str) -> None:
    """Take over the environment, and train a teacher of the described kind on two rows, to import what it needs.
    Whatever is wrong with it, the parties will say."""
    os.environ.update(environment)
    with contextlib.suppress(Exception):
        two = np.arange(2)
        fit_teachers(teacher_from_json(described), Rows(np.eye(2), two), [two], [0], 2)


def serve(connection: Connection) -> None:
    """Run pickled tasks until the engine closes the connection. Sends each task's progress as it comes, then
    `Finished`, or None where the task failed: the engine then runs it itself, and says what is wrong. What is sent to
    `prepare`, an environment and the description of a teacher, has no answer."""
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
            outcome = Finished(function(*arguments, lambda *progress: connection.send(progress)))
        try:
            connection.send(outcome)
        except OSError:  # the engine was killed while the task went on
            return


if __name__ == "__main__":
    for number in SIGNALS:  # the engine handles them
        signal.signal(number, signal.SIG_IGN)
    remarks.setLevel(logging.ERROR)
    logging.getLogger("consilium.party").setLevel(logging.ERROR)  # the run itself warns of them, and says why
    # after all others: what is installed is never hidden by a file beside a script
    sys.path += [folder for folder in os.environ.get(IMPORTS, "").split(os.pathsep) if folder not in ("", *sys.path)]
    serve(Connection(int(sys.argv[1])))
