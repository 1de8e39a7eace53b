"""A run in few lines, for the terminal: what came of it, the student beside what it is compared with, the guarantee."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any

from consilium.accounting.units import Unit
from consilium.protocol.releases import ReleaseKind
from consilium.report.exhibits import ALL_BUT_FIRST, Cell, Exhibit, PagePart, Table, TableLine, as_text, without_blanks
from consilium.report.words import PRIVATE_GRADIENT, STUDENT, many, value_text
from consilium.simulations.council.statement import PrivacyStatement
from consilium.simulations.report import guarantees
from consilium.simulations.report.models import ABOVE, METRICS, finding, models_of


def verdict(privacy: PrivacyStatement, parties: int) -> str:
    """The report's verdict in few words, of all fits on these owners together."""
    epsilon, delta = privacy.epsilon_of_all_fits, privacy.delta_of_all_fits
    level, _ = guarantees.verdict(epsilon, delta, parties, unit=Unit(privacy.unit))
    protection = f"{'no' if level == 'none' else level} protection"
    return protection if privacy.protects else f"{protection} with real noise; here it came from a seed"


def terminal(summary: Mapping[str, Any], width: int = 0) -> str:
    """Lines of one run for the terminal of whoever ran it, with what is secret. width: in columns; 0: do not wrap."""
    privacy = PrivacyStatement.of(summary["privacy"])
    exhibits = [_models(summary), _guarantee(summary, privacy)]
    short = "\n".join(textwrap.fill(words, width) if width else words for words in in_short(summary))
    return f"{short}\n\n{as_text([PagePart('run', '', without_blanks(exhibits))], width)}"


def in_short(summary: Mapping[str, Any]) -> tuple[str, ...]:
    """What came of a run, good or bad; then what labels reach."""
    student = summary["student"] or {}
    return finding(
        student,
        summary["baselines"],
        summary["worth"],
        summary["labels_alone"],
        summary["warnings"],
        len(student.get("rate") or {}),
    )


def afterwards(summary: Mapping[str, Any]) -> list[str]:
    """What whoever ran it should know or do next, a line each."""
    lines, owners = list[str](), summary.get("public_owners")
    if owners:
        lines.append(
            f"{owners['count']} of your {many(owners['of'], owners['word'])} were made public: their rows were asked"
            " and judge the student, and nothing protects the people in them."
        )
    if summary.get("holds_public_rows"):
        lines.append(
            "The student's file holds rows of these people: give it to nobody who may not have them. One of numbers"
            " alone: --set student.trainer.name=logistic_regression"
        )
    rival = (summary.get("baselines", {}).get("private_gradient") or {}).get(ABOVE)
    if rival and rival["interval"][0] > 0:
        lines.append(
            f"`consilium study model SCENARIO --out FOLDER` saves a model of {PRIVATE_GRADIENT}, which does better here"
        )
    if summary["privacy"]["noise"] == "seeded":
        lines.append("For noise that protects, run it with --set simulation.noise=system")
    return lines


def _guarantee(summary: Mapping[str, Any], privacy: PrivacyStatement) -> Exhibit:
    """Who voted on what, what was released, and what that promises."""
    parties, teachers = many(summary["parties"], "party"), many(summary["teachers"], "teacher")
    with_teachers = "" if summary["teachers"] == summary["parties"] else f" ({teachers})"
    voted = f"{parties}{with_teachers} voted on {many(summary['queries']['asked'], 'public row')}. {_released(summary)}"
    return Exhibit("guarantee", f"Privacy: {verdict(privacy, summary['parties'])}", (voted,), items=(*privacy.lines(),))


def _released(summary: Mapping[str, Any]) -> str:
    """What left, and how much of it was right."""
    queries, release = summary["queries"], ReleaseKind(summary["release"])
    total, answered, confirmed = queries["asked"], queries["answered"], queries.get("reinforced", 0)
    text = f"{many(answered, release.noun)} {'was' if answered == 1 else 'were'} released"
    right = summary["privacy"].get("released_label_accuracy")
    if right is not None and release is ReleaseKind.COUNTS:
        text += f"; the largest count was that of the true class in {right:.0%} of them"
    elif right is not None:
        text += f", {right:.0%} of them right"
    if confirmed:
        text += f"; {many(confirmed, 'label')} of the {STUDENT} {'was' if confirmed == 1 else 'were'} confirmed"
    if silent := total - answered - confirmed:
        text += f"; {many(silent, 'row')} got none"
    return f"{text}."


def _models(summary: Mapping[str, Any]) -> Exhibit | None:
    """From one party alone over the student and its rivals to pooled, each by what it is called."""
    models = models_of(summary["student"], summary["baselines"], summary["worth"], summary["labels_alone"])
    shown = [metric for metric in METRICS if any(of.get(metric) is not None for of in models.values())]
    lines = tuple(
        TableLine(label, tuple(Cell(value_text(of.get(metric))) for metric in shown)) for label, of in models.items()
    )
    table = Table(("", *(METRICS[metric] for metric in shown)), lines, ALL_BUT_FIRST)
    return Exhibit("models", "On public test rows", table=table, secret=True) if shown else None
