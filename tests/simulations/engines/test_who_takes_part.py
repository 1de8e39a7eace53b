"""Who takes part in a simulation does not follow from time, and whoever is left out is named."""

from __future__ import annotations

from pathlib import Path

import pytest
from flwr.app import Error, Message

from consilium.coordinator.collection.exchange import FlowerTransport
from consilium.coordinator.parts import Timeouts
from consilium.protocol.errors import EngineError
from consilium.simulations.audit import audit_path
from consilium.simulations.divide import divide
from consilium.simulations.engines.block import blocks_of
from consilium.simulations.engines.block_server import MEETINGS, BlockTransport
from consilium.simulations.engines.flower import COORDINATOR_NODE
from consilium.simulations.run import run_scenario
from consilium.simulations.scenario import load_scenario
from tests.federation import make_homes
from tests.simulations.engines.test_blocks import PARTIES, BlockGrid, block_up
from tests.simulations.engines.test_engines_agree import quiet

TINY = [f"federation.timeouts.{stage}=1e-9" for stage in ("enrol", "train", "vote", "secure")]
SMALL = [
    "data.least_rows=150",
    "federation.minimum_parties=5",
    "federation.query_budget={queries=20, answers=20}",
    "federation.mechanism={name='histogram', sigma=20}",
    "simulation.hand_labels=none",
]


@pytest.mark.slow
def test_no_time_limit_leaves_a_party_out(tmp_path: Path) -> None:
    scenario = load_scenario("stroke", [*SMALL, *TINY])
    parties = len(divide(scenario, 3).parties)
    summary = run_scenario("stroke", scenario, "local", 3, tmp_path / "run", quiet)
    assert summary["parties"] == parties > 10
    assert "parties_absent" not in summary
    assert [finding for finding in audit_path(tmp_path / "run").findings if not finding.holds] == []


def test_only_stages_in_which_parties_are_waited_for_are_without_limit() -> None:
    patient, limits = Timeouts(train=1.0).patient(), Timeouts()
    assert min(patient.enrol, patient.train, patient.vote, patient.secure) > 10 * 86_400
    assert (patient.join, patient.student) == (limits.join, limits.student)


@pytest.mark.parametrize("deaths", [1, MEETINGS - 1, MEETINGS])
def test_a_block_whose_node_dies_before_it_said_who_is_in_it(tmp_path: Path, deaths: int) -> None:
    """It is asked again; its parties are never missing without a word."""
    count = len(block_up(make_homes(tmp_path / "homes", PARTIES), tmp_path / "blocks"))
    died: list[int] = []

    def spoil(node: int, reply: Message, turn: int) -> Message:
        if node == COORDINATOR_NODE + 1 and len(died) < deaths:
            died.append(node)
            spoiled = Message(Error(code=8, reason="worker process died"), reply_to=reply)
            spoiled.metadata.__dict__["_reply_to_message_id"] = reply.metadata.reply_to_message_id
            return spoiled
        return reply

    transport = BlockTransport(FlowerTransport(BlockGrid(tmp_path / "blocks", count, spoil)))
    if deaths == MEETINGS:
        with pytest.raises(EngineError, match="1 nodes do not say which parties they answer for: node crashed"):
            transport.nodes()
        return
    assert len(transport.nodes()) == PARTIES == sum(len(places) for places in blocks_of(PARTIES))
