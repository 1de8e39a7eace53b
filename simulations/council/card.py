"""A run in few lines: guarantee, student, yardsticks, as exhibits for a terminal and for the picture in a notebook.

Notebooks are passed on, so that their picture has what may be published alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from consilium.protocol.releases import ReleaseKind
from consilium.protocol.strict_json import is_infinite, number
from consilium.report.disclosure import epsilon_text
from consilium.report.exhibits import Cell, Exhibit, PagePart, Table, TableLine, as_text, published, without_blanks
from consilium.report.page import fragment
from consilium.report.words import many, share_text
from consilium.simulations.council.statement import PrivacyStatement
from consilium.simulations.report import meaning
from consilium.simulations.report.models import METRICS, RIVALS, hand_label_rows, worth_sentence
from consilium.student.card import spread_sentence

_STYLE = (
    "border:1px solid #8886;border-radius:6px;padding:.8em 1em;max-width:42em;font-family:sans-serif;line-height:1.4"
)
_PRIVATE = {
    "mean_teacher": "one party alone, in the mean",
    **RIVALS,
    "plurality": "plurality, no noise",
    "pooled": "all rows in one place, not private",
}
"""Yardsticks that take private rows."""


def verdict(privacy: PrivacyStatement, parties: int) -> str:
    """The report's verdict in few words, of all fits on these owners together."""
    level = meaning.verdict(privacy.epsilon_of_all_fits, privacy.delta_of_all_fits, parties, unit=privacy.unit).level
    protection = f"{'no' if level == 'none' else level} protection"
    return protection if privacy.protects else f"simulation with seeded noise; with real noise: {protection}"


def shown_models(summary: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The student and what it may be compared with in public: by public rows alone. Name -> metrics.

    The majority class is that of the public test rows; the run's own yardstick of that name is of the private ones.
    """
    student, by_hand = summary["student"] or {}, dict(hand_label_rows(summary["worth"]))
    rates = (student.get("rate") or {}).values()
    majority = {"majority class": {"accuracy": max(rates), "auc": 0.5 if len(rates) == 2 else None}} if rates else {}
    return {"student": student, **by_hand, **majority}


def run_in_few_lines(summary: Mapping[str, Any], privacy: PrivacyStatement) -> PagePart:
    """What came of a run. summary: of summary.json; privacy: of its block `privacy`."""
    exhibits = [
        _guarantee(summary, privacy),
        _spent(summary["privacy"]),
        _models("models", "On the public test rows", shown_models(summary)),
        Exhibit("noise-spread", words=(spread,)) if (spread := spread_sentence(summary.get("noise_spread"))) else None,
        _models("private", "Beside models of private rows", _private_models(summary), secret=True),
        _worth(summary, privacy),
    ]
    return PagePart("run", "", without_blanks(exhibits))


def card(summary: Mapping[str, Any], privacy: PrivacyStatement) -> str:
    """HTML of one run, of what may be published."""
    exhibits = [item for part in published([run_in_few_lines(summary, privacy)]) for item in part.exhibits]
    return f'<div style="{_STYLE}">{fragment(exhibits)}</div>'


def terminal(summary: Mapping[str, Any]) -> str:
    """Lines of one run for the terminal of whoever ran it, with what is secret."""
    privacy = PrivacyStatement.of(summary["privacy"])
    exhibits = [
        _guarantee(summary, privacy),
        _models("models", "How good it is, on public test rows", _all_models(summary), secret=True),
        Exhibit("gap", words=gap) if (gap := _gap(summary)) else None,
        _worth(summary, privacy),
    ]
    return as_text([PagePart("run", "", without_blanks(exhibits))])


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
    if summary["privacy"]["noise"] == "seeded":
        lines.append("For noise that protects, run it with --set simulation.noise=system")
    return lines


def _all_models(summary: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """From one party alone over the student and its rivals to all rows in one place, each with its word."""
    models = _private_models(summary) | shown_models(summary)
    by_hand = [name for name, _ in hand_label_rows(summary["worth"])]
    names = ("majority class", _PRIVATE["mean_teacher"], *by_hand, "student", *RIVALS.values())
    order = (*names, _PRIVATE["plurality"], _PRIVATE["pooled"])
    return {name: models[name] for name in order if models.get(name)}


def _gap(summary: Mapping[str, Any]) -> tuple[str, ...]:
    """How far the student comes from one party alone to all rows in one place; nothing where that is no way up."""
    baselines, student = summary["baselines"], summary["student"] or {}
    for metric in reversed(METRICS):
        alone, student_has, pooled = (
            (models or {}).get(metric) for models in (baselines.get("mean_teacher"), student, baselines.get("pooled"))
        )
        if alone is not None and student_has is not None and pooled is not None and pooled > alone:
            share = (student_has - alone) / (pooled - alone)
            if share < 0:
                return (f"By {METRICS[metric]} the student is below one party alone, in the mean.",)
            whole = "all rows in one place"
            return (f"By {METRICS[metric]} the student goes {share:.0%} of the way from one party alone to {whole}.",)
    return ()


def _guarantee(summary: Mapping[str, Any], privacy: PrivacyStatement) -> Exhibit:
    """Who voted on what, what was released, and what that promises."""
    queries, release = summary["queries"], ReleaseKind(summary["release"])
    right = summary["privacy"].get("released_label_accuracy")
    released = (
        f"{many(summary['parties'], 'party')} ({many(summary['teachers'], 'teacher')}) voted on"
        f" {many(queries['asked'], 'public row')}; {many(queries['answered'], release.noun)}"
        f" {'was' if queries['answered'] == 1 else 'were'} released ({share_text(right)} of them right)."
    )
    return Exhibit("guarantee", verdict(privacy, summary["parties"]), (released,), items=tuple(privacy.lines()))


def _worth(summary: Mapping[str, Any], privacy: PrivacyStatement) -> Exhibit | None:
    worth, noun = summary["worth"], ReleaseKind(summary["release"]).noun
    return Exhibit("worth", words=(worth_sentence(worth, epsilon_text(privacy.epsilon), noun),)) if worth else None


def _private_models(summary: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    baselines = summary["baselines"]
    return {label: baselines[name] for name, label in _PRIVATE.items() if baselines.get(name)}


def _models(name: str, title: str, models: Mapping[str, Mapping[str, Any]], secret: bool = False) -> Exhibit | None:
    shown = [metric for metric in METRICS if any(metrics.get(metric) is not None for metrics in models.values())]
    lines = tuple(
        TableLine(label, tuple(Cell(share_text(metrics.get(metric))) for metric in shown))
        for label, metrics in models.items()
    )
    table = Table(("", *(METRICS[metric] for metric in shown)), lines, frozenset(range(1, 3)), look="")
    return Exhibit(name, title, table=table, secret=secret) if shown else None


def _spent(privacy: dict[str, Any]) -> Exhibit:
    """What was spent, never under the name of the guarantee; a sanitised epsilon may be published."""
    texts = {
        name: epsilon_text(number(privacy, f"epsilon_{name}"))
        for name in ("spent", "data_dependent", "sanitised")
        if privacy.get(f"epsilon_{name}") is not None or is_infinite(privacy, f"epsilon_{name}")
    }
    words = {
        "spent": "spent: {} at the released counts",
        "data_dependent": "spent: {} at these very votes",
        "sanitised": "epsilon {} sanitised: data-dependent, released with noise; this one may be published",
    }
    items = tuple(words[name].format(text) for name, text in texts.items())
    return Exhibit("spent", "What was spent: do not publish", items=items, secret=True)
