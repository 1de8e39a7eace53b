"""Whether a node lives, as one exit code, for the health check of a container; and what `doctor` says of its port.

    python -P -m consilium.node.health KIT

It asks the port of `monitor.toml` where that is plain HTTP. With mutual TLS it has no certificate to ask with, and
without a port nothing to ask: then a node lives that holds the lock of its kit, which goes with its process.
"""

from __future__ import annotations

import http.client
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from consilium.node.checks import Check, check_port
from consilium.node.kit import Kit, open_kit
from consilium.node.log import MONITOR_FILE, MonitorSettings, load_monitor
from consilium.node.monitor import ObserverTls
from consilium.protocol.errors import ConsiliumError, EngineError, PathError, ServiceError
from consilium.protocol.files import is_held


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
        print("usage: python -P -m consilium.node.health KIT", file=sys.stderr)
        return 2
    try:
        well = lives(open_kit(Path(arguments[0])))
    except ConsiliumError as error:
        print(error, file=sys.stderr)
        return 1
    print("lives" if well else "does not answer")
    return int(not well)


def monitor_checks(kit: Kit, running: bool) -> list[Check]:
    """running: the node is started, so that its port should be taken by itself."""
    return [("monitor", lambda: _monitor(kit, running))]


def _monitor(kit: Kit, running: bool) -> str:
    settings = load_monitor(kit)
    told = [_log(kit, settings)]
    if settings.port is None:
        return "; ".join([f"no port: nobody can look at this node ({MONITOR_FILE} has none)", *told])
    tls = settings.tls(kit.folder)
    if tls is not None:
        told.append(f"mutual TLS, {ObserverTls(tls).check()} certificates may look")
    where = f"port {settings.port} on {settings.listen}"
    try:
        check_port(settings.port, settings.listen, "port", MONITOR_FILE)
    except EngineError:
        if tls is None and not is_this_node(kit, settings):
            raise
        return "; ".join([f"{where} answers", *told])
    if running:
        raise ServiceError(f"{where}: this node runs and does not listen there", "Restart it: it reads the file once")
    return "; ".join([f"{where} is free", *told])


def _log(kit: Kit, settings: MonitorSettings) -> str:
    log = settings.log
    if not log.file:
        return f"log: {log.format} on standard error"
    path = kit / log.file
    if not path.parent.is_dir() and path.parent != kit.folder / "state" / "logs":
        raise PathError(f"{path.parent}: there is no such folder", f"Make it, or change log.file in {MONITOR_FILE}")
    return f"log: {log.format} in {path.name}, at most {log.keep + 1} times {log.most_bytes / 1e6:g} MB"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
