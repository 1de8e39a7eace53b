"""One worker process of the local engine: does the tasks that it is handed, as to answer messages to its parties.

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
from consilium.simulations.engines import local  # noqa: F401 (what parties need, before they are here)
from consilium.simulations.engines.process import IMPORTS, Finished
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


if __name__ == "__main__":
    for number in SIGNALS:  # the engine's to handle
        signal.signal(number, signal.SIG_IGN)
    remarks.setLevel(logging.ERROR)
    logging.getLogger("consilium.party").setLevel(logging.ERROR)  # the run's warning counts them and says why
    # after all others: what is installed is never hidden by a file beside a script
    sys.path += [folder for folder in os.environ.get(IMPORTS, "").split(os.pathsep) if folder not in ("", *sys.path)]
    serve(Connection(int(sys.argv[1])))
