"""Troubles with files as they really are: another process with SQLite's own lock, a small disk that fills up."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

HOLDER = """
import sqlite3, sys
with sqlite3.connect(sys.argv[1], isolation_level=None) as file:
    file.execute(sys.argv[2])
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def locked(path: Path, how: str = "BEGIN EXCLUSIVE") -> Iterator[None]:
    """Another process has this lock on a database."""
    command = [sys.executable, "-c", HOLDER, str(path), how]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None and holder.stdin is not None
        assert holder.stdout.readline() == "held\n"
        try:
            yield
        finally:
            holder.stdin.close()


@contextmanager
def mounted(folder: Path, size: str = "4m") -> Iterator[None]:
    """A disk of its own at an empty folder. Skips the test where none can be mounted."""
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@contextmanager
def full(folder: Path) -> Iterator[None]:
    """Nothing more can be written on its disk."""
    ballast = folder / "ballast"
    with contextlib.suppress(OSError), open(ballast, "wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    try:
        yield
    finally:
        ballast.unlink()
