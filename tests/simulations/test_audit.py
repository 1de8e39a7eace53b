"""The audit of a run says yes to a sound one, and no to every kind of tampering."""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from protocol.errors import DataError
from simulations.audit import audit_run
from simulations.run import run_scenario
from simulations.scenario import load_scenario
from tests.simulations.test_engines_agree import quiet
from tests.simulations.test_resume import SMALL


@pytest.fixture(scope="module")
def sound(tmp_path_factory) -> Path:
    """A small finished run."""
    out = tmp_path_factory.mktemp("audit") / "run"
    run_scenario("stroke", load_scenario("stroke", [*SMALL, "student.batch=50"]), "local", 4, out, quiet)
    return out


def failed(run: Path) -> list[str]:
    return [finding.check for finding in audit_run(run) if not finding.holds]


def test_a_sound_run_passes(sound: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in sound.rglob("*")}
    assert failed(sound) == []
    assert {path: path.stat().st_mtime_ns for path in sound.rglob("*")} == before  # it changes nothing


def sql(statement: str) -> Callable[[Path], None]:
    def apply(run: Path) -> None:
        with sqlite3.connect(run / "ledger.db") as ledger:
            ledger.execute(statement)

    return apply


def edit(name: str, change: Callable[[dict], None]) -> Callable[[Path], None]:
    def apply(run: Path) -> None:
        content = json.loads((run / name).read_text())
        change(content)
        (run / name).write_text(json.dumps(content))

    return apply


def flip_label(run: Path) -> None:
    frame = pl.read_parquet(run / "labels.parquet")
    answered = np.flatnonzero((frame["outcome"] == "answered").to_numpy())[0]
    labels = frame["label"].to_list()
    labels[answered] = {"independent": "dead or dependent", "dead or dependent": "independent"}[labels[answered]]
    frame.with_columns(pl.Series("label", labels)).write_parquet(run / "labels.parquet")


SANITISED = ["privacy.sanitised.order=2.5", "privacy.sanitised.beta=0.05", "privacy.sanitised.sigma_ss=6"]


@pytest.fixture(scope="module")
def closed(tmp_path_factory) -> Path:
    """A small finished run that released a sanitised epsilon."""
    out = tmp_path_factory.mktemp("audit") / "run"
    run_scenario("stroke", load_scenario("stroke", [*SMALL, *SANITISED]), "local", 4, out, quiet)
    return out


def reclose(change: Callable[[dict], None]) -> Callable[[Path], None]:
    """Write another closing, with the right hash: what a coordinator that cheats would do."""

    def apply(run: Path) -> None:
        with sqlite3.connect(run / "ledger.db") as ledger:
            at, result, previous = ledger.execute("SELECT at, result, previous FROM closing").fetchone()
            content = json.loads(result)
            change(content)
            ledger.execute("DELETE FROM closing")
            text = json.dumps(content, sort_keys=True)
            link = hashlib.sha256(json.dumps([previous, "closing", at, text], separators=(",", ":")).encode())
            ledger.execute("INSERT INTO closing VALUES (1, ?, ?, ?, ?)", (at, text, previous, link.hexdigest()))

    return apply


def lower_curve(content: dict) -> None:
    content["released_rdp"] -= 50.0
    content["guarantee"]["epsilon"] -= 50.0


def test_a_run_that_was_closed_passes_and_says_so(closed: Path) -> None:
    assert failed(closed) == []
    summary = json.loads((closed / "summary.json").read_text())["privacy"]
    assert summary["epsilon_sanitised"] > 0
    assert summary["epsilon_worst_case"] <= summary["epsilon_promised"]
    report = (closed / "report.html").read_text()
    assert "Estimate released with noise" in report


@pytest.mark.parametrize(
    "change",
    [
        lower_curve,
        lambda content: content["guarantee"].update(epsilon=content["guarantee"]["epsilon"] / 2),
        lambda content: content.update(release_cost=0.0),
        lambda content: content["event"].update(sigma_ss=100.0),
    ],
    ids=["another curve", "another epsilon", "no cost", "another plan"],
)
def test_a_closing_that_does_not_follow_from_the_ledger_is_found(closed: Path, tmp_path: Path, change) -> None:
    run = tmp_path / "run"
    shutil.copytree(closed, run)
    reclose(change)(run)
    assert "sanitised epsilon: released once and as planned" in failed(run)


LEDGER = "ledger: hash chain, evidence and counts"
MANIFEST = "manifest: configuration and data"
TAMPERING: dict[str, tuple[Callable[[Path], None], str]] = {
    "a label in the ledger": (sql("UPDATE releases SET label = 1 - label WHERE outcome = 1"), LEDGER),
    "evidence": (sql("UPDATE evidence SET log_q_label = log_q_label - 1"), LEDGER),
    "a batch removed": (sql("DELETE FROM batches WHERE seq = 2"), LEDGER),
    "the last batch's count": (sql("UPDATE batches SET asked = asked - 1 WHERE seq = 1"), LEDGER),
    "the configuration": (sql("UPDATE meta SET value = replace(value, '\"sigma2\":8.0', '\"sigma2\":80.0')"), LEDGER),
    "promised epsilon": (
        edit("coordinator.json", lambda c: c["privacy"]["promised"].update(epsilon=0.1)),
        "epsilon: coordinator.json",
    ),
    "worst case, slightly": (
        edit("summary.json", lambda c: c["privacy"].update(epsilon_worst_case=c["privacy"]["epsilon_promised"] - 1e-4)),
        "epsilon: summary.json",
    ),
    "the report": (
        edit("private/report.json", lambda c: c["guarantees"]["data_dependent"].update(epsilon=0.2)),
        "epsilon: the report's data",
    ),
    "the student's card": (
        edit("student/student.json", lambda c: c["privacy"].update(epsilon_worst_case=0.3)),
        "epsilon: the student's card",
    ),
    "a label of the student": (flip_label, "labels: those of the ledger"),
    "another seed": (edit("manifest.json", lambda c: c.update(seed=5)), MANIFEST),
    "another sigma": (
        edit("manifest.json", lambda c: c["config"]["mechanism"].update(sigma2=9.0)),
        MANIFEST,
    ),
    "other data": (edit("manifest.json", lambda c: c["data"].update(sha256="0" * 64)), MANIFEST),
    "not finished": (edit("manifest.json", lambda c: c.update(status="running")), MANIFEST),
}  # fmt: skip


@pytest.mark.parametrize("case", TAMPERING)
def test_tampering_is_found(sound: Path, tmp_path: Path, case: str) -> None:
    tamper, expected = TAMPERING[case]
    shutil.copytree(sound, tmp_path / "run")
    tamper(tmp_path / "run")
    assert failed(tmp_path / "run") == [expected]


def test_what_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="has no manifest"):
        audit_run(tmp_path)
