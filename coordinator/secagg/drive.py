"""All stages in order, over any transport."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from consilium.coordinator.secagg.machine import Aggregation, SecureSum, StageReport
from consilium.protocol.parties.messages import WireModel
from consilium.protocol.secagg.messages import SecAggMessage
from consilium.protocol.secagg.stages import Stage

Send = Callable[[Stage, Mapping[str, SecAggMessage]], Mapping[str, WireModel | str]]
"""Stage and request by party -> reply, or reason of failure, by party. It parses replies as `REPLIES[stage]`."""


def drive(
    machine: Aggregation,
    send: Send,
    *,
    path: Path | None = None,
    progress: Callable[[StageReport], None] = lambda report: None,
) -> SecureSum:
    """Run the stages that are left.

    Parameters
    ----------
    path : where the state is saved before each stage's requests leave and after its replies are in, so that
        `Aggregation.load` can go on after a crash; None: nowhere.
    progress : told after each stage who is in and who dropped.

    Raises
    ------
    ThresholdNotMet, BadShare, BadSum : see `Aggregation.take`.
    """
    while machine.stage is not None:
        if path is not None:
            machine.save(path)
        replies = send(machine.stage, machine.requests())
        try:
            report = machine.take(replies)
        finally:
            if path is not None:
                machine.save(path)
        progress(report)
    return machine.result()
