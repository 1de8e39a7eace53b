"""Flower's own programs: where they are, the environment that they need, and whether this Flower is one we know.

`python -P -m consilium.node.flower flower-supernode ...` is `flower-supernode ...`, which ends with the node that
started it and serves nobody but this user. Flower asks nobody on loopback who he is: any user of the machine could list
nodes, stop the run or claim a task.
"""

from __future__ import annotations

import os
import shutil
import socket
import sys
import sysconfig
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
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


PROGRAMS = {
    "flower-supernode": (
        "flwr.supernode.cli.flower_supernode", "flower_supernode", "_start_supernode_http_api", "flwr.supernode.main",
    ),
    "flower-superlink": (
        "flwr.superlink.cli.flower_superlink", "flower_superlink", "_run_superlink_http_api", "flwr.superlink.main",
    ),
}  # fmt: skip
"""By name: the module and function that it is, the one in it that serves, and where that takes `create_app` from."""
PEERS, ESTABLISHED = Path("/proc/net/tcp"), "01"


def command(program: str) -> list[str]:
    """How one of PROGRAMS is started; its arguments follow."""
    return python_module("consilium.node.flower", program)


def free_port() -> int:
    """A TCP port on loopback that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def is_own(peer: tuple[str, int], server: tuple[str, int]) -> bool:
    """Whether a connection over IPv4 on this machine is from a process of this user, who still holds it: the kernel
    shows one that was let go of as root's. Both ends: address and port."""
    ends = [f"{int.from_bytes(socket.inet_aton(host), sys.byteorder):08X}:{port:04X}" for host, port in (peer, server)]
    for line in PEERS.read_text(encoding="ascii").splitlines():
        _, local, remote, state, _, _, _, uid, *_ = line.split()
        if [local, remote, state] == [*ends, ESTABLISHED]:
            return int(uid) == os.geteuid()
    return False


def for_own_user(app: Callable[..., Any]) -> Callable[..., Any]:
    """An ASGI app that refuses every request but this user's, whatever is asked."""

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan" or is_own(scope["client"], scope["server"]):
            return await app(scope, receive, send)
        if scope["type"] == "http":  # whatever else there is is let go of without an answer
            await send({"type": "http.response.start", "status": 403, "headers": []})
            await send({"type": "http.response.body", "body": b"another user's"})

    return guarded


def guard(program: str) -> Callable[[], None]:
    """One of PROGRAMS, to be run in this process, behind `for_own_user`. Raises EngineError where that cannot be
    ensured."""
    module, name, serves, made_in = PROGRAMS[program]
    require_flower({module: (name, serves), made_in: ("create_app",)})
    found, apps = import_module(module), import_module(made_in)
    if not {made_in, "create_app"} <= {*getattr(found, serves).__code__.co_names}:
        raise unknown_flower(f"{program} serves something else than {made_in}.create_app")
    create = apps.create_app
    apps.create_app = lambda *args, **more: for_own_user(create(*args, **more))
    os.environ["FORWARDED_ALLOW_IPS"] = ""  # no header of a request says from where it is
    return getattr(found, name)


def main() -> None:
    """Entry point: sys.argv[1] is one of PROGRAMS, the rest is its own."""
    sys.argv = sys.argv[1:]
    end_with_parent()
    try:
        run = guard(sys.argv[0])
    except EngineError as error:
        sys.exit(f"refused: {error}")
    run()


if __name__ == "__main__":
    main()
