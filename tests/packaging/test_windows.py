"""What docs/install.md says of Windows: of Consilium only the accounting runs there, and that it does."""

from __future__ import annotations

import subprocess
import sys

import pytest

WITHOUT_POSIX = """
import importlib, pkgutil, signal, sys
for name in ("fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules[name] = None
for name in ("SIGHUP", "SIGKILL", "SIGALRM"):
    delattr(signal, name)
room = importlib.import_module("consilium." + sys.argv[1])
for module in pkgutil.walk_packages(room.__path__, room.__name__ + "."):
    importlib.import_module(module.name)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("room", "said"), [("accounting", ""), ("protocol", "fcntl")])
def test_what_needs_posix(room: str, said: str) -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_POSIX, room], capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == (said == "")
    assert said in done.stderr
