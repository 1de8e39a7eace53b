"""Runs as a report gets them, without running anything; and a reader of the HTML that comes out."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import numpy as np

from consilium.accounting.guarantees import Guarantee, Kind
from consilium.accounting.units import Neighbouring, Towards, Unit
from consilium.models.evaluation import evaluate
from consilium.protocol.releases import ReleaseKind
from consilium.simulations.judge import calibration_curve
from consilium.simulations.metrics import metric_intervals
from consilium.simulations.report.data import PartyQuality, ReportData

# Numbers that occur nowhere else: finding one in the public version means that something secret is in it.
SECRET_EPSILON, SECRET_AUC, SECRET_ACCURACY, SECRET_ROWS = 0.31337, 0.66613, 0.59973, 41807
SECRET_GAIN = 0.1173
SECRET_PARTY, SECRET_REASON = "hospital-sentinel-17", "refused: 13 rows are too few"


def guarantee(kind: Kind, epsilon: float, teachers_per_party: int = 1, unit: Unit = Unit.PARTY) -> dict[str, Any]:
    """As `coordinator.json` holds it."""
    return Guarantee(
        epsilon=epsilon,
        delta=1e-5,
        order=18.0,
        unit=unit,
        neighbouring=Neighbouring.REPLACE,
        teachers_per_party=teachers_per_party,
        towards=Towards.STUDENT,
        kind=kind,
        method="Renyi curves summed",
    ).to_json()


def metrics(accuracy: float, auc: float | None) -> dict[str, Any]:
    """As `evaluate` gives them."""
    return {"accuracy": accuracy, "auc": auc, "recall_per_class": {"well": 0.712, "ill": 0.634}}


def above(metric: str, difference: float, low: float, high: float) -> dict[str, Any]:
    """What a private rival has more than the student."""
    return {"above_student": {"metric": metric, "difference": difference, "interval": [low, high]}}


def run(asked: int = 40, parties: int = 12, seed: int = 0) -> ReportData:
    """A finished run with about a third of the queries answered."""
    generator = np.random.default_rng(seed)
    answered = generator.random(asked) < 0.4
    quality = [
        PartyQuality(
            f"hospital-{index:03d}", int(generator.integers(20, 500)), *map(float, generator.normal(0.67, 0.06, 2))
        )
        for index in range(parties - 1)
    ]
    return ReportData(
        title="Trial",
        description="Will the patient be well?",
        attribution="Data of the trial, doi 10.0000/1, https://example.org/licence",
        scenario="trial",
        engine="local",
        seed=7,
        seeded_noise=False,
        created="2026-01-02T03:04:05+00:00",
        versions={"python": "3.11.7", "numpy": "2.4.0"},
        parties=parties,
        invited=parties + 1,
        teachers=parties,
        party_label="hospital",
        left_out=[(SECRET_PARTY, "train", SECRET_REASON), ("hospital-late", "vote", "no answer within 9 s")],
        mechanism="Confident GNMax, threshold 8, sigma1 5, sigma2 2",
        collection="plaintext",
        release=ReleaseKind.WINNER_OR_ABSTENTION,
        most_queries=asked + 10,
        most_answers=asked,
        guarantees={
            "guarantee": guarantee(Kind.WORST_CASE, 0.98765),
            "spent": guarantee(Kind.REALISED, 0.95312),
            "data_dependent": guarantee(Kind.DATA_DEPENDENT, SECRET_EPSILON),
        },
        reinforced=0,
        student=metrics(0.6871, 0.7659),
        baselines={
            "pooled": metrics(0.7529, 0.8076),
            "plurality": metrics(0.7226, 0.8005),
            "mean_teacher": {"accuracy": SECRET_ACCURACY, "auc": SECRET_AUC},
            "majority": metrics(0.6891, 0.5),
        },
        classes=("well", "ill"),
        answered=answered.tolist(),
        quality=[*quality, PartyQuality(SECRET_PARTY, SECRET_ROWS, SECRET_ACCURACY, SECRET_AUC)],
    )


def in_labels(**change: Any) -> dict[str, Any]:
    """As `manual_labels.worth` gives it."""
    point = {**metrics(0.6911, 0.7712), "draws": 20}
    return {
        "metric": "auc",
        "student": 0.7659,
        "manual_labels": 123,
        "low": 81,
        "high": 204,
        "level": 0.95,
        "fewest": 5,
        "most": 900,
        "public_rows": 900,
        "draws": 20,
        "label_cost": "",
        "released": {**point, "labels": 17},
        "asked": {**point, "labels": 40, "auc": 0.7813},
        **change,
    }


DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "a dress or a shirt with long sleeves", "eight", "nine")


def figured(data: ReportData, classes: tuple[str, ...] = ("well", "ill"), rows: int = 600) -> ReportData:
    """The same run with all figures that a simulation computes, of a student of so many classes."""
    generator = np.random.default_rng(3)
    y = generator.choice(len(classes), rows, p=np.arange(2, len(classes) + 2) / np.arange(2, len(classes) + 2).sum())
    scores = generator.gumbel(size=(rows, len(classes))) + 1.5 * np.eye(len(classes))[y]
    probabilities = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    told = {**evaluate(probabilities, y, classes), "intervals": metric_intervals(probabilities, y, classes)}
    given = np.where(generator.random(40) < 0.6, y[:40], 0)
    group = {"alone": 0.6112, "student": 0.7234, "interval": [0.051, 0.1771]}
    return replace(
        data,
        classes=classes,
        student={key: value for key, value in told.items() if key != "intervals"}
        | {"rate": {name: float((y == index).mean()) for index, name in enumerate(classes)}},
        baselines={**data.baselines, "plurality": told, "pooled": told},
        worth=in_labels(),
        open_figures={
            "test": {name: int((y == index).sum()) for index, name in enumerate(classes)},
            "student": {"calibration": calibration_curve(probabilities, y)},
            "intervals": told["intervals"],
            "labels": {"right": int((y[:40] == given).sum()), "of_class": np.bincount(y[:40]).tolist()},
        },
        secret_figures={
            "at_home": {
                "metric": "auc" if len(classes) == 2 else "accuracy", "judged": 6, "parties": 12, "too_small": 1,
                "level": 0.95, "all": {**group, "difference": SECRET_GAIN}, "by_party": [[9, 0.1], [41, -0.05]],
            },
            "alone": {"metric": "auc", "difference": SECRET_GAIN, "interval": [0.0912, 0.1433]},
        },
    )  # fmt: skip


def cases() -> dict[str, ReportData]:
    """Every shape that a run can have."""
    data = run()
    unbounded = guarantee(Kind.WORST_CASE, float("inf"))
    one_class = {name: {**values, "auc": None} for name, values in data.baselines.items()}
    nobody = [False] * len(data.answered)
    return {
        "usual": data,
        "nothing asked": replace(run(asked=0), guarantees={"guarantee": data.guarantees["guarantee"]}, student=None),
        "nobody answered": replace(data, answered=nobody),
        "no student": replace(data, student=None),
        "no AUC": replace(
            data,
            student=metrics(0.6871, None),
            baselines=one_class,
            quality=[replace(item, auc=None) for item in data.quality],
        ),
        "nothing to compare": replace(data, baselines={}, student=None, quality=[], left_out=[], versions={}),
        "nobody knows the votes": replace(
            data, guarantees={name: data.guarantees[name] for name in ("guarantee", "spent")}
        ),
        "no guarantee at all": replace(data, guarantees=dict.fromkeys(("guarantee", "spent"), unbounded)),
        "all figures": figured(data),
        "all figures, ten classes": figured(data, DIGITS),
        "sanitised": replace(data, guarantees={**data.guarantees, "sanitised": guarantee(Kind.SANITISED, 0.4242)}),
    }


class Page(HTMLParser):
    """What a browser would make of the report: fails on tags that do not match."""

    VOID = frozenset({"meta", "link", "br", "img", "hr", "input"})

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str, str]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert self._open == []

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in self.VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self._open:
            self.text += data
