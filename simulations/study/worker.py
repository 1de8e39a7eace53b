"""One worker process of a study on this machine: does the batches of steps that it is handed.

Started as `python -P -m consilium.simulations.study.worker FD`; FD is a socket to the study's process.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path

from consilium.simulations.study.cache import read_step
from consilium.simulations.study.schedule import READY
from consilium.simulations.study.tasks import Read, StepDesk, work_off

POLL_SECONDS = 1.0


def end_with(parent: int) -> None:
    """End this process soon after its parent has gone, in whatever step it is: nobody waits for it any more."""
    while os.getppid() == parent:
        time.sleep(POLL_SECONDS)
    os._exit(1)


def serve(connection: Connection) -> None:
    """Do (steps, places of what they read) until the other end is closed."""
    desk = StepDesk()
    while True:
        try:
            steps, places = connection.recv()
        except (EOFError, OSError):
            return
        done = work_off(steps, _reading(places), desk)
        try:
            connection.send(done)
        except OSError:  # the study was killed meanwhile
            return


def _reading(places: Mapping[str, Path]) -> Read:
    return lambda address: read_step(places[address], address)


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # the study's to handle
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=end_with, args=(os.getppid(),), daemon=True).start()
    study = Connection(int(sys.argv[1]))
    study.send(READY)
    serve(study)
