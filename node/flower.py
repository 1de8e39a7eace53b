"""Flower's own programs: where they are, the environment that they need, and whether this version of Flower is
known."""

from __future__ import annotations

import os
import shutil
import socket
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

from consilium.models.devices import ONE_THREAD
from consilium.protocol.errors import EngineError
from consilium.protocol.tls import LOOPBACK

QUIET = {
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "PYTHONSAFEPATH": "1",  # what lies in the working folder is never imported
    **ONE_THREAD,
}

FIRST, BEFORE = (1, 42), (1, 44)
"""Versions of Flower that were tested: from the first, before the second; pyproject.toml says the same."""
FLEET_NAMES = {
    "flwr.common.constant": ("TIMESTAMP_HEADER", "TIMESTAMP_TOLERANCE", "SYSTEM_TIME_TOLERANCE"),
    "flwr.supercore.constant": ("FLEET_HTTP_PUBLIC_KEY_HEADER", "FLEET_HTTP_SIGNATURE_HEADER"),
}
"""Names that are not Flower's public API: of the scheme by which nodes sign."""


def fleet_scheme() -> SimpleNamespace:
    """How Flower's nodes sign: each request of a SuperNode carries its public `key` (PEM, base64), the time (`moment`,
    ISO 8601) and an ECDSA `signature` of the time, in headers of these names; its clock may be so many seconds `ahead`
    and `behind`. Raises EngineError: this version of Flower has not all of that."""
    require_flower(FLEET_NAMES)
    common, fleet = map(import_module, FLEET_NAMES)
    return SimpleNamespace(
        key=fleet.FLEET_HTTP_PUBLIC_KEY_HEADER,
        signature=fleet.FLEET_HTTP_SIGNATURE_HEADER,
        moment=common.TIMESTAMP_HEADER,
        ahead=common.SYSTEM_TIME_TOLERANCE,
        behind=common.TIMESTAMP_TOLERANCE + common.SYSTEM_TIME_TOLERANCE,
    )


def require_flower(names: Mapping[str, Iterable[str]]) -> None:
    """Check, before anything relies on them, that this version of Flower has names that are not its public API. Raises
    EngineError: it was not tested, or one of the names is gone.

    names: by module, those that must be in it; a dot leads on to an attribute ("Task.run_id")."""
    if not FIRST <= tuple(int(part) for part in version("flwr").split(".")[:2] if part.isdigit()) < BEFORE:
        raise unknown_flower("it is another version")
    for module, wanted in names.items():
        try:
            found = vars(import_module(module))
        except ImportError:
            raise unknown_flower(f"it has no module {module}") from None
        for name in wanted:
            head, *rest = name.split(".")
            # a class's own names, not getattr: a property may refuse to be read before it is set
            if head not in found or any(part not in dir(found[head]) for part in rest):
                raise unknown_flower(f"it has no {module}.{name}")


def unknown_flower(what: str) -> EngineError:
    """The error for a version of Flower that lacks something on which the guarantee relies: `what`, in words."""
    first, before = (".".join(map(str, end)) for end in (FIRST, BEFORE))
    return EngineError(
        f"flwr {version('flwr')} is installed, and {what}; Consilium needs flwr >= {first}, < {before}, unchanged",
        "Install it with Consilium's constraints.txt; nothing was started",
    )


def flower_environment(home: Path, *first: Path) -> dict[str, str]:
    """Environment of Flower's programs: no telemetry, nothing installed at run time, a home of their own, no proxy on
    loopback.

    They find each other by name, in the folders `first` and then in this interpreter's environment."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = os.pathsep.join([*map(str, first), sysconfig.get_path("scripts"), os.environ.get("PATH", "")])
    return {**without_loopback(os.environ), **QUIET, "FLWR_HOME": str(home), "PATH": path}


def without_loopback(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment in which no proxy is asked for this machine itself, in both spellings of the variable."""
    left_out = environment.get("no_proxy") or environment.get("NO_PROXY") or ""
    names = [name.strip() for name in left_out.split(",") if name.strip()]
    text = ",".join([*names, *(name for name in LOOPBACK if name not in names)])
    return {**environment, "NO_PROXY": text, "no_proxy": text}


def program(name: str) -> str:
    """Path of one of Flower's programs, in this interpreter's environment. Raises EngineError."""
    found = shutil.which(name, path=sysconfig.get_path("scripts")) or shutil.which(name)
    if found is None:
        raise EngineError(f"program {name} is not installed", "Install Consilium again: it brings Flower with it")
    return found


def python_module(module: str, *arguments: str) -> list[str]:
    """Command that runs an installed module with this interpreter, whatever lies in the working folder."""
    return [sys.executable, "-P", "-m", module, *arguments]


def free_port() -> int:
    """A TCP port on loopback that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
