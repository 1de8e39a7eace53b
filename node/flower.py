"""Flower's own programs: where they are, the environment that they need, and whether this Flower is one we know.

SuperLink and SuperNode start a program for each piece of work. Flower gives it 30 s (`HEARTBEAT_DEFAULT_INTERVAL`) from
being started to its first word; after that the same work goes to a further program, while the first still starts and
will find its token void. On a machine that is short of processors, or slow to read a disk, these take each other's
time, and none is ever ready. Here they have `START_SECONDS`; how soon a program that has spoken counts as gone is as it
was.

`python -P -m consilium.node.flower flower-supernode ...` is `flower-supernode ...` with that difference, and ends with
its supervisor. The patience rests on names inside Flower, which `check_patience` asserts.
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple

from consilium.models.devices import ONE_THREAD
from consilium.node.supervisor import end_with_parent
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
"""Versions of Flower that this was written for: from the first, before the second; pyproject.toml says the same."""


FLEET_NAMES = {
    "flwr.common.constant": ("TIMESTAMP_HEADER", "TIMESTAMP_TOLERANCE", "SYSTEM_TIME_TOLERANCE"),
    "flwr.supercore.constant": ("FLEET_HTTP_PUBLIC_KEY_HEADER", "FLEET_HTTP_SIGNATURE_HEADER"),
}
"""Names that are not Flower's public API: of the scheme by which nodes sign."""


class FleetScheme(NamedTuple):
    """How a SuperNode signs: names of headers, and seconds that its clock may be ahead and behind."""

    key: str
    signature: str
    moment: str
    ahead: float
    behind: float


def fleet_scheme() -> FleetScheme:
    """Flower 1.41: each request of a SuperNode carries its public key (PEM, base64), the time (ISO 8601) and an ECDSA
    signature of the time. Raises EngineError: this Flower's nodes sign in another way."""
    require_flower(FLEET_NAMES)
    common: Any = import_module("flwr.common.constant")
    fleet: Any = import_module("flwr.supercore.constant")
    return FleetScheme(
        key=fleet.FLEET_HTTP_PUBLIC_KEY_HEADER,
        signature=fleet.FLEET_HTTP_SIGNATURE_HEADER,
        moment=common.TIMESTAMP_HEADER,
        ahead=common.SYSTEM_TIME_TOLERANCE,
        behind=common.TIMESTAMP_TOLERANCE + common.SYSTEM_TIME_TOLERANCE,
    )


def require_flower(names: Mapping[str, Iterable[str]]) -> None:
    """Check, before anything rests on them, that this Flower has names that are not its public API.

    Parameters
    ----------
    names : by module, the names that must be in it; a dot leads on to an attribute ("Task.run_id").

    Raises
    ------
    EngineError : another version of Flower than those that were tested, or one of the names is gone.
    """
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
    """The error for a Flower in which something that a promise rests on is not as it was: `what`, in words."""
    first, before = (".".join(map(str, end)) for end in (FIRST, BEFORE))
    return EngineError(
        f"flwr {version('flwr')} is installed, and {what}; Consilium needs flwr >= {first}, < {before}, unchanged",
        "Install it with Consilium's constraints.txt; nothing was started",
    )


def flower_environment(home: Path, *first: Path) -> dict[str, str]:
    """Environment of Flower's programs: no telemetry, nothing installed at run time, a home of their own, no proxy on
    loopback.

    They find each other by name, in the folders `first` and then in this interpreter's environment.
    """
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


START_SECONDS = 240
CLAIM, WAIT = "claim_task", "HEARTBEAT_DEFAULT_INTERVAL"
STORES = {
    "flwr.supercore.corestate.in_memory_corestate": "InMemoryCoreState",
    "flwr.supercore.corestate.sql_corestate": "SqlCoreState",
}
"""Where Flower keeps its tasks, by module: at a SuperNode, and at a SuperLink with a database."""
PROGRAMS = {
    "flower-supernode": ("flwr.supernode.cli", "flower_supernode"),
    "flower-superlink": ("flwr.superlink.cli", "flower_superlink"),
}


def check_patience() -> None:
    """Check that this Flower takes the time for a start from where it is changed. Raises EngineError."""
    require_flower({module: (WAIT, f"{store}.{CLAIM}") for module, store in STORES.items()})
    require_flower({module: (name,) for module, name in PROGRAMS.values()})
    for module, store in STORES.items():
        claim = getattr(getattr(import_module(module), store), CLAIM)
        if WAIT not in claim.__code__.co_names:
            raise unknown_flower(f"{module}.{store}.{CLAIM} does not read {WAIT}")


def with_patience(claim: Callable[..., Any], seconds: float) -> Callable[..., Any]:
    """`claim` of one of the stores, as if `HEARTBEAT_DEFAULT_INTERVAL` were `seconds` in it and nowhere else."""
    names = {**claim.__globals__, WAIT: seconds}
    return FunctionType(claim.__code__, names, claim.__name__, claim.__defaults__, claim.__closure__)


def be_patient() -> None:
    """Give programs `START_SECONDS` to start, in this process. Raises EngineError where that cannot be ensured."""
    check_patience()
    for module, name in STORES.items():
        store = getattr(import_module(module), name)
        setattr(store, CLAIM, with_patience(getattr(store, CLAIM), START_SECONDS))


def command(program: str) -> list[str]:
    """How one of PROGRAMS is started; its arguments follow."""
    return [sys.executable, "-P", "-m", "consilium.node.flower", program]


def main() -> None:
    """Entry point: sys.argv[1] is one of PROGRAMS, the rest is its own."""
    sys.argv = sys.argv[1:]
    module, name = PROGRAMS[sys.argv[0]]
    end_with_parent()
    try:
        be_patient()
    except EngineError as error:
        sys.exit(f"refused: {error}")
    sys.exit(getattr(import_module(module), name)())


if __name__ == "__main__":
    main()
