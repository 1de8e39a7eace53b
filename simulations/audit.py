"""`consilium audit RUN`: does the run folder hold what it claims? Everything is recomputed from the ledger.

It reads the folder and the package only. A check that cannot be made counts as failed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from accounting.errors import AccountingError
from accounting.gnss import group_smooth_sensitivity
from accounting.sanitised import sanitise, secret_smoothness
from coordinator.closing import answered_batches, most_teachers
from coordinator.config import FederationConfig
from coordinator.ledger import Batch, Ledger, stored_config
from coordinator.privacy import promised, spent
from protocol.config_files import read_table, validate
from protocol.errors import ConsiliumError, DataError, LedgerError
from protocol.labels import Outcome
from simulations.run import data_fingerprint
from simulations.scenario import Scenario, divided_data
from simulations.workspace import federation_config

TOLERANCE = 1e-9
"""Relative difference between a claimed and a recomputed epsilon that rounding may explain."""

MOST_DEVIATIONS, ROUNDING = 7.0, 2e-4
"""A sanitised curve is within so many standard deviations of what the ledger's votes give, but once in 4e11 runs."""


@dataclass(frozen=True)
class Finding:
    """One check: what was looked at, whether it holds, and what was found."""

    check: str
    holds: bool
    found: str


def audit_run(run_dir: Path) -> list[Finding]:
    """All findings about a run folder.

    Raises
    ------
    DataError : it is no run folder.
    """
    if not (run_dir / "manifest.json").is_file() or not (run_dir / "ledger.db").is_file():
        raise DataError(f"{run_dir} has no manifest.json and ledger.db", "Give the folder of a run")
    findings: list[Finding] = []

    def check(name: str, look: Callable[[], str]) -> None:
        try:
            findings.append(Finding(name, True, look()))
        except (ConsiliumError, AccountingError, OSError, KeyError, ValueError, TypeError, AssertionError) as error:
            findings.append(Finding(name, False, f"{error}" or type(error).__name__))

    opened: dict[str, Any] = {}
    check("ledger: hash chain, evidence and counts", lambda: _open(run_dir, opened))
    if "batches" not in opened:
        return findings
    config: FederationConfig = opened["config"]
    batches: list[Batch] = opened["batches"]
    check("manifest: configuration and data", lambda: _manifest(run_dir, config))
    check("caps: never passed", lambda: _caps(config, batches))
    check("events: those of the configured mechanism", lambda: _events(config, batches))
    sanitised: dict[str, Any] | None = opened["sanitised"]
    if config.privacy.sanitised is not None:
        check("sanitised epsilon: released once and as planned", lambda: _sanitised(config, batches, sanitised))
    recomputed = {
        name: float(guarantee.epsilon)
        for name, guarantee in {"promised": promised(config), **spent(config, batches, sanitised is not None)}.items()
    }
    recomputed["student"] = recomputed["worst_case"]
    if sanitised is not None:
        recomputed["sanitised"] = float(sanitised["guarantee"]["epsilon"])  # drawn once: the ledger's is the truth
    for name, claims in _claims(run_dir):
        check(f"epsilon: {name}", lambda claims=claims: _compare(claims, recomputed))
    check("labels: those of the ledger", lambda: _labels(run_dir, config, batches))
    return findings


def _open(run_dir: Path, opened: dict[str, Any]) -> str:
    federation, config_json = stored_config(run_dir / "ledger.db")
    config = validate(json.loads(config_json), FederationConfig, "ledger: configuration")
    if config.digest() != federation:
        raise LedgerError("the ledger's configuration is not the one whose hash it bears")
    ledger = Ledger(run_dir / "ledger.db", federation, "", read_only=True)
    try:
        batches = ledger.batches()
        asked, answered = ledger.spent()
        closing = ledger.closing()
    finally:
        ledger.close()
    counted = (sum(len(batch.query_ids) for batch in batches), sum(int(batch.answered.sum()) for batch in batches))
    assert (asked, answered) == counted, f"batches say {asked} asked, {answered} answered; there are {counted}"
    opened |= {"config": config, "batches": batches, "sanitised": json.loads(closing) if closing else None}
    return f"{len(batches)} batches, {asked} queries, {answered} labels"


def _manifest(run_dir: Path, config: FederationConfig) -> str:
    manifest = read_table(run_dir / "manifest.json")
    assert manifest["federation"] == config.digest(), "the manifest is of another federation"
    scenario = validate(manifest["config"], Scenario, "manifest: configuration")
    data, partition = divided_data(scenario, manifest["seed"])
    assert manifest["data"]["sha256"] == data_fingerprint(data), "the data set is another one"
    again = federation_config(scenario, data, partition, manifest["seed"])
    assert again.digest() == config.digest(), "scenario, seed and data give another federation"
    assert manifest["status"] == "complete", f"the run is not complete: {manifest['status']}"
    return f"federation {config.digest()[:12]}, noise {manifest['noise']}"


