"""The card of a published student: `student.json` for programs, MODEL_CARD.md for people, in sections of Mitchell et
al. 2019 ("Model cards for model reporting"). Everything in it may be known to anybody: public statistics, what was
released and what follows from it, and the epsilon that was promised beforehand, never one that depends on the votes."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from consilium.models.evaluation import BINS, BY_PREVALENCE, wilson
from consilium.models.published.model import CARD_FILE, FORMAT, MODEL_FILE, PEOPLES_CARD_FILE, Published
from consilium.protocol.files import replace_text
from consilium.protocol.label_source import LabelTerms, Outcome
from consilium.protocol.releases import ReleaseKind
from consilium.protocol.strict_json import dumps
from consilium.protocol.versions import versions
from consilium.report.disclosure import SEEDED, epsilon_text, people
from consilium.report.warnings import Expected, LabelFacts, StudentFacts, warnings_of
from consilium.report.words import LABELS_ALONE, METRICS, many, upper_first
from consilium.student.config import StudentSpec

CONSTANT = "constant"
"""The kind of a published model that says the same of every row."""
OF_SCHEMA = {"classes", "features", "center", "scale", "ranges", "representation"}


def tested_on(y: np.ndarray, metrics: dict[str, Any], classes: tuple[str, ...], among_asked: int) -> dict[str, Any]:
    """How the metrics came about: `y` int64 (n,) are the test rows' classes; `among_asked`: those that are queries."""
    counts = np.bincount(y, minlength=len(classes))
    return {
        "how": "labelled public rows that the student's team held out: neither asked nor trained on, though their"
        " features may have entered the public means and spreads",
        "rows": len(y),
        "rows_per_class": {name: int(count) for name, count in zip(classes, counts, strict=True)},
        "rows_that_are_also_in_the_pool": among_asked,
        "accuracy_95": wilson(round(metrics["accuracy"] * len(y)), len(y)),
        "accuracy_of_the_largest_class": float(counts.max() / len(y)),
    }


def make_card(
    terms: LabelTerms,
    spec: StudentSpec,
    published: Published,
    outcomes: Sequence[int],
    metrics: dict[str, Any] | None,
    tested: dict[str, Any] | None,
    labels: dict[str, Any],
) -> dict[str, Any]:
    """The content of student.json. outcomes: of all that was asked. metrics, tested: see `run.judged`. labels: see
    `public_labels.beside_labels`; nothing where none are known."""
    schema, calibration, became = terms.schema, published.calibration, Counter(outcomes)
    # how many teachers a party has, and so the noise beside them, the terms do not say
    expected = Expected(epsilon=terms.epsilon, delta=terms.delta, unit=terms.unit, votes=0)
    rows = {} if tested is None else tested["rows_per_class"]
    learnt = StudentFacts(published.kind == CONSTANT, metrics or {}, rows)
    return {
        "federation": terms.federation,
        **schema.model_dump(mode="json", include=OF_SCHEMA),
        "columns": [column.model_dump(mode="json") for column in schema.table],
        "spec": spec.model_dump(mode="json"),
        **{key: getattr(terms, key) for key in ("mechanism", "release", "count_sigma", "parties")},
        "label_law": None if terms.law is None else asdict(terms.law),
        "privacy": {
            **{key: getattr(terms, key) for key in ("unit", "neighbouring", "delta", "epsilon", "simulation")},
            "towards": f"whoever sees the released {terms.release.noun}s, or anything made of them: the student, and"
            " all who get it",
            **({"epsilon_nodes": terms.epsilon_nodes} if terms.epsilon_nodes else {}),
            **({"noise": "system"} if terms.real_noise else {}),
        },
        "asked": len(outcomes) - became[Outcome.NOT_ASKED],
        "answered": became[Outcome.ANSWERED],
        "reinforced": became[Outcome.REINFORCED],
        "metrics": metrics,
        "test": tested,
        **({"public_labels": labels} if labels else {}),
        "warnings": warnings_of(learnt, expected, LabelFacts(labels, brought=True)),
        "calibration": calibration.model_dump(mode="json") if calibration else None,
        "probabilities": "adapted" if published.adapted else "shifted" if calibration else "shares of votes",
        "model": {
            "file": MODEL_FILE,
            "format": FORMAT,
            "kind": published.kind,
            "needs": published.needs,
            "sha256": published.sha256,
            "holds_public_rows": published.kind in ("kernel", "graph_cnn"),
        },
        "versions": versions(),
    }


