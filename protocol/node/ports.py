"""Ports that a node is about to bind: one that is taken is told at once, and waited for a little."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable

from consilium.protocol.errors import EngineError
from consilium.protocol.node.checks import Check
from consilium.protocol.node.supervisor import Tell

PORT_SECONDS = 15.0
"""That a port may still be held by a process of this node's own that is about to end."""


def wait_for_ports(checks: Iterable[Check], tell: Tell, stop: threading.Event, seconds: float = PORT_SECONDS) -> None:
    """Until every port can be bound, or `stop` is set. checks: of `checks.check_port`.

    Raises
    ------
    EngineError : one cannot be bound for so many seconds.
    """
    for name, check in checks:
        deadline, told = time.monotonic() + seconds, False
        while not stop.is_set():
            try:
                check()
                break
            except EngineError as error:
                if time.monotonic() >= deadline:
                    raise
                if not told:
                    tell(name, f"{error}. Waiting {seconds:g} s for it")
                told = True
            stop.wait(0.2)
