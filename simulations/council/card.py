"""The small picture of a run in a notebook: promise, student, yardsticks. Nothing secret: notebooks are passed on."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from consilium.protocol.releases import ReleaseKind
from consilium.report.words import share_text
from consilium.simulations.council.statement import PrivacyStatement
from consilium.simulations.report import meaning
from consilium.simulations.report.models import hand_label_rows

_STYLE = (
    "border:1px solid #8886;border-radius:6px;padding:.8em 1em;max-width:42em;font-family:sans-serif;line-height:1.4"
)
METRICS = {"accuracy": "accuracy", "auc": "AUC"}


def verdict(privacy: PrivacyStatement, parties: int) -> str:
    """The report's verdict in a word or two, of all fits on these owners together."""
    epsilon, delta = privacy.epsilon_of_all_fits, privacy.delta_of_all_fits
    level = meaning.verdict(epsilon, delta, parties, seeded=not privacy.protects).level
    if level != "none":
        return f"{level} protection"
    return "no protection: the noise was seeded" if not privacy.protects else "no protection"


def shown_models(summary: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The student and what it may be compared with in public: by public rows alone. Name -> metrics.

    The majority class is that of the public test rows; the run's own yardstick of that name is of the private ones.
    """
    student, by_hand = summary["student"] or {}, dict(hand_label_rows(summary["worth"]))
    rates = (student.get("rate") or {}).values()
    majority = {"majority class": {"accuracy": max(rates), "auc": 0.5 if len(rates) == 2 else None}} if rates else {}
    return {"student": student, **by_hand, **majority}


def card(summary: Mapping[str, Any], privacy: PrivacyStatement) -> str:
    """HTML of one run."""
    models = shown_models(summary)
    shown = [name for name in METRICS if any(metrics.get(name) is not None for metrics in models.values())]
    heads = "".join(f'<th scope="col" style="text-align:right">{METRICS[name]}</th>' for name in shown)
    rows = "".join(
        f'<tr><th scope="row" style="text-align:left">{escape(label)}</th>'
        + "".join(f'<td style="text-align:right">{share_text(metrics.get(name))}</td>' for name in shown)
        + "</tr>"
        for label, metrics in models.items()
    )
    queries = summary["queries"]
    asked = (
        f"{summary['parties']:,} parties voted on {queries['asked']:,} public rows;"
        f" {queries['answered']:,} {ReleaseKind(summary['release']).noun}s were released."
    )
    lines = "".join(f"<li>{escape(line)}</li>" for line in privacy.lines())
    return (
        f'<div style="{_STYLE}"><strong>{escape(verdict(privacy, summary["parties"]))}</strong>'
        f'<p style="margin:.3em 0">{escape(asked)}</p><ul style="margin:.3em 0;padding-left:1.2em">{lines}</ul>'
        f'<table><thead><tr><th scope="col" style="text-align:left">on the public test rows</th>{heads}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )
