"""What doctor says of a kit, and what a start that is refused says."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import consilium.aggregator.deploy.doctor
import consilium.coordinator.deploy.doctor
import consilium.party.deploy.doctor
from consilium.protocol.errors import ConsiliumError
from consilium.protocol.node.checks import Check, CheckResult, examine
from consilium.protocol.node.kit import open_kit

Spoil = Callable[[Path], object]
DOCTORS: dict[str, Callable[..., list[Check]]] = {
    "coordinator": consilium.coordinator.deploy.doctor.checks,
    "party": consilium.party.deploy.doctor.checks,
    "aggregator": consilium.aggregator.deploy.doctor.checks,
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
