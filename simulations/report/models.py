"""The models that a run compares, by name, and what came of it in a sentence: for the page and the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from consilium.report import words
from consilium.report.words import (
    ALONE,
    LABELS_ALONE,
    MANUAL,
    METRICS,
    POOLED,
    STUDENT,
    many,
    upper_first,
    value_text,
    with_interval,
)
from consilium.simulations.methods.manual_labels import ON_PUBLIC_ROWS

ABSENT, ABOVE, STUDENT_ABOVE = "absent", "above_student", "student_above"
RIVALS = {"noisy_average": words.NOISY_AVERAGE, "private_gradient": words.PRIVATE_GRADIENT}
RIVALS |= {ON_PUBLIC_ROWS + name: f"{label} on the public graph" for name, label in RIVALS.items()}
"""Baselines that keep the guarantee of the student."""
LABELS = {"majority": words.MAJORITY, "mean_teacher": ALONE, "student": STUDENT, **RIVALS}
LABELS |= {"plurality": f"{words.PLURALITY} (not private)", "pooled": f"{POOLED} (not private)"}
"""Models in the order of tables: names as in summary.json, and what they are called."""
Metrics = Mapping[str, Any]
"""Of one model on the public test cases, as `models.evaluation.evaluate` gives them, with "intervals" of some."""


def leading(metrics: Metrics, classes: int) -> Literal["auc", "accuracy"]:
    """The number that is shown first: AUC says most about two classes, and next to nothing where there are many."""
    return "auc" if metrics.get("auc") is not None and classes == 2 else "accuracy"


def metric_text(metrics: Metrics, metric: str) -> str:
    """The metric with its interval in parentheses."""
    return with_interval(metrics.get(metric), (metrics.get("intervals") or {}).get(metric))


def models_of(
    student: Metrics | None, baselines: Mapping[str, Metrics], worth: Metrics | None, alone: Metrics
) -> dict[str, Metrics]:
    """Metrics of every model by what it is called, in the order of charts and tables. alone: labels, of
    `student.public_labels.beside_labels`. Always naming the most frequent class of the public test rows stands for the
    majority of the private ones. Of published data there is nothing that takes private rows."""
    known = {name: of for name, of in baselines.items() if of and ABSENT not in of}
    labels, rates = dict(LABELS), (student or {}).get("rate") or {}
    if student:
        known["student"] = student
    if rates:
        labels["majority"] = f"always “{max(rates, key=lambda name: rates[name])}”"
        several = sum(rate > 0 for rate in rates.values()) > 1
        known["majority"] = {"accuracy": max(rates.values()), "auc": 0.5 if several else None}
    shown = dict[str, Metrics]()
    for name in dict.fromkeys((*labels, *known)):
        if name == "student":
            rows = [worth["released"], worth["asked"]] if worth else []
            rows = [row for row in rows if row["labels"] != alone.get("rows")]
            shown |= {many(row["labels"], "manual label"): row for row in rows}
            shown |= {LABELS_ALONE: alone} if alone and ABSENT not in alone else {}
        shown |= {labels.get(name, name): known[name]} if name in known else {}
    return shown


def finding(
    student: Metrics,
    baselines: Mapping[str, Metrics],
    worth: Metrics | None,
    labels: Metrics,
    warnings: Iterable[Mapping[str, str]],
    classes: int,
) -> tuple[str, ...]:
    """What came of a run, good or bad, in a sentence; before it the first thing that failed, after it what labels
    reach."""
    texts = {warning["code"]: warning["text"] for warning in warnings}
    metric, failures = leading(student, classes), list[str]()
    if student.get(metric) is not None and metric == "accuracy" and "not-above-majority" in texts:
        failures = [f"The {STUDENT} is right no more often than the {words.MAJORITY}."]  # else its order judges it
    if "nothing-learnt" in texts:
        failures = [f"{upper_first(texts['nothing-learnt'].split('. ')[0])}."]
    if student.get(metric) is None:
        return (*failures, f"How good the {STUDENT} is, is not known: no public test row can tell.")
    known = {name: of for name, of in baselines.items() if of and of.get(metric) is not None}
    clauses = [_way(known, student[metric], metric), *_rival(known), *_labelled(worth, labels, metric)]
    sentence = f"{'; '.join(clauses[:2])}{', and '.join(['', *clauses[2:]])}."
    of_labels = [f"{LABELS_ALONE} reach {value_text(labels[metric])}"] if labels.get(metric) is not None else []
    if worth and "manual_labels" in worth:
        of_labels.append(f"the {STUDENT} is worth {in_labels(worth)}")
        of_labels += [f"one takes {worth['label_cost']}"] if worth.get("label_cost") else []
    return (*failures, sentence, *([f"{upper_first('; '.join(of_labels))}."] if of_labels else []))


def _way(known: Mapping[str, Metrics], reached: float, metric: str) -> str:
    alone, pooled = (known[name][metric] if name in known else None for name in ("mean_teacher", "pooled"))
    start = f"The {STUDENT} reaches {METRICS[metric]} {value_text(reached)}"
    from_alone, to_pooled = f"{ALONE} ({value_text(alone)})", f"{POOLED} ({value_text(pooled)})"
    if alone is not None and reached <= alone:
        return f"{start}, {'below' if reached < alone else 'as'} {from_alone}: votes are not worth it here"
    if pooled is not None and reached > pooled:
        return f"{start}, above {to_pooled}"
    if alone is None or pooled is None or pooled <= alone:
        return start if alone is None else f"{start}, above {from_alone}"
    return f"{start}, {(reached - alone) / (pooled - alone):.0%} of the way from {from_alone} to {to_pooled}"


def _rival(known: Mapping[str, Metrics]) -> list[str]:
    compared = {name: of[ABOVE] for name, of in known.items() if ABOVE in of}
    if not compared:
        return []
    best = max(compared, key=lambda name: (compared[name]["interval"][0] > 0, compared[name]["difference"]))
    (low, high), metric = compared[best]["interval"], compared[best]["metric"]
    name, reached = RIVALS.get(best, best), value_text(known[best][metric])
    if high < 0:
        return [f"nothing does better at the same guarantee ({name}: {reached})"]
    told = "does better" if low > 0 else "is not clearly better or worse"
    return [f"{name} {told} at the same guarantee ({reached})"]


def _labelled(worth: Metrics | None, labels: Metrics, metric: str) -> list[str]:
    """What as many manual labels reach as were released; nothing where nobody knows, or they are `labels` alone."""
    released = worth["released"] if worth else {}
    if released.get("labels") in (None, 0, labels.get("rows")) or released.get(metric) is None:
        return []
    reach = "reaches" if released["labels"] == 1 else "reach"
    return [f"{many(released['labels'], MANUAL.removesuffix('s'))} {reach} {value_text(released[metric])}"]


def in_labels(worth: Metrics) -> str:
    """
    >>> block = {"fewest": 5, "most": 900, "public_rows": 900, "manual_labels": 123, "low": 81, "high": 204}
    >>> [in_labels(each).replace(MANUAL, "labels") for each in (block, {**block, "manual_labels": 0, "low": 0})]
    ['about 120 labels (81 to 200)', 'fewer than 5 labels (0 to 200)']
    >>> in_labels({**block, "manual_labels": None, "high": None}).replace(MANUAL, "labels")
    'more than 900 labels, all that there are (at least 81)'
    """
    labels, low, high = worth["manual_labels"], worth["low"], worth["high"]
    most = f"more than {worth['most']:,}"
    if labels is None:
        of_all = "all that there are" if worth["most"] == worth["public_rows"] else "the most that were tried"
        return f"{most} {MANUAL}, {of_all}{'' if low is None else f' (at least {_about(low)})'}"
    few = f"fewer than {worth['fewest']}" if labels == 0 else f"about {_about(labels)}"
    return f"{few} {MANUAL} ({_about(low or 0)} to {most if high is None else _about(high)})"


def _about(count: int) -> str:
    """Two digits say all that is known.

    >>> _about(1234), _about(57), _about(0)
    ('1,200', '57', '0')
    """
    return f"{int(float(f'{count:.2g}')):,}"