def labels_sentence(labels: Mapping[str, Any] | None) -> str:
    """Of public labels that the student was brought to, for people; empty without any. labels: see `beside_labels`.

    >>> labels_sentence({"rows": 40})[:65]
    'It is semi-private: it was brought to 40 public rows whose labels'
    """
    if not labels:
        return ""
    beside = ""
    if above := labels.get("student_above"):
        low, high = above["interval"]
        beside = (
            f" {upper_first(LABELS_ALONE)} reach {METRICS[above['metric']]} {labels[above['metric']]:.3f}; the student"
            f" has {above['difference']:+.3f} ({low:+.3f} to {high:+.3f}, 95 %)."
        )
    return (
        f"It is semi-private: it was brought to {many(labels['rows'], 'public row')} whose labels everybody knows."
        f" These labels are public, and cost no epsilon.{beside}"
    )


def write_cards(folder: Path, card: dict[str, Any]) -> None:
    """Both of them, each whole or not at all."""
    replace_text(folder / PEOPLES_CARD_FILE, _template().render(_shown(card)))
    replace_text(folder / CARD_FILE, dumps(card, indent=2) + "\n")


@cache
def _template() -> Template:
    """Whatever it is given is text in it, and no markup, whoever wrote it."""
    loader = FileSystemLoader(Path(__file__).parent)
    environment = Environment(
        loader=loader, finalize=_escaped, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["number"] = lambda value: "–" if value is None else f"{value:.4f}"
    return environment.get_template("card.md.j2")


def _escaped(value: object) -> str:
    """Text that Markdown takes for nothing but text, in one line."""
    text = re.sub(r"([\\`*_\[\]<>|~&$])", r"\\\1", " ".join(str(value).split()))
    return re.sub(r"^(\d*)([#+.)-])(?=[\s#]|$)", r"\1\\\2", text)


def _shown(card: Mapping[str, Any]) -> dict[str, Any]:
    privacy = card["privacy"]
    # then nobody is protected
    seeded, bounded = privacy["simulation"] and privacy.get("noise") != "system", math.isfinite(privacy["epsilon"])
    unprotected = ("its noise came from a seed" if seeded else "") if bounded else "the mechanism has no bound"
    unit = "" if privacy["unit"] == "party" else f"one {privacy['unit']} at one party"
    point = (card["metrics"] or {}).get("operating_point")
    return {
        "card": card,
        **{name: card[name] for name in ("model", "privacy", "metrics", "test")},
        "release": ReleaseKind(card["release"]),
        "point": point,
        "operating": operating_words(point) if point else "",
        "labels": labels_sentence(card.get("public_labels")),
        "bins": BINS,
        "people": people(unit=unit, unprotected=unprotected),
        "at_most": f"at most {epsilon_text(privacy['epsilon'])}" if bounded else "without bound",
        "nodes": epsilon_text(privacy["epsilon_nodes"]) if "epsilon_nodes" in privacy else "",
        "seeded": seeded,
        "seeded_words": SEEDED,
    }


def operating_words(point: Mapping[str, Any]) -> str:
    """The threshold of a student of two classes, and how it was chosen."""
    chosen = (
        "so that the share of the public rows that is flagged equals the prevalence"
        if point["by"] == BY_PREVALENCE
        else "the likelier class, since no prevalence is known"
    )
    return (
        f"Operating point: a row is flagged as {point['class']} where its probability is above"
        f" {point['threshold']:.4f}, {chosen}."
    )
