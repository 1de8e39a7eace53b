"""Damaged messages of all kinds against parties and coordinator: none accepted, and the federation comes to its end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.hostile import attack


@pytest.mark.fuzz
@pytest.mark.parametrize("votes", ["plaintext", "secure"])
def test_damaged_messages_are_refused_and_the_federation_goes_on(tmp_path: Path, votes: str) -> None:
    transport = attack(tmp_path, votes, copies=40)
    assert transport.accepted == {}
    assert transport.sent["party"] >= 40 * 4 * (3 if votes == "plaintext" else 7)
    summary = json.loads((tmp_path / "coordinator.json").read_text())
    assert (summary["asked"], summary["answered"]) == (20, 20)
