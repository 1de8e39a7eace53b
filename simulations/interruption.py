"""Ctrl-C, SIGTERM and a closed terminal end a run as an error would: everything it holds is released first."""

from __future__ import annotations

import shlex
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(BaseException):
    """A signal asked the run to end. No `Exception`, so that nothing on the way takes it for a failure.

    Nor a `KeyboardInterrupt`, which the command line's library turns into exit code 130 and silence.

    run_dir: the folder with which the run can go on, once there is one.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number
        self.run_dir: Path | None = None

    @property
    def exit_code(self) -> int:
        """As a shell has it for a process that a signal ended: 130, 143 or 129."""
        return 128 + self.number

    def __str__(self) -> str:
        name = signal.Signals(self.number).name
        if self.run_dir is None:
            return f"interrupted ({name}) before the run began: there is nothing to resume"
        return f"interrupted ({name}); go on with: consilium run --resume {shlex.quote(str(self.run_dir))}"


class Signals:
    """What arrives while `interruptible` is open. The first signal is raised in the main thread, others are dropped.

    interrupted: what was raised, even where another error took its place, as where a closed terminal is written to.
    """

    def __init__(self) -> None:
        self.interrupted: Interrupted | None = None
        self._waiting: int | None = None
        self._held = 0

    def handle(self, number: int, _frame: FrameType | None) -> None:
        """See `signal.signal`."""
        if self.interrupted is not None:
            return  # the run is ending already, and what it cleans up must not be cut short
        if self._held:
            self._waiting = number
            return
        self.interrupted = Interrupted(number)
        raise self.interrupted

    @contextmanager
    def held(self) -> Iterator[None]:
        """Signals wait until the context is left; what it does happens whole."""
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1
        if self._waiting is not None and not self._held and self.interrupted is None:
            self.interrupted = Interrupted(self._waiting)
            raise self.interrupted


@contextmanager
def interruptible() -> Iterator[Signals]:
    """`Interrupted` is raised at `SIGNALS` while the context is open, in the main thread of a process.

    A signal that whoever started the process had ignored (`nohup`) stays ignored. In another thread nothing changes.
    """
    signals = Signals()
    if threading.current_thread() is not threading.main_thread():
        yield signals
        return
    before = {}
    for number in SIGNALS:
        if signal.getsignal(number) not in (signal.SIG_IGN, None):
            before[number] = signal.signal(number, signals.handle)
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
