"""Whether the SuperNode has a connection, as its node saw it last: one small file for the node's `status`."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

from consilium.protocol.files import replacing
from consilium.protocol.node.kit import Kit

FILE = "connection"


def note_connection(kit: Kit, what: str) -> None:
    """Write down what was found out. A full disk is told of elsewhere."""
    with contextlib.suppress(OSError), replacing(_path(kit), mode=0o600, durable=False) as file:
        file.write(f"{what} (since {time.strftime('%Y-%m-%d %H:%M:%S')})".encode())


def read_connection(kit: Kit) -> str:
    """In words; "unknown" where nothing is written."""
    try:
        return _path(kit).read_text(encoding="utf-8").strip() or "unknown"
    except OSError:
        return "unknown"


def _path(kit: Kit) -> Path:
    return kit.folder / "state" / FILE
