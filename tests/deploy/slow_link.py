"""A slow link in user space, for kernels without netem: two TAP devices, and a process that passes frames late.

    python -m tests.deploy.slow_link HERE THERE NAMESPACE DELAY_MS BITS_PER_SECOND

makes the device HERE in the network namespace that it is started in and THERE in NAMESPACE, and passes frames between
them in both directions: each DELAY_MS late, and no faster than the rate.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import select
import struct
import sys
import time
from collections import deque
from pathlib import Path

TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
CLONE_NEWNET = 0x40000000
MOST_QUEUED_BYTES = 256 * 1024
MOST_FRAME = 65536


def tap(name: str) -> int:
    """A new TAP device in the current namespace; it goes when the descriptor is closed."""
    descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(descriptor, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI))
    return descriptor


def enter(namespace: str) -> None:
    """Move this process to a named network namespace; `os.setns` comes with Python 3.12 only."""
    with open(Path("/run/netns") / namespace, "rb") as file:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.setns(file.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"setns {namespace}")


class Direction:
    """Frames on their way: when each is due, and when the line is free for the next."""

    def __init__(self, source: int, target: int, delay: float, rate: float) -> None:
        self.source, self._target, self._delay, self._rate = source, target, delay, rate
        self._queue: deque[tuple[float, bytes]] = deque()
        self._queued = 0
        self._free = 0.0

    def take(self) -> None:
        """Read a frame; what a full queue cannot hold is lost, as on a real line."""
        frame = os.read(self.source, MOST_FRAME)
        if self._queued + len(frame) > MOST_QUEUED_BYTES:
            return
        self._free = max(time.monotonic(), self._free) + 8 * len(frame) / self._rate
        self._queue.append((self._free + self._delay, frame))
        self._queued += len(frame)

    def give(self) -> float:
        """Pass on what is due; returns seconds until the next is."""
        while self._queue and self._queue[0][0] <= time.monotonic():
            _, frame = self._queue.popleft()
            self._queued -= len(frame)
            try:
                os.write(self._target, frame)
            except OSError:  # the other end is down or full: the frame is lost
                continue
        return self._queue[0][0] - time.monotonic() if self._queue else 60.0


def main() -> None:
    """Serve until killed."""
    here, there, namespace, delay_ms, rate = sys.argv[1:]
    near = tap(here)
    enter(namespace)
    far = tap(there)
    print("ready", flush=True)
    directions = {pair[0]: Direction(*pair, float(delay_ms) / 1000, float(rate)) for pair in ((near, far), (far, near))}
    while True:
        pause = max(0.0, min(direction.give() for direction in directions.values()))
        for source in select.select(list(directions), [], [], pause)[0]:
            try:
                directions[source].take()
            except OSError:  # a device that is not up yet
                time.sleep(0.05)


if __name__ == "__main__":
    main()
