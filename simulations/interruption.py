"""Ctrl-C, SIGTERM and a closed terminal end a run as an error would: everything it holds is released first."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(BaseException):
    """A signal asked the run to end. No `Exception`, so that nothing takes it for a failure; nor a `KeyboardInterrupt`,
    which the command line's library turns into exit code 130 and silence."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number

    @property
    def exit_code(self) -> int:
        return 128 + self.number

    def __str__(self) -> str:
        return f"interrupted ({signal.Signals(self.number).name})"


@contextmanager
def interruptible() -> Iterator[None]:
    """`Interrupted` is raised at the first of `SIGNALS` while the context is open, in the main thread of a process.
    Those after it are dropped: what the run cleans up must not be cut short. A signal that whoever started the process
    had ignored (`nohup`) stays ignored. In another thread nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    raised = False

    def handle(number: int, _frame: FrameType | None) -> None:
        nonlocal raised
        if not raised:
            raised = True
            raise Interrupted(number)

    before = {
        number: signal.signal(number, handle)
        for number in SIGNALS
        if signal.getsignal(number) not in (signal.SIG_IGN, None)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


POLL_SECONDS = 1.0


def begin_worker(command: int) -> None:
    """In a worker process: signals are the command's to handle, what libraries print is no output of it, and no worker
    outlives the process of this number."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno() if sys.__stdout__ else 1)
    threading.Thread(target=_end_with, args=(command,), daemon=True).start()


def _end_with(command: int) -> None:
    """End this process soon after the command's has gone, in whatever step it is: nobody waits for it any more."""
    while os.getppid() == command:
        time.sleep(POLL_SECONDS)
    os._exit(1)
