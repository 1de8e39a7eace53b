"""A program that ends when its supervisor is gone, however that one died.

A supervisor that is killed with SIGKILL ends nobody. systemd would kill what is left of its service, and the next start
ends what it finds (`supervisor.end_leftovers`); but an orphan may be out of sight of both: where the system cannot kill
a control group, a service with user namespaces of its own sees no process of its earlier life. It would hold its port
for ever. So each program looks itself.
"""

from __future__ import annotations

import os
import signal
import threading
import time

LOOK_SECONDS, PATIENCE = 1.0, 20.0


def end_with_parent(look: float = LOOK_SECONDS, patience: float = PATIENCE) -> None:
    """From now on send this process SIGTERM once its parent is another one, and its group SIGKILL `patience` s later.

    The group only where this process leads it, as one does that a `Supervisor` started.
    """
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(look)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(patience)
        if os.getpgid(0) == os.getpid():
            os.killpg(0, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, name="orphans", daemon=True).start()
