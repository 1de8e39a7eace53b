"""A whole run of parties with weights: what it writes, how it goes on after a crash, and forged weights."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from consilium.coordinator.config import FederationConfig
from consilium.coordinator.events import EventLog
from consilium.coordinator.federation import FederationRun, Student
from consilium.coordinator.ledger import Ledger
from consilium.coordinator.mechanisms import NoisyHistogram
from consilium.coordinator.privacy import promised_at
from consilium.coordinator.verify import RunPlace, verify_run
from consilium.protocol.label_source import LabelSource
from consilium.report.disclosure import epsilon_text
from tests.coordinator.verify.runs import rechain
from tests.federation import FakeTransport, make_config, make_home, make_rows

CONFIG = make_config(
    most_weight=3, mechanism=NoisyHistogram(sigma=60.0), query_budget={"queries": 40, "answers": 40}, minimum_parties=3
)
WEIGHTS = {"p00": 1, "p01": 3, "p02": 2, "p03": 3}
OWN = "coordinator.json: weights, and each party's own epsilon"
LEDGER = "ledger.db: structure, hash chain and counts"


def homes_of(root: Path, config: FederationConfig = CONFIG) -> list[Path]:
    return [
        make_home(root / name, name, seed=at, most_epsilon=promised_at(config, weight).epsilon * 1.01)
        for at, (name, weight) in enumerate(WEIGHTS.items())
    ]


class Crash(Exception):
    """The end of a coordinator's life in the middle of its run."""


def run_in(folder: Path, homes: list[Path], rows: slice, crash: bool = False) -> Any:
    """One life of a coordinator whose student asks these rows; returns their histograms."""
    folder.mkdir(exist_ok=True)
    answers: list[Any] = []

    def student(source: LabelSource) -> None:
        answers.append(source.ask(make_rows(30, 3)[0][rows]))
        if crash:
            raise Crash

    log = EventLog(folder / "events.jsonl")
    try:
        with contextlib.suppress(Crash):
            FederationRun(FakeTransport(homes), CONFIG, folder, log, Student(student, None)).run()
    finally:
        log.close()
    return answers[0].histograms


@pytest.fixture
def run(tmp_path: Path) -> Path:
    run_in(tmp_path / "run", homes_of(tmp_path / "homes"), slice(0, 10))
    return tmp_path / "run"


def test_weights_and_own_epsilons_are_written_and_hold(run: Path) -> None:
    summary = json.loads((run / "coordinator.json").read_text())
    assert summary["by_party"] == {
        name: {"weight": weight, "epsilon": promised_at(CONFIG, weight).epsilon} for name, weight in WEIGHTS.items()
    }
    assert summary["privacy"]["guarantee"]["epsilon"] == promised_at(CONFIG, 3).epsilon
    found = {finding.check: finding for finding in verify_run(RunPlace(run)).findings}
    assert all(finding.holds for finding in found.values())
    one, two, three = (epsilon_text(promised_at(CONFIG, weight).epsilon) for weight in (1, 2, 3))
    assert found[OWN].found == (
        f"1 x weight 1, epsilon {one}; 1 x weight 2, epsilon {two}; 2 x weight 3, epsilon {three}"
    )


def test_weights_stay_when_a_run_goes_on(tmp_path: Path) -> None:
    """Half of it in one life of the coordinator; then one party's policy allows more, and another's less."""
    homes, folder = homes_of(tmp_path / "homes"), tmp_path / "run"
    first = run_in(folder, homes, slice(0, 10), crash=True)
    settings = homes[0] / "party.toml"
    settings.write_text(settings.read_text().replace("most_epsilon", "most_epsilon = inf\n#"))
    settings = homes[2] / "party.toml"
    settings.write_text(settings.read_text().replace("most_epsilon", "most_epsilon = 0.001\n#"))
    again = run_in(folder, homes, slice(5, 20))
    assert first.votes.tolist() == [9] * 10
    assert again.votes.tolist() == [9] * 15  # p02 refuses now, which no student is told; p00 counts once as before
    assert again.counts[:5].tolist() == first.counts[5:].tolist()
    ledger = Ledger(folder / "ledger.db", CONFIG.digest(), "", read_only=True)
    assert ledger.weights() == WEIGHTS
    assert [batch.votes for batch in ledger.batches()] == [9, 7]
    ledger.close()
    assert [finding for finding in verify_run(RunPlace(folder)).findings if not finding.holds] == []


def edit(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    def apply(run: Path) -> None:
        content = json.loads((run / "coordinator.json").read_text())
        change(content)
        (run / "coordinator.json").write_text(json.dumps(content))

    return apply


def rechained(statement: str) -> Callable[[Path], None]:
    def apply(run: Path) -> None:
        with sqlite3.connect(run / "ledger.db") as ledger:
            ledger.execute(statement)
        rechain(run / "ledger.db")

    return apply


FORGED = {
    "a smaller epsilon": (edit(lambda told: told["by_party"]["p01"].update(epsilon=0.1)), OWN),
    "a smaller weight": (edit(lambda told: told["by_party"]["p01"].update(weight=1)), OWN),
    "a party without a weight": (edit(lambda told: told["by_party"].pop("p01")), OWN),
    "no weights": (edit(lambda told: told.pop("by_party")), OWN),
    "a weight above the most": (rechained("UPDATE weights SET weight = 4 WHERE party = 'p01'"), LEDGER),
    "more votes than the parties have": (rechained("UPDATE sums SET votes = 10"), LEDGER),
    "fewer votes than the parties have": (rechained("UPDATE sums SET votes = 8"), LEDGER),
    "no votes": (rechained("DELETE FROM sums"), LEDGER),
}


@pytest.mark.parametrize("case", FORGED)
def test_forged_weights_are_found(run: Path, case: str) -> None:
    forge, check = FORGED[case]
    forge(run)
    assert [finding.check for finding in verify_run(RunPlace(run)).findings if not finding.holds] == [check]
