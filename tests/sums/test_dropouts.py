"""Parties that drop out: at each stage, exactly as many as may, and one more."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from consilium.sums.errors import StageOrder, ThresholdNotMet
from consilium.sums.secure.machine import drive
from consilium.sums.secure.messages import STAGES, Stage
from tests.sums.network import Federation, Network, run_until

UP_TO_MASKED = STAGES[: STAGES.index(Stage.MASKED) + 1]
AFTER_MASKED = STAGES[STAGES.index(Stage.MASKED) + 1 :]


@pytest.mark.parametrize("way", ["lost", "mute"])
@pytest.mark.parametrize("stage", UP_TO_MASKED)
def test_who_drops_up_to_the_masked_stage_is_not_in_the_sum(tmp_path: Path, stage: Stage, way: str) -> None:
    federation = Federation(tmp_path, 10)
    gone = federation.names[3]
    result = drive(federation.machine(), Network(federation, **{way: {stage: [gone]}}).send)
    assert set(result.survivors) == set(federation.names) - {gone}
    assert np.array_equal(result.sums, federation.total(result.survivors))
    assert result.dropped == {stage: {gone: "no answer"}}


@pytest.mark.parametrize("stage", AFTER_MASKED)
def test_who_drops_after_the_masked_stage_is_still_counted(tmp_path: Path, stage: Stage) -> None:
    federation = Federation(tmp_path, 10)
    gone = federation.names[3]
    result = drive(federation.machine(), Network(federation, lost={stage: [gone]}).send)
    assert result.survivors == tuple(federation.names)
    assert np.array_equal(result.sums, federation.total(federation.names))
    assert result.dropped == {stage: {gone: "no answer"}}


@pytest.mark.parametrize("stage", STAGES)
def test_exactly_t_are_enough(tmp_path: Path, stage: Stage) -> None:
    federation = Federation(tmp_path, 10)
    assert federation.roster.t == federation.roster.least == 7
    result = drive(federation.machine(), Network(federation, lost={stage: federation.names[7:]}).send)
    assert np.array_equal(result.sums, federation.total(result.survivors))


@pytest.mark.parametrize("stage", STAGES)
def test_one_less_than_t_gives_nothing(tmp_path: Path, stage: Stage) -> None:
    federation = Federation(tmp_path, 10)
    machine = federation.machine()
    with pytest.raises(ThresholdNotMet) as caught:
        drive(machine, Network(federation, lost={stage: federation.names[6:]}).send)
    error = caught.value
    assert (error.stage, error.have, error.need, list(error.missing)) == (stage, 6, 7, federation.names[6:])
    assert error.exit_code == 11
    assert machine.stage is stage
    with pytest.raises(StageOrder):
        machine.result()


@pytest.mark.parametrize("stage", UP_TO_MASKED)
def test_least_above_t_is_enforced_until_the_set_is_fixed(tmp_path: Path, stage: Stage) -> None:
    federation = Federation(tmp_path, 10, least_survivors=9)
    with pytest.raises(ThresholdNotMet) as caught:
        drive(federation.machine(), Network(federation, lost={stage: federation.names[8:]}).send)
    assert (caught.value.have, caught.value.need) == (8, 9)


@pytest.mark.parametrize("stage", AFTER_MASKED)
def test_t_are_enough_once_the_set_is_fixed(tmp_path: Path, stage: Stage) -> None:
    federation = Federation(tmp_path, 10, least_survivors=9)
    result = drive(federation.machine(), Network(federation, lost={stage: federation.names[7:]}).send)
    assert np.array_equal(result.sums, federation.total(federation.names))


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_that_failed_can_be_sent_again(tmp_path: Path, stage: Stage) -> None:
    """Replies that come too late count when the same stage is sent again; nobody is asked twice for what is there."""
    federation = Federation(tmp_path, 10)
    network = Network(federation, late={stage: federation.names[6:]})
    machine = run_until(federation, stage, network)
    with pytest.raises(ThresholdNotMet):
        machine.take(network.send(stage, machine.requests()))
    assert sorted(machine.requests()) == federation.names[6:]
    result = drive(machine, network.send)
    assert np.array_equal(result.sums, federation.total(federation.names))
    assert result.dropped == {}


def test_only_invited_parties_are_asked(tmp_path: Path) -> None:
    federation = Federation(tmp_path, 10)
    machine = federation.machine(invited=federation.names[1:9])
    assert sorted(machine.requests()) == federation.names[1:9]
    result = drive(machine, Network(federation).send)
    assert result.survivors == tuple(federation.names[1:9])
    assert np.array_equal(result.sums, federation.total(result.survivors))
