"""A command in a process and on a terminal of its own, at which somebody types."""

from __future__ import annotations

import os
import pty
import select
import signal
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from consilium.cli import app
from consilium.edge import run

END, INTERRUPT = "\x04", "\x03"
"""Ctrl-D and Ctrl-C."""
SECONDS = 240


def typed(words: Sequence[object], answers: Sequence[str], prompt: str, cwd: Path) -> tuple[int, str]:
    """Exit status and all that the terminal shows. Each answer is typed when the prompt has come once more; a line
    ends with "\\n".

    Raises
    ------
    TimeoutError : it did not end.
    """
    child, leader = pty.fork()
    if child == 0:
        _become(words, cwd)
    shown, left = b"", list(answers)
    try:
        while True:
            if not select.select([leader], [], [], SECONDS)[0]:
                raise TimeoutError(f"{words} did not end: {shown.decode(errors='replace')[-500:]}")
            try:
                part = os.read(leader, 65536)
            except OSError:  # nobody has the other end any more
                break
            if not part:
                break
            shown += part
            if left and shown.decode(errors="replace").count(prompt) > len(answers) - len(left):
                os.write(leader, left.pop(0).encode())
    except BaseException:
        os.kill(child, signal.SIGKILL)
        raise
    finally:
        os.close(leader)
        _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), shown.decode().replace("\r\n", "\n")


def _become(words: Sequence[object], cwd: Path) -> NoReturn:
    """A fork of this process, which has imported everything already, ends as the command does."""
    code = 1
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w", 1), os.fdopen(2, "w", 1)
        os.chdir(cwd)
        code = run(app, [str(word) for word in words])
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)
