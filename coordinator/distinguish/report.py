"""The outcome of an audit for people and for programs."""

from __future__ import annotations

import math
from typing import Any

from rich.console import Console
from rich.table import Table

from consilium.accounting.units import Neighbouring
from consilium.coordinator.distinguish.audit import MechanismAudit
from consilium.coordinator.distinguish.regions import Measured


def _number(value: float) -> str:
    return "none" if math.isinf(value) else f"{value:.4f}"


def _unit(audit: MechanismAudit) -> str:
    setup = audit.setup
    k, moved = setup.teachers_per_party, setup.moved
    done = "replaced" if setup.neighbouring is Neighbouring.REPLACE else "added or removed"
    votes = f"{moved} vote{'s move' if moved > 1 else ' moves'}"
    return f"a {setup.unit}, {done} ({k} teacher{'s' if k > 1 else ''} in a party; {votes})"


def verdict(audit: MechanismAudit) -> str:
    """One sentence that says what was and what was not shown."""
    result, headline = audit.headline
    sure = f"confidence {audit.setup.confidence:g}"
    if audit.violated:
        return (
            f"VIOLATED: epsilon is at least {headline.lower:.4f} at delta {headline.delta:g} ({sure}), "
            f"but {headline.claimed:.4f} is claimed. Votes: {result.pair}."
        )
    if math.isinf(headline.claimed):
        return f"No epsilon is claimed at delta {headline.delta:g}; it is at least {headline.lower:.4f} ({sure})."
    return (
        f"Holds up: epsilon is at least {headline.lower:.4f} at delta {headline.delta:g} ({sure}), within the "
        f"{headline.claimed:.4f} claimed. That is no proof that the claim is true."
    )


def print_audit(audit: MechanismAudit, console: Console, noise: str) -> None:
    """The table of pairs, how it was played and with which noise, and the verdict."""
    setup = audit.setup
    console.print(f"{audit.mechanism}. Unit: {_unit(audit)}. Claim: {audit.claim_source}.")
    table = Table("pair of neighbouring votes", "answers", "delta", "claimed", "at least", "seen by", "", box=None)
    for result in audit.results:
        for index, measured in enumerate(result.measured):
            name, cap = (result.pair, str(result.answered_cap)) if index == 0 else ("", "")
            word = "VIOLATED" if measured.violated else "no claim" if math.isinf(measured.claimed) else "holds up"
            row = (f"{measured.delta:g}", _number(measured.claimed), f"{measured.lower:.4f}", measured.statistic, word)
            table.add_row(name, cap, *row)
    console.print(table)
    console.print(
        f"{setup.queries} queries a run; {audit.tried} pairs tried on {setup.scouting_runs} runs of each side, the"
        f" worst {len(audit.results)} measured on {setup.runs}; {noise}; {audit.seconds:.1f} s."
    )
    console.print(f"A true claim is refuted with probability at most {1 - setup.confidence:.2g}.")
    console.print(verdict(audit))


def audit_to_json(audit: MechanismAudit, noise: str) -> dict[str, Any]:
    """The same as plain values; null where nothing is claimed."""
    setup = audit.setup
    _, headline = audit.headline
    return {
        "mechanism": audit.mechanism,
        "claim_source": audit.claim_source,
        "violated": audit.violated,
        "verdict": verdict(audit),
        "epsilon_at_least": headline.lower,
        "epsilon_claimed": _finite(headline.claimed),
        "delta": headline.delta,
        "confidence": setup.confidence,
        "false_alarm_rate_at_most": round(1 - setup.confidence, 12),
        "unit": setup.unit.value,
        "neighbouring": setup.neighbouring.value,
        "teachers_per_party": setup.teachers_per_party,
        "queries": setup.queries,
        "runs": setup.runs,
        "noise": noise,
        "simulated_noise": audit.simulated,
        "pairs_tried": audit.tried,
        "pairs": [
            {
                "pair": result.pair,
                "answered_cap": result.answered_cap,
                "bounds": [_bound(measured) for measured in result.measured],
            }
            for result in audit.results
        ],
        "seconds": audit.seconds,
    }


def _bound(measured: Measured) -> dict[str, Any]:
    return {
        "delta": measured.delta,
        "epsilon_claimed": _finite(measured.claimed),
        "epsilon_at_least": measured.lower,
        "statistic": measured.statistic,
        "violated": measured.violated,
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
