"""Made-up results of a study, in the form that `consilium study` writes them: truth that the test knows, and seeds."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from consilium.simulations.study.page import write_study_report
from consilium.simulations.study.spec import COLUMNS, FACTS

METHODS = {
    "local": 0.70,
    "pooled": 0.80,
    "plurality": 0.79,
    "pate": 0.76,
    "noisy_average": 0.755,
    "fedavg rounds=20": 0.795,
}
Terms = tuple[float | None, float | None, str | None, str | None]
ONE: Terms = (1.0, 1e-5, "party", "replace")
NONE: Terms = (None, None, "none", None)
MEASURED: Terms = (None, None, None, None)
STATED = {"pate": ONE, "noisy_average": ONE}
"""What methods guarantee; others nothing."""
DIVISIONS = {"natural": 0.0, "iid": 0.02, "matched": 0.0, "country": -0.06}


@dataclass
class MadeUp:
    """axes: of each its points with what they add to every method. parties: of each case. stated: see `STATED`.
    sets: the axis whose points are data sets of their own."""

    axes: Mapping[str, Mapping[str, float]] = field(default_factory=lambda: {"division": DIVISIONS})
    methods: Mapping[str, float] = field(default_factory=lambda: METHODS)
    seeds: Sequence[int] = (0, 1, 2, 3, 4)
    parties: int = 24
    title: str = "Hospitals"
    stated: Mapping[str, Terms] = field(default_factory=lambda: STATED)
    sets: str = ""
    failed: list[dict[str, Any]] = field(default_factory=list)
    absent: list[dict[str, Any]] = field(default_factory=list)

    def frame(self) -> pl.DataFrame:
        found: list[dict[str, Any]] = []
        for place, labels in enumerate(product(*self.axes.values())):
            point = dict(zip(self.axes, labels, strict=True))
            add = sum(self.axes[axis][label] for axis, label in point.items())
            for seed in self.seeds:
                found += self._case(point, seed, add, np.random.default_rng([seed, place]))
        names = ["cell", *self.axes, *COLUMNS[1:]]
        table = pl.DataFrame(found, infer_schema_length=None).select(names).sort(names[:-3])
        sets = pl.col(self.sets) if self.sets else pl.lit("made-up")
        return with_facts(table, self.stated).with_columns(data_set=sets)

    def draw(self, out: Path) -> list[str]:
        """The page of the study; its first sentences."""
        told = {
            "status": "complete", "title": self.title, "description": "Made up.", "found": 30, "cells": 120,
            "command": "consilium study hospitals --out runs/hospitals", "created": "2026-11-22T12:00:00+00:00",
            "spec_digest": "ab" * 32, "versions": {"consilium": "0.6.0"}, "seconds": 12.5, "workers": 2,
            "axes": {name: list(points) for name, points in self.axes.items()}, "seeds": list(self.seeds),
            "failed": self.failed, "absent": self.absent, "warnings": [],
            "data": [{"set": "made-up", "title": "", "attribution": "Nobody’s.", "digest": "cd" * 20}],
        }  # fmt: skip
        return write_study_report(self.frame(), told, {}, out)

    def _case(self, point: Mapping[str, str], seed: int, add: float, generator: np.random.Generator) -> list[dict]:
        base = {"cell": f"{zlib.crc32(repr((point, seed)).encode()):012x}", **point, "seed": seed}
        found: list[dict[str, Any]] = []

        def rows(method: str, half: float | None = None, **values: float) -> None:
            found.extend(base | figure(method, metric, value, half) for metric, value in values.items())

        luck = generator.normal(0, 0.01)
        for method, level in self.methods.items():
            value = level + add + luck + generator.normal(0, 0.004)
            rows(method, 0.015, auc=value, accuracy=value - 0.05, brier=0.3 - value / 4)
            for party in range(self.parties):
                own = level + generator.normal(0, 0.08)
                found.append(base | figure(method, "accuracy", own, None, "party", f"party {party}"))
        if "pate" in self.methods:
            rows("pate", epsilon=1.0, epsilon_spent=0.9, epsilon_data_dependent=0.4 + 0.1 * generator.random())
            rows("pate", delta=1e-5, asked=300, answered=250, labels_right=0.9, gain_accuracy=0.01)
            gains = {"worse": 9, "better": 15, "parties": 24, "worst_decile": -0.1, "worst_decile_floor": -0.09}
            rows("pate", **{f"gain_accuracy_{name}": value for name, value in gains.items()})
            rows("teachers", winners_flipped_mean=0.02)
        rows("division", parties=self.parties, rows=5000, rows_median=80, rows_most=600, gini=0.45, left_out=3)
        rows("division", hellinger_mean=0.15 - add)
        rows("division", 0.004, hellinger_mean_floor=0.14)
        for kind, named in {"quantity": True, "label": add < 0, "concept": False}.items():
            rows("division", 0.01, **{f"shift_{kind}": 0.3 if named else 0.02})
            rows("division", **{f"shift_{kind}_named": named})
        votes = {"consensus": 0.8 + add, "gap_p50": 93, "kappa": 0.5 + add, "plurality_right": 0.81}
        rows("teachers", 0.01, **{name: value + generator.normal(0, 0.002) for name, value in votes.items()})
        return found


def figure(
    method: str, metric: str, value: float, half: float | None = None, scope: str = "run", name: str = ""
) -> dict[str, Any]:
    """A row of the results without its cell; half: the length of half an interval."""
    ends = (None, None) if half is None else (value - half, value + half)
    return {
        "method": method, "scope": scope, "name": name, "metric": metric,
        "value": float(value), "low": ends[0], "high": ends[1],
    }  # fmt: skip


def with_facts(table: pl.DataFrame, stated: Mapping[str, Terms]) -> pl.DataFrame:
    """The same with what methods guarantee; measures are no methods."""
    terms = [
        (name, *(MEASURED if name in ("division", "teachers") else stated.get(name, NONE)), "made-up")
        for name in table["method"].unique()
    ]
    kinds = dict(zip(FACTS, (pl.Float64, pl.Float64, pl.String, pl.String, pl.String), strict=True))
    facts = pl.DataFrame(terms, schema={"method": pl.String, **kinds}, orient="row")
    return table.join(facts, on="method", how="left", maintain_order="left")


def figures(
    values: Mapping[str, Sequence[float]],
    half: float | None = None,
    metric: str = "auc",
    axes: Mapping[str, str] | None = None,
    stated: Mapping[str, Terms] = STATED,
) -> pl.DataFrame:
    """One metric of runs: of each method its values, seed by seed; half: the length of half an interval."""
    rows = [
        {"cell": "c", **(axes or {}), "seed": seed, **figure(method, metric, value, half)}
        for method, each in values.items()
        for seed, value in enumerate(each)
    ]
    floats: dict[str, Any] = dict.fromkeys(("value", "low", "high"), pl.Float64)
    return with_facts(pl.DataFrame(rows, schema_overrides=floats, infer_schema_length=None), stated)
