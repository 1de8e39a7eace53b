"""The card of a published student: `student.json` for programs, MODEL_CARD.md for people, in sections of Mitchell et
al. 2019 ("Model cards for model reporting").

Everything in it may be known to anybody: public statistics, what was released and what follows from it, and the epsilon
that was promised before anything was asked, never one that depends on the votes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from consilium.models.evaluation import BINS, BY_PREVALENCE, wilson
from consilium.models.published.model import CARD_FILE, FORMAT, MODEL_FILE, PEOPLES_CARD_FILE, Published
from consilium.protocol.files import replace_text
from consilium.protocol.label_source import LabelTerms, Outcome
from consilium.protocol.releases import ReleaseKind
from consilium.protocol.schema import ColumnEncoding
from consilium.protocol.strict_json import dumps
from consilium.protocol.versions import versions
from consilium.report.disclosure import SEEDED, epsilon_text, people
from consilium.report.exhibits import Cell, Exhibit, PagePart, Table, TableLine, as_markdown, pairs
from consilium.report.warnings import Expected, LabelFacts, StudentFacts, warnings_of
from consilium.report.words import LABELS_ALONE, METRICS, many, upper_first
from consilium.student.config import StudentSpec

CONSTANT = "constant"
"""The kind of a published model that says the same of every row."""
_MOST_COLUMNS_SHOWN = 60
_MOST_VALUES_SHOWN = 20
_SHARES_OF_VOTES = (
    "Its probabilities are shares of votes, not risks: use their order, and check them before they are read as risks."
)
_SHIFTED = (
    "Its probabilities were shifted so that their mean over the public pool is the declared prevalence ({shares}, in"
    " the order of the classes). They are risks only as far as it holds for the pool and for the rows that are judged."
)
_ADAPTED = (
    "Its probabilities are brought to the public rows with labels: they are risks as far as these rows are like those"
    " that are judged."
)
_OUT_OF_SCOPE = (
    "Out of scope: decisions about a person, which nobody has validated it for; rows from elsewhere that nobody"
    " has measured it on; conclusions about anybody whose rows are public."
)
_LIMITS = (
    "Not a medical device: nobody has validated it for decisions about patients, and this card is no validation.",
    "It learned from the parties' votes with noise, not from the truth: where most teachers are wrong, so is it.",
    "Rows from elsewhere (other devices, coding, years, case mix) may differ from the public rows: measure it there.",
    "The guarantee says nothing about people in the public rows, which were never private.",
)


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


_OF_SCHEMA = {"classes", "features", "center", "scale", "ranges", "representation"}


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
        **schema.model_dump(mode="json", include=_OF_SCHEMA),
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
        "limits": [*_LIMITS, _of_probabilities(published)],
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
    text = f"# Student of federation {card['federation'][:12]}\n\n{as_markdown(sections(card))}"
    replace_text(folder / PEOPLES_CARD_FILE, text)
    replace_text(folder / CARD_FILE, dumps(card, indent=2) + "\n")


def sections(card: Mapping[str, Any]) -> list[PagePart]:
    """The card for people: what it warns of, and the sections of Mitchell et al. 2019 in their order."""
    model, noun, trainer = card["model"], ReleaseKind(card["release"]).noun, card["spec"]["trainer"]
    trained = f"{trainer['name']}, {trainer['factory']}" if "factory" in trainer else trainer["name"]
    holds = model["needs"] or "numbers only; loading it runs no code of whoever made it"
    made_by = ", ".join(f"{name} {version}" for name, version in card["versions"].items())
    point, labels = (card["metrics"] or {}).get("operating_point"), labels_sentence(card.get("public_labels"))
    use = (
        "Made in a simulation, to study the method; it is for nothing else."
        if _follows_a_seed(card)
        else "To order and classify rows with these columns, of the source that the public rows are from, once it"
        " has been measured there."
    )
    exhibits = {
        "Warnings": Exhibit("warnings", items=tuple(f"{each['code']}: {each['text']}" for each in card["warnings"])),
        "Model details": Exhibit(
            "details",
            words=(
                f"A model ({trained}) that tells {len(card['classes'])} classes apart: {', '.join(card['classes'])}."
                " Method: private aggregation of teacher ensembles (Papernot et al. 2018).",
            ),
            items=(
                f"{model['file']} ({model['format']}, {model['kind']}), SHA-256 {model['sha256']}",
                f"It holds {holds}.",
                f"Made with {made_by}.",
                *([] if model["needs"] else ["Use it with: consilium predict FOLDER ROWS.csv"]),
            ),
        ),
        "Intended use": Exhibit("use", words=(use, _OUT_OF_SCOPE)),
        "Evaluation data": Exhibit("evaluation", words=(_tested(card), *([operating_words(point)] if point else []))),
        "Training data": Exhibit(
            "training",
            words=(
                f"It was trained on {noun}s that were released of the votes of up to {card['parties']} data holders on"
                f" public rows, and on nothing else of theirs. Of {card['asked']} that were asked,"
                f" {card['answered']} got a {noun} ({card['mechanism']}), {card['reinforced']} were confirmed.",
                *([labels] if labels else []),
                f"A row has {many(len(card['columns']), 'column')}, as they are written: numbers as measured,"
                " categories by name. Nothing must be standardised before.",
            ),
            table=_columns(card),
        ),
        "Quantitative analyses": Exhibit("quality", table=_quality(card)),
        "Ethical considerations": Exhibit("privacy", items=tuple(_privacy(card))),
        "Caveats and recommendations": Exhibit("limits", items=tuple(card["limits"])),
    }
    return [
        PagePart(item.name, title, (item,))
        for title, item in exhibits.items()
        if item.words or item.items or item.table
    ]


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


def _tested(card: Mapping[str, Any]) -> str:
    test = card["test"]
    if card["metrics"] is None or test is None:
        return "Nobody has measured it: there were no labelled test rows."
    return (
        f"Measured with this very file on {test['rows']} rows: {test['how']}"
        f" ({test['rows_that_are_also_in_the_pool']} of them equal a row of the pool)."
    )


def _columns(card: Mapping[str, Any]) -> Table:
    """What a row is: its columns as they are written, and what public rows say of each."""
    ranges = {allowed["feature"]: allowed for allowed in card["ranges"]}
    mean, deviation = (dict(zip(card["features"], card[key], strict=True)) for key in ("center", "scale"))
    lines = []
    for column in map(ColumnEncoding.model_validate, card["columns"][:_MOST_COLUMNS_SHOWN]):
        name, more = column.column, len(column.values) - _MOST_VALUES_SHOWN
        values = ", ".join(column.values[:_MOST_VALUES_SHOWN]) + (f" and {more} more" if more > 0 else "")
        if column.kind == "number":
            allowed = ranges.get(name)
            span = f", {allowed['low']:g} to {allowed['high']:g}{', whole' * allowed['whole']}" if allowed else ""
            values = f"a number, of public rows {mean[name]:.6g} ± {deviation[name]:.6g}{span}"
        lines.append(TableLine(name, (Cell(values), Cell("yes" if column.missing else "no"))))
    if len(card["columns"]) > _MOST_COLUMNS_SHOWN:
        lines.append(TableLine("...", (Cell(f"all {len(card['columns'])} are named in {CARD_FILE}"), Cell(""))))
    return Table(("column", "values", "may be missing"), tuple(lines))


def _privacy(card: Mapping[str, Any]) -> Iterator[str]:
    """What was released, with what noise, what that promises towards whom, and who is not protected."""
    privacy, sigma, seeded = card["privacy"], card["count_sigma"], _follows_a_seed(card)
    yield ReleaseKind(card["release"]).sentence
    if sigma > 0:
        yield (
            f"Noise on each count: Gaussian with a standard deviation of {sigma:.4g} votes, where all {card['parties']}"
            f" data holders are in the sum."
        )
    bounded = math.isfinite(privacy["epsilon"])
    unprotected = ("its noise came from a seed" if seeded else "") if bounded else "the mechanism has no bound"
    unit = "" if privacy["unit"] == "party" else f"one {privacy['unit']} at one party"
    yield from (
        f"{each.who}: protected: {each.protected}; {each.why}" for each in people(unit=unit, unprotected=unprotected)
    )
    at_most = f"epsilon at most {epsilon_text(privacy['epsilon'])}" if bounded else "epsilon without bound"
    yield (
        f"Guarantee: {at_most} at delta {privacy['delta']:g}: the worst case of the query budget, fixed before anything"
        " was asked. It does not depend on anybody's data."
    )
    replaced = privacy["neighbouring"] == "replace"
    relation = "its data is replaced by other data" if replaced else "its data is there or is not there"
    yield f"Unit: a {privacy['unit']}; neighbouring: {relation}."
    yield f"Towards {privacy['towards']}."
    if "epsilon_nodes" in privacy:
        yield (
            f"Towards the coordinator, who sees noisy sums of the votes: epsilon at most"
            f" {epsilon_text(privacy['epsilon_nodes'])} at delta {privacy['delta']:g}. The federation's threat model"
            " says towards which other nodes."
        )
    else:
        yield (
            "Towards the coordinator, who collects votes, no epsilon is stated: it is trusted, as the federation's"
            " threat model says."
        )
    yield "It holds for all students of the federation together, and for whatever anybody computes from the model."
    if seeded:
        yield f"Made in a simulation. {SEEDED}"
    if card["model"]["holds_public_rows"]:
        yield "The file holds public rows of the pool: give it only to those who may have these rows."


def _follows_a_seed(card: Mapping[str, Any]) -> bool:
    """Whether the noise did, so that nobody is protected."""
    return card["privacy"]["simulation"] and card["privacy"].get("noise") != "system"


def _quality(card: Mapping[str, Any]) -> Table | None:
    """What was measured on the test rows; None where nobody has."""
    metrics, test = card["metrics"], card["test"]
    if metrics is None or test is None:
        return None
    low, high = test["accuracy_95"]
    rows = [
        ("accuracy", f"{metrics['accuracy']:.4f} (95 % interval {low:.4f} to {high:.4f})"),
        ("accuracy of always saying the largest class", f"{test['accuracy_of_the_largest_class']:.4f}"),
        ("AUC", _number(metrics["auc"])),
    ]
    point = metrics["operating_point"]
    if point is None:
        for name, recall in metrics["recall_per_class"].items():
            rows.append((f"recall of {name} ({test['rows_per_class'][name]} rows)", _number(recall)))
    else:
        names = ("flagged", "recall", "specificity", "precision")
        rows += [(f"{name} at the operating point", _number(point[name])) for name in names]
    rows += [
        (f"calibration error ({BINS} bins of equally many rows)", _number(metrics["calibration_error"])),
        ("Brier score", _number(metrics["brier"])),
    ]
    for name, mean in metrics["mean_predicted"].items():
        rows.append((f"mean probability of {name}, and its rate", f"{mean:.4f}, {metrics['rate'][name]:.4f}"))
    return replace(pairs(rows), columns=("measure", "value"))


def _of_probabilities(published: Published) -> str:
    calibration = published.calibration
    if published.adapted is not None:
        return _ADAPTED
    if calibration is None:
        return _SHARES_OF_VOTES
    return _SHIFTED.format(shares=", ".join(f"{share:.4g}" for share in calibration.prevalence))


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"
