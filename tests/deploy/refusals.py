"""What doctor says of a kit, and what a start that is refused says."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import consilium.coordinator.deploy.doctor
from consilium.aggregator.deployed import AGGREGATOR
from consilium.coordinator.provision.authority import Authority
from consilium.node.checks import Check, CheckResult, examine
from consilium.node.kit import open_kit
from consilium.party.deployed import PARTY
from consilium.protocol.errors import ConsiliumError

Spoil = Callable[[Path], object]
DOCTORS: dict[str, Callable[..., list[Check]]] = {
    "coordinator": consilium.coordinator.deploy.doctor.checks,
    "party": PARTY.checks,
    "aggregator": AGGREGATOR.checks,
}


def found_by_doctor(kit: Path, name: str) -> CheckResult:
    node = open_kit(kit)
    checks = DOCTORS[node.kind](node, running=False)
    return next(found for found in examine(checks) if found.name == name)


def said_by_start(kit: Path, start: Callable[..., object]) -> tuple[str, str]:
    """Of a start that is refused: what is wrong, and what to do."""
    with pytest.raises(ConsiliumError) as refused:
        start(open_kit(kit), lambda *_: None, threading.Event())
    return refused.value.what, refused.value.action


def replaced(kit: Path, name: str, content: bytes) -> None:
    """A file that is not what it should be, in a kit that was not signed: else the signature says so first."""
    (kit / name).unlink()
    (kit / name).write_bytes(content)


def other_key(kit: Path) -> None:
    """Its TLS key is not the one of its certificate."""
    (kit / "server.key").unlink()
    Authority.create("other").server(["127.0.0.1"]).save(kit, "server2")
    (kit / "server2.key").rename(kit / "server.key")


def other_authority(kit: Path) -> None:
    """Its certificate is signed by an authority that no node of the federation knows."""
    for stem in ("server.key", "server.crt"):
        (kit / stem).unlink()
    Authority.create("other").server(["127.0.0.1"]).save(kit, "server")


def fewer_nodes(kit: Path) -> None:
    """Only one party may connect."""
    nodes = json.loads((kit / "nodes.json").read_text())["nodes"]
    replaced(kit, "nodes.json", json.dumps({"nodes": {"ward-a": nodes["ward-a"]}}).encode())
