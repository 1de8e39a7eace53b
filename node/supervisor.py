"""A program that runs and ends with its node.

Whoever started the node, systemd or docker, starts it again, and keeps what its programs write to standard error."""

from __future__ import annotations

import _thread
import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from consilium.protocol.errors import EngineError

PARENT_SECONDS, PATIENCE = 1.0, 20.0


def end_with_parent(look: float = PARENT_SECONDS, patience: float = PATIENCE) -> None:
    """From now on send this process SIGTERM once its parent is another one, and its group SIGKILL `patience` s later.

    The group only where this process leads it, as one does that `run_program` started."""
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


Tell = Callable[[str, str], None]
"""Called with the name of a process and what happened to it."""

LOOK_SECONDS = 1.0


@dataclass(frozen=True)
class BackOff:
    """Seconds before something is tried again: `first`, doubled up to `most`."""

    first: float
    most: float

    def pause(self, failures: int) -> float:
        """After so many failures in a row, from 1.

        >>> [BackOff(1, 8).pause(failures) for failures in range(1, 7)]
        [1, 2, 4, 8, 8, 8]
        """
        return min(self.most, self.first * 2 ** min(failures - 1, 30))


@dataclass(frozen=True)
class Program:
    """What to run, in which folder."""

    name: str
    command: Sequence[str]
    folder: Path
    environment: Mapping[str, str] = field(repr=False)


def run_program(
    program: Program, tell: Tell, stop: threading.Event, look: Callable[[], None], patience: float = PATIENCE
) -> None:
    """Run a program until `stop` is set, and call `look` every second meanwhile. It ends, with all that it started,
    when this returns or raises; patience: seconds that it gets from SIGTERM to SIGKILL. It writes where this process
    writes. Raises EngineError: it could not be started, or ended by itself. And as `look`."""
    process = started(program)
    try:
        while not stop.wait(LOOK_SECONDS):
            if (code := process.poll()) is not None:
                ended = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
                raise EngineError(f"{program.name} ended ({ended})", "Its last words stand above")
            look()
    finally:
        if not end(process, patience):
            tell(program.name, f"did not end within {patience:g} s: it was killed")


def started(program: Program) -> subprocess.Popen:
    """A program that runs, in a process group of its own. Raises EngineError where it cannot be started."""
    try:
        return subprocess.Popen(
            list(program.command), cwd=program.folder, env=dict(program.environment), stdin=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        raise EngineError(f"{program.name} could not be started: {error.strerror}") from None


def end(process: subprocess.Popen, patience: float = PATIENCE) -> bool:
    """End a process and all that it started: SIGTERM once, for a second one would cut short how Flower says goodbye,
    and SIGKILL to what is left after `patience` seconds. Whether it ended in time."""
    in_time = True
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        in_time = False
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return in_time


@contextlib.contextmanager
def stop_on_signals() -> Iterator[threading.Event]:
    """An event that SIGTERM and SIGINT set while the context is open. For the main thread.

    A thread of its own sets it. The signals' handler runs in the main thread, wherever that is: within the event's own
    lock too, for which it would wait for ever, or within those of `threading`."""
    stop = threading.Event()

    def ask(_signal: int, _frame: FrameType | None) -> None:
        _thread.start_new_thread(stop.set, ())

    before = {number: signal.signal(number, ask) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


def tell_time(name: str, what: str) -> None:
    """A `Tell` that prints a line with the time to standard error, without line ends and control characters: nobody's
    name or message can look like a line of its own."""
    print(f"{time.strftime('%H:%M:%S')} {name}: {_CONTROL.sub(' ', what)}", file=sys.stderr, flush=True)
