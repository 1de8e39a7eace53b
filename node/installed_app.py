"""`flwr-clientapp` as nodes run it: always the installed code of a node's own kind, never code from a bundle.

Flower's SuperNode starts a program of this name for every message. Flower's own unpacks the bundle that came from the
coordinator and imports it, so that whoever submits a run runs code at every node; Flower 1.41 can only refuse bundles
that are not signed through its own hub. This one takes the message and ignores the bundle: nothing of it is unpacked,
imported or read. It rests on names inside Flower, which `check_flower` asserts before anything starts.

`python -P -m consilium.node.installed_app MODULE ...` is `flwr-clientapp ...` with the `app` of that installed
module, that of a kind of node.
"""

from __future__ import annotations

import stat
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from flwr.clientapp import ClientApp

from consilium.node.flower import require_flower, unknown_flower
from consilium.protocol.errors import EngineError
from consilium.protocol.files import private_folder, replace_text

PROGRAM = "flwr-clientapp"
OTHERS = ("flwr-agentapp", "flwr-connector", "flwr-model", "flwr-serverapp", "flwr-simulation")
"""What else Flower's task launcher could start by name: none of it may run at a node."""
CLI, RUNTIME = "flwr.supernode.cli.flwr_clientapp", "flwr.supernode.runtime.run_clientapp"
LAUNCHER = "flwr.supercore.superexec.executor.subprocess_executor"


def _nothing(*_: Any, **__: Any) -> None:
    """In place of unpacking the bundle, and of installing what it asks for."""


def _nowhere(*_: Any, **__: Any) -> Path:
    """In place of the folder that a bundle is unpacked to."""
    return Path()


def _nobodys() -> ClientApp:
    raise unknown_flower("no app was named that is to run")


LOADS = "get_load_client_app_fn"
REPLACED = {
    "install_from_fab": _nothing,
    "get_project_dir": _nowhere,
    LOADS: _nobodys,
    "install_app_dependencies": _nothing,
}
"""In RUNTIME, by name: all that it does with a bundle. What imports an app is replaced by what gives the own one."""
NAMES = {
    CLI: ("flwr_clientapp", "run_clientapp"),
    RUNTIME: ("run_clientapp", *REPLACED),
    "flwr.supercore.constant": ("TASK_TYPE_TO_COMMAND",),
    LAUNCHER: ("subprocess", "SubprocessExecutor.launch"),
}
"""Names that are not Flower's public API and that `check_flower` asserts."""


def write_programs(folder: Path, module: str) -> Path:
    """Small programs with the names that Flower looks up in PATH; the folder is to come first there.

    module: its `app` is that of this kind of node.
    """
    private_folder(folder)
    start = f'#!/bin/sh\nexec "{sys.executable}" -P -m consilium.node.installed_app {module} "$@"\n'
    refuse = '#!/bin/sh\necho "refused: a node runs its own code only" >&2\nexit 1\n'
    for name in (PROGRAM, *OTHERS):
        replace_text(folder / name, start if name == PROGRAM else refuse)
        (folder / name).chmod(stat.S_IRWXU)
    return folder


def check_flower() -> None:
    """Check that this Flower can be made to ignore bundles, before a node is reachable.

    A name that is set where Flower no longer looks would protect nothing and raise nothing. So: every name is there, it
    is what Flower's client process calls, and that process is started through PATH.

    Raises
    ------
    EngineError : one of them is not so, or this is another version of Flower.
    """
    require_flower(NAMES)
    cli, flower = import_module(CLI), import_module(RUNTIME)
    process = flower.run_clientapp
    if cli.run_clientapp is not process or vars(flower) is not process.__globals__:
        raise unknown_flower(f"{CLI}.flwr_clientapp runs something else than {RUNTIME}.run_clientapp")
    if unused := set(REPLACED) - set(process.__code__.co_names):
        raise unknown_flower(f"{RUNTIME}.run_clientapp does not call {', '.join(sorted(unused))}")
    programs = set(import_module("flwr.supercore.constant").TASK_TYPE_TO_COMMAND.values())
    if programs != {PROGRAM, *OTHERS}:
        raise unknown_flower(f"it starts other programs: {', '.join(sorted(programs ^ {PROGRAM, *OTHERS}))}")
    if import_module(LAUNCHER).subprocess is not subprocess:
        raise unknown_flower(f"{LAUNCHER} starts programs in another way")


def ignore_bundles(app: ClientApp) -> None:
    """Make Flower's client process run this app. Raises EngineError where that cannot be ensured."""

    def installed(*_: Any, **__: Any) -> Callable[..., ClientApp]:
        return lambda *_: app

    check_flower()
    for name, replacement in {**REPLACED, LOADS: installed}.items():
        setattr(import_module(RUNTIME), name, replacement)


def main() -> None:
    """Entry point: Flower's client process with the app of sys.argv[1]; the rest is Flower's own."""
    from flwr.supernode.cli.flwr_clientapp import flwr_clientapp

    app = import_module(sys.argv.pop(1)).app
    try:
        ignore_bundles(app)
    except EngineError as error:
        sys.exit(f"refused: {error}")
    sys.argv[0] = PROGRAM
    flwr_clientapp()


if __name__ == "__main__":
    main()
