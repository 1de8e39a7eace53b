"""`Council` on two trials as frames: what it reaches, what it refuses, and how long a fit takes. docs/python.md."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import polars as pl

from consilium import ConsiliumError, Council
from consilium.simulations.datasets.folder import data_folder
from consilium.simulations.datasets.source import load_dataset

SEEDS = range(2)
RECORDS = {"unit": "record", "neighbouring": "add_or_remove", "teachers_per_party": 25}
STROKE = {"voting_rule": {"rule": "relative", "shares": [0.37, 0.63]}, "asking": {"prevalence": [0.37, 0.63]}}
TEACHER = {"model": "logistic_regression", "C": 0.3, "class_weight": "balanced"}
CASES: list[tuple[str, dict[str, Any]]] = [
    ("heart, a hospital, epsilon 1", {"unit": "party", "epsilon": 1.0}),
    ("heart, a record, epsilon 1", {"epsilon": 1.0, **RECORDS}),
    ("heart, a record, epsilon 2", {"epsilon": 2.0, **RECORDS}),
    ("heart, a record, epsilon 4", {"epsilon": 4.0, **RECORDS}),
    ("stroke, a hospital, epsilon 1", {"unit": "party", "epsilon": 1.0}),
    ("stroke, as its scenario votes", {"unit": "party", "epsilon": 1.0, "teacher": TEACHER, **STROKE}),
]


def stroke() -> pl.DataFrame:
    """19,285 patients of 464 hospitals, with the columns `hospital` and `outcome`."""
    data = load_dataset("stroke")
    frame = pl.DataFrame(data.x, schema=list(data.features))
    return frame.with_columns(hospital=pl.Series(data.owner), outcome=pl.Series(data.y))


def heart() -> pl.DataFrame:
    """920 patients of four hospitals, with the columns `hospital` and `outcome`; many values are missing."""
    with np.load(data_folder() / "heart_uci.npz") as file:
        frame = pl.DataFrame(file["X"], schema=[str(name) for name in file["feature_names"]])
        hospital, ill = file["hospital_names"][file["hospital"]], (file["num"] > 0).astype(np.int64)
    return frame.with_columns(hospital=pl.Series(hospital.astype(str)), outcome=pl.Series(ill))


def main() -> None:
    """One row for each case and seed."""
    frames = {"stroke": stroke(), "heart": heart()}
    print("| fit | seed | promised | student's AUC | labels by hand | pooled | mechanism | seconds |")
    print("|---" * 8 + "|")
    for name, settings in CASES:
        frame = frames[name.partition(",")[0]]
        for seed in SEEDS:
            began = time.monotonic()
            council = Council(**settings, random_state=seed)
            try:
                council.fit(frame, "outcome", owners="hospital")
            except ConsiliumError as error:
                print(f"| {name} | {seed} | {error} |  |  |  |  | {time.monotonic() - began:.0f} |", flush=True)
                continue
            summary, plan = council.run_.summary, council.plan_ or {}
            aucs = (summary["student"], summary["worth"]["released"], summary["baselines"]["pooled"])
            cells = " | ".join(f"{of['auc']:.3f}" for of in aucs)
            mechanism = f"{plan['mechanism']['name']}, {plan['query_budget']['queries']}"
            seconds = time.monotonic() - began
            print(
                f"| {name} | {seed} | {council.privacy_.epsilon:.3f} | {cells} | {mechanism} | {seconds:.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
