"""Flower's own programs: where they are, and the environment that they need."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from pathlib import Path

from protocol.errors import EngineError

QUIET = {
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "OMP_NUM_THREADS": "1",
}


def flower_environment(home: Path, *first: Path) -> dict[str, str]:
    """Environment of Flower's programs: no telemetry, nothing installed at run time, a home of their own.

    They find each other by name, in the folders `first` and then in this interpreter's environment.
    """
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = os.pathsep.join([*map(str, first), sysconfig.get_path("scripts"), os.environ.get("PATH", "")])
    return {**os.environ, **QUIET, "FLWR_HOME": str(home), "PATH": path}


def program(name: str) -> str:
    """Path of one of Flower's programs, in this interpreter's environment. Raises EngineError."""
    found = shutil.which(name, path=sysconfig.get_path("scripts")) or shutil.which(name)
    if found is None:
        raise EngineError(f"program {name} is not installed", "Install Consilium again: it brings Flower with it")
    return found


def python_module(module: str, *arguments: str) -> list[str]:
    """Command that runs an installed module with this interpreter, whatever lies in the working folder."""
    return [sys.executable, "-P", "-m", module, *arguments]
