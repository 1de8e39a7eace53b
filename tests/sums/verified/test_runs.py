"""A whole simulated run with verified votes: an audit that holds, and one that does not."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from consilium.coordinator.privacy import promised
from consilium.simulations.audit import audit_path
from consilium.simulations.run import run_scenario
from consilium.simulations.scenario import load_scenario
from tests.simulations.engines.test_engines_agree import quiet

FEW = [
    'federation.mechanism={name="histogram", sigma=112.1}',
    "data.least_rows=150",
    "federation.minimum_parties=10",
    "federation.query_budget.queries=30",
    "federation.query_budget.answers=30",
    "federation.timeouts.enrol=600",
    "simulation.manual_labels=none",
]
CHECK = "aggregator.db: sums that were signed"


def run(folder: Path, engine: str, *changes: str) -> dict:
    scenario = load_scenario("stroke", [*FEW, *changes])
    return run_scenario("stroke", scenario, engine, 3, folder, quiet)  # type: ignore[arg-type]


def wrong(folder: Path) -> set[str]:
    return {finding.check for finding in audit_path(folder).findings if not finding.holds}


@pytest.fixture(scope="module")
def verified(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("verified") / "run"
    privacy = run(folder, "local", "federation.collection=verified")["privacy"]
    # with noise in the sums there are two promises: the student's is that of plaintext votes
    clear = promised(load_scenario("stroke", FEW).federation).epsilon
    assert privacy["epsilon_guaranteed"] == privacy["epsilon_student"] == pytest.approx(clear, rel=1e-12)
    assert 1.1 < privacy["epsilon_nodes"] / clear < 1.6
    return folder


def test_the_audit_holds(verified: Path) -> None:
    assert wrong(verified) == set()
    (signed,) = (finding for finding in audit_path(verified).findings if finding.check == CHECK)
    assert signed.found == "1 of 1 signed sums, each with noise of the second aggregator, sigma 79.27"


def with_row(change: Callable[[dict], dict]) -> Callable[[Path], None]:

    def apply(folder: Path) -> None:
        with sqlite3.connect(folder / "aggregator.db") as file:
            file.row_factory = sqlite3.Row
            changes = change(dict(file.execute("SELECT * FROM sums").fetchone()))
            file.execute(f"UPDATE sums SET {', '.join(f'{name} = ?' for name in changes)}", [*changes.values()])

    return apply


def with_file(name: str, change: Callable[[bytes], bytes]) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes(change((folder / name).read_bytes()))


def no_record(folder: Path) -> None:
    with sqlite3.connect(folder / "aggregator.db") as file:
        file.execute("DELETE FROM sums")


def fewer_parties(row: dict) -> dict:
    record = json.loads(row["record"])
    record["accepted"] = record["accepted"][1:]
    return {"record": json.dumps(record, sort_keys=True, separators=(",", ":")).encode()}


def one_vote_more(who: str) -> Callable[[Path], None]:
    """In the total of one aggregator, after it was bound to it."""
    return with_row(lambda row: {who: bytes([row[who][0] ^ 1]) + row[who][1:]})


FORGED: dict[str, Callable[[Path], object]] = {
    "another total of the coordinator": one_vote_more("leader"),
    "another total of the second aggregator": one_vote_more("helper"),
    "no record": no_record,
    "no database": with_file("aggregator.db", lambda _: b"{}" * 3000),
    "no roster": lambda folder: (folder / "roster.json").unlink(),
    "fewer parties": with_row(fewer_parties),
    "other queries": with_row(lambda row: {"ids": json.dumps(json.loads(row["ids"])[::-1])}),
    "no signature": with_row(lambda _: {"signature": bytes(64)}),
    "another roster": with_file("roster.json", lambda content: content.replace(b'"c": 0', b'"c": 1')),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_record_is_found(verified: Path, tmp_path: Path, name: str) -> None:
    shutil.copytree(verified, tmp_path / "run")
    FORGED[name](tmp_path / "run")
    assert CHECK in wrong(tmp_path / "run")


def test_control_without_commitments_another_total_is_not_found(verified: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("consilium.coordinator.collection.kept_sums.KeptSum.check_halves", lambda *_: None)
    shutil.copytree(verified, tmp_path / "run")
    one_vote_more("leader")(tmp_path / "run")
    assert CHECK not in wrong(tmp_path / "run")
