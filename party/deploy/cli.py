"""`consilium party start`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def start(kit: Annotated[Path, typer.Argument(metavar="KIT", help="The node's kit.")]) -> None:
    """Serve the federation with this party's own rows until SIGTERM."""
    from party.deploy.start import start as serve
    from protocol.deploy.kit import open_kit
    from protocol.deploy.supervisor import stop_on_signals, tell_time

    with stop_on_signals() as stop:
        serve(open_kit(kit, "party"), tell_time, stop)
