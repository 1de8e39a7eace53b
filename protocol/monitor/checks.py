"""`doctor` on `monitor.toml`: its keys, its port, and who may look."""

from __future__ import annotations

from consilium.protocol.errors import EngineError, PathError, ServiceError
from consilium.protocol.monitor.health import is_this_node
from consilium.protocol.monitor.server import ObserverTls
from consilium.protocol.monitor.settings import MONITOR_FILE, MonitorSettings, load_monitor
from consilium.protocol.node.checks import Check, check_port
from consilium.protocol.node.kit import Kit


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
