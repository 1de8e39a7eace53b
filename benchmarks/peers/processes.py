"""Processor time of a run that is many processes, of which some are nobody's child. Linux."""

from __future__ import annotations

import os
from pathlib import Path

MARK = "CONSILIUM_PEER"
"""Environment variable by which the processes of one run know each other, from when they began."""
_FIELDS = slice(11, 15)
"""Of /proc/PID/stat behind the name: ticks of the process itself and of its children that have ended."""


def processor_seconds() -> float:
    """Of all processes that live and have this one's mark, with their children that have ended."""
    mark, ticks = f"{MARK}={os.environ[MARK]}".encode(), 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                ticks += sum(map(int, (folder / "stat").read_text().rpartition(")")[2].split()[_FIELDS]))
        except OSError:  # it has ended, or is somebody else's
            continue
    return ticks / os.sysconf("SC_CLK_TCK")
