"""Warnings of a simulated run: those of its coordinator, and what only a simulation can compare its student with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from consilium.coordinator.config import FederationConfig
from consilium.coordinator.expectation import expected
from consilium.models.provenance import of_own_votes, well_formed
from consilium.report.warnings import (
    HandLabelled,
    InPlace,
    RowFacts,
    RunWarning,
    StudentFacts,
    after_run,
    before_run,
    of_rows,
)
from consilium.student.config import StudentSpec
from consilium.student.warned import CONSTANT


def run_warnings(
    config: FederationConfig,
    spec: StudentSpec,
    summary: Mapping[str, Any],
    card: Mapping[str, Any],
    looked: RowFacts,
) -> list[RunWarning]:
    """Of a finished run, first what came out.

    spec: of the students of all phases. summary: as far as it is written. card: the student's. looked: what is seen of
    the rows.
    """
    classes, tested = len(config.rows.classes), card["test"]
    weights = [own["weight"] for own in summary.get("by_party", {}).values()]
    votes = sum(weights) * config.teachers_per_party if weights else None
    known = expected(config, summary["parties"], classes, votes, asks_typical=spec.asks_typical)
    stated = well_formed(card.get("provenance", []))  # a run of 0.9 does not say it
    known = replace(known, uncharged=of_own_votes(stated, config.privacy.candidates))
    reached = StudentFacts(
        in_place=InPlace(known.histogram, config.ballot.relative, bool(spec.prevalence)),
        answered=summary["queries"]["answered"],
        constant=card["model"]["kind"] == CONSTANT,
        metrics=summary["student"],
        rows={} if tested is None else tested["rows_per_class"],
        mean_teacher=summary["baselines"]["mean_teacher"],
        hand_labels=_hand_labels(summary.get("worth")),
        left_out=summary["parties_left_out_for_data"],
    )
    return [*after_run(reached), *of_rows(looked), *before_run(known)]


def _hand_labels(worth: Mapping[str, Any] | None) -> HandLabelled | None:
    """What as many labels by hand as were released reach; None where nobody has tried."""
    if worth is None or not worth["released"]["labels"]:
        return None
    released, cost = worth["released"], worth.get("label_cost", "")  # a run of 0.9 does not say it
    return HandLabelled(released["labels"], worth["metric"], released[worth["metric"]], cost)
