"""Seconds of a run by stage, which add up to the total."""

from __future__ import annotations

from collections.abc import Mapping


def stage_seconds(
    coordinator: Mapping[str, float], *, prepare: float, engine: float, analysis: float, report: float | None = None
) -> dict[str, float]:
    """Every stage once, in milliseconds' precision, and their sum as "total".

    Parameters
    ----------
    coordinator : the stages that the coordinator timed itself; they happen while the engine runs.
    engine : from the engine's start to its end; what no stage of the coordinator's counts stays under this name: nodes
        that start and end, and what the coordinator does between its stages.
    report : None while it is not drawn yet.

    >>> stage_seconds({"train": 2.0, "vote": 1.5}, prepare=1.0, engine=4.0, analysis=0.5)
    {'prepare': 1.0, 'train': 2.0, 'vote': 1.5, 'engine': 0.5, 'analysis': 0.5, 'total': 5.5}
    """
    stages = {"prepare": prepare, **coordinator, "engine": engine - sum(coordinator.values()), "analysis": analysis}
    if report is not None:
        stages["report"] = report
    rounded = {stage: round(seconds, 3) for stage, seconds in stages.items()}
    return {**rounded, "total": round(sum(rounded.values()), 3)}
