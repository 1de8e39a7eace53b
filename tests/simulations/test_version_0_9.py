"""Folders that version 0.9.0 wrote are read under today's names.

`version_0_9/folders.tar.xz`: a Confident run of a made-up table and a study of it, without pages, votes and model.
"""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import polars as pl
import pytest

from consilium.coordinator.verify import RunPlace, Verdict, verify_run, verify_student
from consilium.protocol.labels import labels_pb2
from consilium.report.disclosure import epsilon_text
from consilium.simulations.council.runs import Run
from consilium.simulations.council.studies import StudyResults
from consilium.simulations.report.build import render
from consilium.simulations.report.data import load_report_data
from consilium.simulations.study.results import open_study

GUARANTEE, SPENT, DATA_DEPENDENT = 14.614296079073979, 13.369409763474108, 12.7074831507601


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("version-0-9")
    with tarfile.open(Path(__file__).parent / "version_0_9" / "folders.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder


def test_it_is_an_old_one(old: Path) -> None:
    """One name for two numbers: what these tests are about."""
    summary, card = (json.loads((old / "run" / name).read_text()) for name in ("summary.json", "student/student.json"))
    assert summary["privacy"]["epsilon_worst_case"] == SPENT
    assert card["privacy"]["epsilon_worst_case"] == GUARANTEE


def test_the_audit_of_its_claims(old: Path) -> None:
    run = verify_run(RunPlace(old / "run"), finished=True)
    assert [found for found in run.findings if not found.holds] == []
    assert run.recorded is not None
    checks = verify_student(old / "run", run.recorded, run.guarantees["student"], finished=True)
    found = {finding.check: finding for finding in checks.findings}
    assert found["student/student.json: federation and epsilon"].verdict is Verdict.HOLDS


@pytest.mark.parametrize("name", ["spent", "worst_case"])
def test_a_claim_under_either_name_is_compared(old: Path, tmp_path: Path, name: str) -> None:
    coordinator = json.loads((old / "run" / "coordinator.json").read_text())
    claim = coordinator["privacy"].pop("worst_case")
    coordinator["privacy"][name] = {**claim, "epsilon": claim["epsilon"] / 2}
    for file in ("events.jsonl", "ledger.db"):
        (tmp_path / file).write_bytes((old / "run" / file).read_bytes())
    (tmp_path / "coordinator.json").write_text(json.dumps(coordinator))
    failed = [found.check for found in verify_run(RunPlace(tmp_path), finished=True).findings if not found.holds]
    assert failed == ["coordinator.json: epsilon"]


def test_both_names_in_one_file_are_refused(old: Path, tmp_path: Path) -> None:
    coordinator = json.loads((old / "run" / "coordinator.json").read_text())
    coordinator["privacy"]["spent"] = coordinator["privacy"]["worst_case"]
    for file in ("events.jsonl", "ledger.db"):
        (tmp_path / file).write_bytes((old / "run" / file).read_bytes())
    (tmp_path / "coordinator.json").write_text(json.dumps(coordinator))
    failed = [found.check for found in verify_run(RunPlace(tmp_path), finished=True).findings if not found.holds]
    assert failed == ["coordinator.json: epsilon"]


def test_from_python(old: Path) -> None:
    run = Run(old / "run")
    assert run.privacy.epsilon == GUARANTEE
    assert run.summary["privacy"]["epsilon_spent"] == SPENT
    assert "epsilon_worst_case" not in run.summary["privacy"]
    assert run.summary["privacy"]["epsilon_guaranteed"] > SPENT
    assert (run.summary["privacy"]["collection"], run.privacy.collection) == ("plaintext", "plaintext")
    assert run.votes_asked["secret_epsilon_spent"][-1] == pytest.approx(SPENT)
    assert run.metrics.filter(pl.col("metric") == "epsilon_worst_case").is_empty()


def test_its_report_is_drawn(old: Path) -> None:
    data = load_report_data(old / "run" / "private")
    assert data.guarantees["spent"]["epsilon"] == SPENT
    assert data.epsilon_spent[-1] == pytest.approx(SPENT)
    full, public = render(data), render(data, public=True)
    assert epsilon_text(SPENT) in full
    assert epsilon_text(SPENT) not in public


def test_its_study(old: Path) -> None:
    for results in (StudyResults(old / "study").frame, open_study(old / "study").results):
        of_cost = results.filter(pl.col("metric").str.starts_with("epsilon"))
        assert set(of_cost["metric"]) >= {"epsilon", "epsilon_spent", "epsilon_data_dependent"}
        assert "epsilon_worst_case" not in set(of_cost["metric"])
        wide = of_cost.pivot("metric", index="cell", values="value")
        assert (wide["epsilon_spent"] < wide["epsilon"]).any()


def test_its_messages() -> None:
    """The number of the field is what it was: a node of 0.9 and one of today read each other's terms."""
    assert labels_pb2.Terms.DESCRIPTOR.fields_by_name["epsilon"].number == 7
    assert labels_pb2.Terms.FromString(bytes.fromhex("39000000000000f83f")).epsilon == 1.5  # field 7, a double
