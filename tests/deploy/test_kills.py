"""`kill -9` of each process of a masked federation while each stage of a sum is on: every label is given once and
charged by every party, `status` is right within seconds, and nobody's hand is needed."""

from __future__ import annotations

from pathlib import Path

import pytest

from consilium.party.store import Store
from tests.deploy.processes import LAST, Federation, running
from tests.deploy.site import NOISY, PARTIES, make_site

pytestmark = [pytest.mark.deploy, pytest.mark.slow, pytest.mark.proofs, pytest.mark.timeout(3000)]
WARDS = (*PARTIES, "ward-d")
KILLS = [
    ("coordinator", ""),
    ("coordinator", "deploy.serving"),
    ("ward-a", ""),
    ("ward-b", "node.supernode"),
    ("ward-c", "node.apps"),
    ("ward-d", LAST),
    ("student", ""),
    ("coordinator", "deploy.serving"),
    ("coordinator", ""),
    ("ward-a", "node.supernode"),
]
"""Whom, and what is in the command line of the process; none: the one that systemd watches."""


def all_take_part(federation: Federation) -> bool:
    return all(words.startswith("takes part, connected") for words in federation.status()["parties"].values())


def test_ten_kills(tmp_path: Path) -> None:
    site = make_site(tmp_path, WARDS, minimum_parties=3, **NOISY)
    with running(site, ["coordinator", *WARDS]) as federation:
        federation.serving()
        stages = federation.stages(lambda: federation.asked("student-0", 0))
        assert len(stages) >= 5, stages
        for number, (node, text) in enumerate(KILLS, 1):
            stage, name = stages[number % len(stages)], f"student-{number}"
            begun = federation.begun(stage)
            student = federation.asks(name, 8 * number)
            federation.wait(lambda begun=begun, stage=stage: federation.begun(stage) > begun, f"{stage} of {name}")
            if node == "student":
                student.kill()
                student.wait()
                student = federation.asks(name, 8 * number, 8, "--resume")
            else:
                federation[node].kill(text)
            assert federation.answer(student)["asked"] == 8, (node, text, stage)
            federation.wait(lambda: all_take_part(federation), f"all are back after {node} {text}")
        federation.close(*(f"student-{number}" for number in range(len(KILLS) + 1)))
    labels = federation.labels()
    assert len(labels) == len(set(labels)) == 8 * (len(KILLS) + 1)
    charged = [Store(site / name / "state" / "party.db").answered() for name in WARDS]
    assert min(charged) >= 8 * len(KILLS)  # at most one sum went on without a party that was killed
