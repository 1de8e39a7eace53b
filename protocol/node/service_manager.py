"""What systemd is told of a node that it started: ready, alive, stopping.

The messages of sd_notify(3): datagrams to the socket that NOTIFY_SOCKET names. Units of kits have `Type=notify`, so
that `systemctl start` fails where a node refuses to start, and `WatchdogSec`, so that one whose main loop hangs is
killed and started again. Elsewhere nothing is sent.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time

SOCKET = "NOTIFY_SOCKET"
EVERY_SECONDS = 10.0
"""Between two signs of life; the units' WatchdogSec is much longer."""


class ServiceManager:
    """systemd where `address` names its socket, else nobody. address: a path, or "@" and an abstract name."""

    def __init__(self, address: str = "") -> None:
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._told: float | None = None

    @classmethod
    def of_environment(cls) -> ServiceManager:
        """The one that started this program. Its children are not to speak for it, so the variable is taken away."""
        return cls(os.environ.pop(SOCKET, ""))

    def alive(self) -> None:
        """The main loop goes round: at first also that the node is ready."""
        if self._told is None:
            self._send("READY=1")
        elif time.monotonic() - self._told < EVERY_SECONDS:
            return
        self._told = time.monotonic()
        self._send("WATCHDOG=1")

    def stopping(self) -> None:
        """The node was asked to stop."""
        self._send("STOPPING=1")

    def _send(self, state: str) -> None:
        if not self._address:
            return
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.setblocking(False)  # a manager that does not listen holds nothing up
            channel.sendto(state.encode(), self._address)


class StopEvent(threading.Event):
    """Set when a node is to stop. Whenever its main thread waits on it, the service manager hears that it is alive."""

    def __init__(self, manager: ServiceManager) -> None:
        super().__init__()
        self._manager = manager

    def wait(self, timeout: float | None = None) -> bool:
        """As `threading.Event.wait`."""
        if threading.current_thread() is threading.main_thread():
            self._manager.alive()
        return super().wait(timeout)

    def set(self) -> None:
        """As `threading.Event.set`."""
        self._manager.stopping()
        super().set()
