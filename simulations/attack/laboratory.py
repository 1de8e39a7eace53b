"""All attacks on one federation, as plain values: what `attack.json` holds, and the report's chapter is drawn from."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from consilium.protocol.errors import ConfigError
from consilium.protocol.label_source import Progress, no_progress
from consilium.report.disclosure import epsilon_text
from consilium.simulations.attack.attributes import guessed_attributes
from consilium.simulations.attack.differences import differences
from consilium.simulations.attack.faults import look_for_faults
from consilium.simulations.attack.liars import poisoned_students
from consilium.simulations.attack.membership import ERROR, asked_rows, membership
from consilium.simulations.attack.repeats import recovered_votes
from consilium.simulations.attack.shadows import Shadows, check_playable
from consilium.simulations.divide import Case

FORMAT = 1
PARTS = ("faults", "votes", "differences", "attributes", "liars", "membership")
"""What `--only` takes."""
MINUTES = 10.0
"""Of one processor, by default."""
_GAMES, _FEWEST = 4000, 400
"""Of an attack that trains nothing: in so many minutes or more; and however short the time."""


def attacked(
    case: Case,
    name: str,
    only: Sequence[str] = (),
    minutes: float = MINUTES,
    seed: int = 0,
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Play the parts that are asked for, all by default, in about so many minutes of one processor. Secret.

    name : of the scenario. seed : of whatever the attackers draw; the federation has its own.

    Raises
    ------
    ConfigError : no such part; too little time; a federation on which attacks are not played. What `replay` raises.
    """
    for part in only:
        if part not in PARTS:
            raise ConfigError(f"there is no attack {part!r}", f"--only takes {', '.join(PARTS)}")
    if not 0 < minutes < float("inf"):
        raise ConfigError(
            f"--budget is {minutes}, it must be a number of minutes above 0", "Give, for example, --budget 10"
        )
    check_playable(case)
    began, parts, config = time.process_time(), tuple(only) or PARTS, case.config
    everything = Shadows(case, np.arange(len(case.pool_x)), seed, halves=0)
    rows = asked_rows(everything)
    values: dict[str, Any] = {
        "format": FORMAT,
        "scenario": name,
        "seed": case.seed,
        "attack_seed": seed,
        "federation": config.name,
        "mechanism": config.describe(),
        "release": config.disclosure.release.value,
        "collection": config.collection,
        "delta": config.privacy.delta,
        "unit": config.privacy.unit.value,
        "neighbouring": config.privacy.neighbouring.value,
        "party_label": case.dataset.owner_label,
        "parties": len(case.parties),
        "queries": len(rows),
        "error": ERROR,
    }
    if "faults" in parts:
        values["faults"] = [finding.to_json() for finding in look_for_faults(everything, progress)]
    if "votes" in parts:
        values["votes"] = [one.to_json() for one in recovered_votes(everything)]
    if "differences" in parts:
        values["differences"] = [one.to_json() for one in differences(everything)]
    if "attributes" in parts:
        values["attributes"] = [one.to_json() for one in guessed_attributes(everything, rows)]
    if "liars" in parts:
        values["liars"] = [one.to_json() for one in poisoned_students(everything, rows)]
    if "membership" in parts:
        shadows = Shadows(case, rows, seed, progress=progress)
        left = max(60 * minutes - (time.process_time() - began), 1.0)
        games = max(int(_GAMES * min(minutes / MINUTES, 1)), _FEWEST)
        played = membership(shadows, everything, left, games, progress)
        values["membership"] = [one.to_json() for one in played]
    return {**values, "seconds": round(time.process_time() - began, 1)}


def broken(values: dict[str, Any]) -> list[str]:
    """What was refuted or found, in a sentence each; empty where nothing was."""
    mistakes = [f"{one['fault']}: {one['evidence']}" for one in values.get("faults", []) if one["state"] == "found"]
    refuted = [
        f"{one['observer']}, {one['target']} {one['unit']}: epsilon is at least {one['epsilon_at_least']:.3f}"
        f" (Gaussian {one['epsilon_at_least_gaussian'] or 0:.3f}), {epsilon_text(one['epsilon_promised'])} is promised"
        for one in values.get("membership", [])
        if one["broken"]
    ]
    alone = [
        f"{one['rule']}: a party's vote came out of {one['read']} of {one['histories']} searches"
        for one in values.get("differences", [])
        if one["read"] and not one["control"] and not one["deviation"]
    ]
    return mistakes + refuted + alone
