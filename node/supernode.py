"""A node's SuperNode, with which it connects to the coordinator.

It is Flower's own program, which here ends with the node that started it, and serves nobody but this user: Flower asks
nobody on loopback who he is, so that any user of the machine could claim a message or answer it. It ends, too, when the
process has ended that answers messages; systemd or docker then start the node again."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from consilium.node.apps import STARTER, write_programs
from consilium.node.flower import flower_environment, free_port, python_module, require_flower, unknown_flower
from consilium.node.folder import NodeFolder
from consilium.node.keys import NODE_KEY
from consilium.node.supervisor import Program, end_with_parent
from consilium.protocol.errors import EngineError

PROGRAM, SERVES, SERVED = "flwr.supernode.cli.flower_supernode", "_start_supernode_http_api", "flwr.supernode.main"
PEERS, ESTABLISHED = Path("/proc/net/tcp"), "01"


def supernode(folder: NodeFolder, address: str, app: str) -> Program:
    """The SuperNode of a node. address: host:port of the coordinator. app: see `write_programs`.

    It listens on loopback, at a port that is free now, and serves nobody but this user."""
    return Program(
        name="supernode",
        command=[
            *python_module("consilium.node.supernode"), "--superlink", address, "--root-certificates",
            str(folder.authority), "--auth-supernode-private-key", str(folder.keys / NODE_KEY), "--host", "127.0.0.1",
            "--port", str(free_port()), "--node-config", f'folder="{folder.path}"',
        ],
        folder=folder.state,
        environment=flower_environment(folder.state / "flower", write_programs(folder.state / "programs", app)),
    )  # fmt: skip


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


def guard() -> Callable[[], None]:
    """Flower's program, to be run in this process, behind `for_own_user` and with `started_apps`. Raises EngineError
    where that cannot be ensured."""
    require_flower({PROGRAM: ("flower_supernode", SERVES), SERVED: ("create_app",), STARTER: ("subprocess",)})
    program, served, starter = (cast(Any, import_module(module)) for module in (PROGRAM, SERVED, STARTER))
    if not {SERVED, "create_app"} <= {*getattr(program, SERVES).__code__.co_names}:
        raise unknown_flower(f"{PROGRAM} serves something else than {SERVED}.create_app")
    create = served.create_app
    starter.subprocess = SimpleNamespace(Popen=started_apps)
    served.create_app = lambda **more: for_own_user(create(**more))
    os.environ["FORWARDED_ALLOW_IPS"] = ""  # no header of a request says from where it is
    return program.flower_supernode


def started_apps(command: list[str]) -> subprocess.Popen:
    """Start what answers messages. When it has ended, this process gets SIGTERM: Flower would stay, connected and
    silent."""
    process = subprocess.Popen(command)

    def watch() -> None:
        process.wait()
        time.sleep(1)
        if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:  # else it is ending: a second one would cut it short
            os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="apps", daemon=True).start()
    return process


def main() -> None:
    """Entry point: `flower-supernode` and its arguments."""
    end_with_parent()
    try:
        run = guard()
    except EngineError as error:
        sys.exit(f"refused: {error}")
    run()


if __name__ == "__main__":
    main()