def _caps(config: FederationConfig, batches: list[Batch]) -> str:
    asked, answered = sum(len(b.query_ids) for b in batches), sum(int(b.answered.sum()) for b in batches)
    assert asked <= config.caps.queries, f"{asked} queries asked, the cap is {config.caps.queries}"
    assert answered <= config.caps.answers, f"{answered} labels, the cap is {config.caps.answers}"
    return f"{asked} of {config.caps.queries} queries, {answered} of {config.caps.answers} labels"


def _events(config: FederationConfig, batches: list[Batch]) -> str:
    for number, batch in enumerate(batches, 1):
        expected = config.event(len(batch.query_ids), int(batch.answered.sum())).to_json()
        differing = sorted(key for key in expected if batch.event.get(key) != expected[key])
        assert batch.event == expected, f"batch {number}: the event differs in {', '.join(differing) or 'its keys'}"
    return config.mechanism.describe()


def _sanitised(config: FederationConfig, batches: list[Batch], found: dict[str, Any] | None) -> str:
    """The released number, up to its noise, from the histograms in the ledger; the charge from the plan."""
    planned, event = config.privacy.sanitised, config.closing_event()
    assert planned is not None
    assert event is not None
    if found is None:
        return "planned, not released"
    assert found["event"] == event.to_json(), "the charge is not that of the plan"
    assert all(batch.histogram is not None for batch in batches), "the ledger lacks histograms"
    plan, moved = planned.plan(), event.votes_moved
    again = sanitise(answered_batches(batches), plan, config.privacy.delta, most_teachers(batches), lambda: 0.0)
    assert math.isclose(found["release_cost"], plan.cost(moved), rel_tol=TOLERANCE), "the release's cost is another"
    claimed, without_noise = found["guarantee"]["epsilon"], again.guarantee.epsilon
    gap = (found["released_rdp"] - again.released_rdp) - (claimed - without_noise)
    assert abs(gap) < TOLERANCE, "the released curve and the epsilon do not belong together"
    secret = secret_smoothness(answered_batches(batches), plan, most_teachers(batches))
    scale = group_smooth_sensitivity(secret.smooth, plan.beta, moved)[0] * plan.sigma_ss
    away = abs(found["released_rdp"] - again.released_rdp)
    assert away <= MOST_DEVIATIONS * scale + ROUNDING, "further from the ledger's votes than its noise explains"
    return f"{claimed:.4f}, of which the release itself costs {found['release_cost']:.4f}"


def _claims(run_dir: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Where epsilons are claimed, and which: file -> name of the guarantee -> epsilon as it is written."""
    coordinator = read_table(run_dir / "coordinator.json")["privacy"]
    yield "coordinator.json", {name: claim["epsilon"] for name, claim in coordinator.items()}
    names = {
        "promised": "epsilon_promised",
        "worst_case": "epsilon_worst_case",
        "data_dependent": "epsilon_data_dependent",
        "sanitised": "epsilon_sanitised",
    }
    summary = read_table(run_dir / "summary.json")["privacy"]
    yield "summary.json", {name: summary[key] for name, key in names.items() if summary[key] is not None}
    report = read_table(run_dir / "private" / "report.json")["guarantees"]
    yield "the report's data", {name: claim["epsilon"] for name, claim in report.items()}
    student = read_table(run_dir / "student" / "student.json")["privacy"]
    yield "the student's card", {"promised": student["epsilon_worst_case"]}


def _compare(claims: dict[str, Any], recomputed: dict[str, float]) -> str:
    for name, claim in claims.items():
        epsilon, truth = float(claim), recomputed[name]
        same = epsilon == truth or math.isclose(epsilon, truth, rel_tol=TOLERANCE)
        assert same, f"{name}: claimed {epsilon:.6g}, the ledger gives {truth:.6g}"
    return ", ".join(f"{name} {float(claim):.4f}" for name, claim in claims.items())


def _labels(run_dir: Path, config: FederationConfig, batches: list[Batch]) -> str:
    recorded = {
        query_id: (Outcome(int(outcome)).name.lower(), int(label))
        for batch in batches
        for query_id, outcome, label in zip(batch.query_ids, batch.outcomes, batch.labels, strict=True)
    }
    frame = pl.read_parquet(run_dir / "labels.parquet").filter(pl.col("outcome") != "not_asked")
    names = config.rows.classes
    for query_id, outcome, label in frame.select("query_id", "outcome", "label").iter_rows():
        expected, index = recorded[query_id]
        assert (outcome, label) == (expected, names[index] if index >= 0 else None), "a label is not the recorded one"
    return f"{frame.height} outcomes"
