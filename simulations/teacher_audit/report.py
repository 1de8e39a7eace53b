"""The outcome of an audit of teachers for people and for programs. It counts private rows and votes: for the party."""

from __future__ import annotations

from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from consilium.coordinator.distinguish import report as game_report
from consilium.simulations.teacher_audit.audit import TeacherAudit

LOCAL_ONLY = "LOCAL ONLY: what follows is computed from private rows and covered by no guarantee. Send it to nobody."


def verdict(audit: TeacherAudit) -> str:
    """One sentence that says what was and what was not shown."""
    what = f"{audit.plan.unit}"
    if audit.beyond:
        return (
            f"VIOLATED: one changed {what} moved {audit.most_moved} votes on a query, at most {audit.claimed} are "
            f"claimed; {audit.beyond} of {len(audit.changes)} changes moved more."
        )
    if audit.violated and audit.game is not None:
        return game_report.verdict(audit.game)
    return (
        f"Holds up: no changed {what} of {len(audit.changes)} moved more than {audit.most_moved} of the "
        f"{audit.claimed} votes claimed. That is no proof that none can."
    )


def print_audit(audit: TeacherAudit, console: Console, noise: str) -> None:
    """How many votes moved, the game on the worst change, and the verdict."""
    plan = audit.plan
    console.print(LOCAL_ONLY)
    console.print(
        f"{audit.teachers} teachers, {audit.units} {plan.unit}s, {audit.asked} queries; {len(audit.changes)} changes by"
        f" {plan.neighbouring}, {audit.seconds:.1f} s. Claim: {audit.claimed} of {audit.teachers} votes a query."
    )
    table = Table("votes moved at most", "changes", "teachers that vote otherwise, at most", box=None)
    most = np.array([int(change.moved.max(initial=0)) for change in audit.changes])
    for value in np.unique(most):
        these = [change.teachers for change, moved in zip(audit.changes, most, strict=True) if moved == value]
        table.add_row(str(value), str(len(these)), str(max(these)))
    console.print(table)
    if audit.game is None:
        console.print("No game was played: no vote moved, or there is none for this mechanism.")
    else:
        game_report.print_audit(audit.game, console, noise)
    console.print(verdict(audit))


def audit_to_json(audit: TeacherAudit, noise: str) -> dict[str, Any]:
    """The same as plain values; `game` is null where none was played."""
    plan = audit.plan
    return {
        "violated": audit.violated,
        "verdict": verdict(audit),
        "unit": plan.unit.value,
        "neighbouring": plan.neighbouring.value,
        "teachers_per_party": audit.teachers,
        "units": audit.units,
        "queries": audit.asked,
        "changes": len(audit.changes),
        "votes_moved_claimed": audit.claimed,
        "votes_moved_most": audit.most_moved,
        "teachers_changed_most": audit.most_teachers,
        "changes_beyond_the_claim": audit.beyond,
        "game": None if audit.game is None else game_report.audit_to_json(audit.game, noise),
        "seconds": audit.seconds,
    }
