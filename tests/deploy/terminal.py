"""A command on a terminal of its own, at which somebody types."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import subprocess
import sys
import termios
from collections.abc import Sequence
from pathlib import Path

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
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "consilium", *map(str, words)], cwd=cwd, stdin=follower, stdout=follower,
        stderr=follower, start_new_session=True, preexec_fn=_own_terminal,
    )  # fmt: skip
    os.close(follower)
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
        process.kill()
        raise
    finally:
        os.close(leader)
    return process.wait(SECONDS), shown.decode().replace("\r\n", "\n")


def _own_terminal() -> None:
    """Ctrl-C reaches whoever has the terminal."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
