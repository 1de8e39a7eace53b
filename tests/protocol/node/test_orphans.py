"""What a supervisor started ends when that one is killed, also if it does not heed SIGTERM."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

WATCH = "from consilium.protocol.node.orphans import end_with_parent; end_with_parent(0.05, 0.2)\n"
CHILD = "import os, signal, time\n{before}{watch}print(os.getpid(), flush=True)\ntime.sleep(3600)\n"
PARENT = (
    "import subprocess, sys, time\n"
    "subprocess.Popen([sys.executable, '-c', sys.argv[1]], start_new_session=True)\ntime.sleep(3600)\n"
)


def started(child: str) -> tuple[subprocess.Popen[str], int]:
    """A parent, and the number of its child once that runs."""
    parent = subprocess.Popen([sys.executable, "-c", PARENT, child], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    return parent, int(parent.stdout.readline())


def runs(pid: int) -> bool:
    """Whether it does; what has ended and was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
class TestOrphans:
    """A parent is killed with SIGKILL."""

    @pytest.mark.parametrize("before", ["", "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"])
    def test_a_child_that_watches_ends(self, before: str) -> None:
        parent, child = started(CHILD.format(before=before, watch=WATCH))
        assert runs(child)
        parent.kill()
        parent.wait()
        while runs(child):  # the time limit of all tests is the only one
            time.sleep(0.02)

    def test_control_one_that_does_not_watch_stays(self) -> None:
        parent, child = started(CHILD.format(before="", watch=""))
        try:
            parent.kill()
            parent.wait()
            time.sleep(1)
            assert runs(child)
        finally:
            os.kill(child, signal.SIGKILL)

    def test_a_child_whose_parent_lives_is_left_alone(self) -> None:
        parent, child = started(CHILD.format(before="", watch=WATCH))
        try:
            time.sleep(0.5)
            assert runs(child)
        finally:
            os.kill(child, signal.SIGKILL)
            parent.kill()
            parent.wait()
