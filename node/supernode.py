"""A node's SuperNode, with which it connects to the coordinator."""

from __future__ import annotations

from consilium.node.apps import write_programs
from consilium.node.flower import command, flower_environment, free_port
from consilium.node.folder import NodeFolder
from consilium.node.keys import NODE_KEY
from consilium.node.supervisor import Program


def supernode(folder: NodeFolder, address: str, app: str) -> Program:
    """The SuperNode of a node. address: host:port of the coordinator. app: see `write_programs`.

    It listens on loopback, at a port that is free now, and serves nobody but this user (see `node.flower`).
    """
    return Program(
        name="supernode",
        command=[
            *command("flower-supernode"), "--root-certificates", str(folder.authority), "--superlink", address,
            "--auth-supernode-private-key", str(folder.keys / NODE_KEY), "--host", "127.0.0.1", "--port",
            str(free_port()), "--node-config", f'folder="{folder.path}"',
        ],
        folder=folder.state,
        environment=flower_environment(folder.state / "flower", write_programs(folder.state / "programs", app)),
    )  # fmt: skip
