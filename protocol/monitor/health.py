"""Whether a node lives, as one exit code: the health check of a container.

    python -P -m consilium.protocol.monitor.health KIT

It asks the port of `monitor.toml` where that is plain HTTP. With mutual TLS it has no certificate to ask with, and
without a port nothing to ask: then a node lives that holds the lock of its kit, which goes with its process.
"""

from __future__ import annotations

import http.client
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from consilium.protocol.errors import ConsiliumError
from consilium.protocol.files import is_held
from consilium.protocol.monitor.settings import MonitorSettings, load_monitor
from consilium.protocol.node.kit import Kit, open_kit


def is_this_node(kit: Kit, settings: MonitorSettings) -> bool:
    """Whether it is this node that answers at its port, and no other program."""
    connection = http.client.HTTPConnection(settings.listen, settings.port, timeout=5)
    try:
        connection.request("GET", "/healthz")
        told = json.loads(connection.getresponse().read(10_000))
        return (told["node"], told["kind"]) == (kit.name, kit.kind)
    except (OSError, ValueError, KeyError, TypeError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def lives(kit: Kit) -> bool:
    """Whether the node of this kit runs. Raises ConfigError for settings that cannot be read."""
    settings = load_monitor(kit)
    if settings.port is not None and settings.tls(kit.folder) is None:
        return is_this_node(kit, settings)
    return is_held(kit.state / "lock")


def main(arguments: Sequence[str]) -> int:
    """Entry point: 0 where it lives, 1 where it does not or cannot be told, 2 for a mistake in the call."""
    if len(arguments) != 1:
        print("usage: python -P -m consilium.protocol.monitor.health KIT", file=sys.stderr)
        return 2
    try:
        well = lives(open_kit(Path(arguments[0])))
    except ConsiliumError as error:
        print(error, file=sys.stderr)
        return 1
    print("lives" if well else "does not answer")
    return int(not well)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
