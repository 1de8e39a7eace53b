"""`flwr-clientapp` as a party runs it: always the installed party code, never code from a bundle.

Flower's SuperNode starts a program of this name for every message. Flower's own unpacks the bundle that came from the
coordinator and imports it, so that whoever submits a run runs code at every party; Flower 1.41 can only refuse bundles
that are not signed through its own hub. This one takes the message and ignores the bundle: nothing of it is unpacked,
imported or read. It rests on names inside Flower, which tests/deploy/test_installed_app.py watches.
"""

from __future__ import annotations

import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flwr.clientapp import ClientApp

from party.client_app import app
from protocol.deploy.files import private_folder, replace_text

PROGRAM = "flwr-clientapp"
OTHERS = ("flwr-agentapp", "flwr-connector", "flwr-model", "flwr-serverapp", "flwr-simulation")
"""What else Flower's task launcher could start by name: none of it may run at a party."""


def write_programs(folder: Path) -> Path:
    """Small programs with the names that Flower looks up in PATH; the folder is to come first there."""
    private_folder(folder)
    start = f'#!/bin/sh\nexec "{sys.executable}" -P -m party.deploy.installed_app "$@"\n'
    refuse = '#!/bin/sh\necho "refused: a party runs its own code only" >&2\nexit 1\n'
    for name in (PROGRAM, *OTHERS):
        replace_text(folder / name, start if name == PROGRAM else refuse)
        (folder / name).chmod(stat.S_IRWXU)
    return folder


def ignore_bundles() -> None:
    """Make Flower's client process run the installed app."""
    from flwr.supernode.runtime import run_clientapp as flower

    def nothing(*_: Any, **__: Any) -> None:
        """In place of unpacking the bundle."""

    def installed(*_: Any, **__: Any) -> Callable[..., ClientApp]:
        return lambda *_: app

    flower.install_from_fab = nothing
    flower.get_project_dir = lambda *_: Path()
    flower.get_load_client_app_fn = installed


def main() -> None:
    """Entry point."""
    from flwr.supernode.cli.flwr_clientapp import flwr_clientapp

    ignore_bundles()
    sys.argv[0] = PROGRAM
    flwr_clientapp()


if __name__ == "__main__":
    main()
