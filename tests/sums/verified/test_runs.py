"""Whole simulated runs with verified votes: the labels of plaintext ones, an audit that holds, and one that does
not."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from consilium.coordinator.privacy import promised
from consilium.simulations.audit import audit_path
from consilium.simulations.run import run_scenario
from consilium.simulations.scenario import load_scenario
from consilium.sums.packing import pack, unpack
from tests.simulations.engines.test_engines_agree import quiet

pytestmark = pytest.mark.slow
FEW = [
    'federation.mechanism={name="histogram", sigma=112.1}',
    "data.least_rows=150",
    "federation.minimum_parties=10",
    "federation.query_budget.queries=30",
    "federation.query_budget.answers=30",
    "federation.timeouts.enrol=600",
    "simulation.hand_labels=none",
]


def run(folder: Path, engine: str, *changes: str) -> dict:
    scenario = load_scenario("stroke", [*FEW, *changes])
    return run_scenario("stroke", scenario, engine, 3, folder, quiet)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def verified(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("verified") / "run"
    run(folder, "local", "federation.collection=verified")
    return folder


def test_the_second_aggregator_is_named_and_the_page_says_who_sees_what(verified: Path) -> None:
    events = [json.loads(line) for line in (verified / "events.jsonl").read_text().splitlines()]
    assert next(each["name"] for each in events if each["event"] == "second-aggregator") == "second-aggregator"
    assert not [each for each in events if each["event"] == "left-out"], "a second aggregator is no party that is lost"
    assert "unless these two worked together" in (verified / "report.html").read_text()


def test_the_audit_holds(verified: Path) -> None:
    findings = audit_path(verified).findings
    assert [finding for finding in findings if not finding.holds] == []
    (signed,) = (finding for finding in findings if "signed" in finding.check)
    assert signed.found.startswith("1 of 1 signed sums, each with noise of the second aggregator")


@pytest.mark.parametrize("votes", ["secure", "verified"])
def test_with_noise_in_the_sums_of_any_mechanism_there_are_two_promises(tmp_path: Path, votes: str) -> None:
    """The student's is that of plaintext votes; the nodes' is of less noise, and the audit computes both."""
    privacy = run(tmp_path / "run", "local", f"federation.collection={votes}")["privacy"]
    clear = promised(load_scenario("stroke", FEW).federation).epsilon
    assert privacy["epsilon_guaranteed"] == privacy["epsilon_student"] == pytest.approx(clear, rel=1e-12)
    assert 1.1 < privacy["epsilon_nodes"] / clear < 1.6
    assert privacy["towards"] == "student"
    findings = {finding.check: finding for finding in audit_path(tmp_path / "run").findings}
    assert [finding for finding in findings.values() if not finding.holds] == []
    if votes == "verified":
        assert findings["aggregator.jsonl: sums that were signed"].found.endswith("second aggregator, sigma 79.27")
    path = tmp_path / "run" / "coordinator.json"
    claims = json.loads(path.read_text())
    assert "data_dependent" in claims["privacy"]
    claims["privacy"]["nodes"] = {**claims["privacy"]["nodes"], "epsilon": privacy["epsilon_student"]}
    path.write_text(json.dumps(claims))
    wrong = [finding.check for finding in audit_path(tmp_path / "run").findings if not finding.holds]
    assert "coordinator.json: counts and epsilon" in wrong


def records(change: Callable[[dict], None]) -> Callable[[Path], None]:
    def apply(run: Path) -> None:
        path = run / "aggregator.jsonl"
        line = json.loads(path.read_text())
        change(line)
        path.write_text(json.dumps(line) + "\n")

    return apply


def fewer_parties(line: dict) -> None:
    record = json.loads(line["record"])
    record["accepted"] = record["accepted"][1:]
    line["record"] = json.dumps(record, sort_keys=True, separators=(",", ":"))


def total(who: str) -> Callable[[Path], None]:
    """One vote more in the total of one aggregator, after it was bound to it."""

    def apply(run: Path) -> None:
        (path,) = (run / "halves").iterdir()
        fields = unpack(path.read_bytes())
        moved = np.array(fields[who])
        moved[0, 0] += 1
        path.write_bytes(pack({**fields, who: moved}))

    return apply


def no_totals(run: Path) -> None:
    shutil.rmtree(run / "halves")


FORGED: dict[str, Callable[[Path], object]] = {
    "another total of the coordinator": total("leader"),
    "another total of the second aggregator": total("helper"),
    "no totals": no_totals,
    "no record": lambda run: (run / "aggregator.jsonl").write_text(""),
    "no file": lambda run: (run / "aggregator.jsonl").unlink(),
    "no roster": lambda run: (run / "roster.json").unlink(),
    "fewer parties": records(fewer_parties),
    "other queries": records(lambda line: line["ids"].reverse()),
    "no signature": records(lambda line: line.update(signature="00" * 64)),
    "another roster": lambda run: (run / "roster.json").write_text(
        (run / "roster.json").read_text().replace('"c": 0', '"c": 1')
    ),
}


def test_control_without_commitments_another_total_is_not_found(verified: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("consilium.coordinator.verify.aggregator.read_halves", lambda *_: None)
    shutil.copytree(verified, tmp_path / "run")
    total("leader")(tmp_path / "run")
    wrong = {finding.check for finding in audit_path(tmp_path / "run").findings if not finding.holds}
    assert "aggregator.jsonl: sums that were signed" not in wrong


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_record_is_found(verified: Path, tmp_path: Path, name: str) -> None:
    forged = tmp_path / "run"
    shutil.copytree(verified, forged)
    FORGED[name](forged)
    wrong = {finding.check for finding in audit_path(forged).findings if not finding.holds}
    assert "aggregator.jsonl: sums that were signed" in wrong


@pytest.mark.ray
@pytest.mark.proofs
def test_on_ray_as_on_this_machine(verified: Path, tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="Ray is not installed (extra `ray`)")
    run(tmp_path / "ray", "ray", "federation.collection=verified")
    labels = [pl.read_parquet(each / "labels.parquet").sort("query_id") for each in (verified, tmp_path / "ray")]
    assert labels[0].equals(labels[1])
