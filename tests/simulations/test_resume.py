"""kill -9 at any moment, resume: the same labels, the same charge, the chain intact."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from consilium.coordinator.config import FederationConfig
from consilium.coordinator.events import StudentSaved, read_events
from consilium.coordinator.ledger import Ledger
from consilium.coordinator.verify import holds
from consilium.models.published.model import MODEL_FILE, load_model
from consilium.protocol.errors import ConfigError, FailedAfterRelease
from consilium.simulations.analysis import Analysis
from consilium.simulations.audit import audit_path
from consilium.simulations.datasets.source import load_dataset
from consilium.simulations.datasets.spec import PublicSpec
from consilium.simulations.divide import Case, federation_config
from consilium.simulations.population.partition import natural_partition
from consilium.simulations.progress import EVENTS
from consilium.simulations.run import resume_run, run_scenario
from consilium.simulations.scenario import load_scenario
from consilium.simulations.workspace import Workspace
from tests.marks import some
from tests.simulations.engines.test_engines_agree import quiet

ROOT = Path(__file__).resolve().parents[2]
SMALL = [
    "data.least_rows=150",
    "federation.minimum_parties=5",
    "federation.voting_rule={rule='relative'}",
    "federation.mechanism={name='confident', threshold=10, sigma1=20.0, sigma2=8.0}",
    "federation.query_budget.queries=300",
    "federation.query_budget.answers=200",
    "student.batch=10",
    "student.rounds=2",
    "student.selection=margin",
    "federation.timeouts.enrol=250",
    "simulation.hand_labels=none",
]


def start(folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, "-m", "consilium", "run", *arguments],
        cwd=folder,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def first_run(folder: Path, out: str, votes: str) -> subprocess.Popen[bytes]:
    changes = [*SMALL, f"federation.collection={votes}"]
    return start(folder, "--seed", "4", "--out", out, *[part for item in changes for part in ("--set", item)])


def config(votes: str) -> FederationConfig:
    scenario, data = load_scenario("stroke", [*SMALL, f"federation.collection={votes}"]), load_dataset("stroke")
    return federation_config(scenario, data, natural_partition(data, PublicSpec(share=0.2), 150, 5, 4), 4)


def ledger_of(run: Path, votes: str = "plaintext") -> dict[str, tuple[int, int]]:
    ledger = Ledger(run / "ledger.db", config(votes).digest(), "")
    try:
        ids = [query_id for batch in ledger.batches() for query_id in batch.query_ids]  # checks the chain
        assert len(ids) == len(set(ids))
        return {name: (int(found.outcome), found.label) for name, found in ledger.find(ids).items()}
    finally:
        ledger.close()


def crash_loop(folder: Path, kills: int, seed: int, votes: str = "plaintext") -> dict[str, int]:
    """Kill a run `kills` times at random moments, resuming each time; returns how often each stage was hit."""
    generator, out = random.Random(seed), "crashed"
    began = time.monotonic()
    scenario = load_scenario("stroke", [*SMALL, f"federation.collection={votes}"])
    run_scenario("stroke", scenario, "local", 4, folder / "straight", quiet)
    length = time.monotonic() - began
    expected = ledger_of(folder / "straight", votes)
    hits: dict[str, int] = {}
    seen: dict[str, tuple[int, int]] = {}
    process = first_run(folder, out, votes)
    done = 0
    while done < kills:
        time.sleep(generator.uniform(0, length))
        finished = process.poll() is not None
        process.send_signal(signal.SIGKILL)
        process.wait()
        run = folder / out
        if not (run / "manifest.json").exists():  # killed before it had begun: nothing to resume
            hits["before the run"] = hits.get("before the run", 0) + 1
            subprocess.run(["rm", "-rf", str(run)], check=True)
            process, done = first_run(folder, out, votes), done + 1
            continue
        if (run / "ledger.db").exists() and (run / "ledger.db").stat().st_size:
            now = ledger_of(run, votes)
            assert seen.items() <= now.items()  # nothing is lost, nothing changes
            assert now.items() <= expected.items()
            seen = now
        stage = "finished" if finished else f"{len(seen) * 10 // max(1, len(expected)) * 10} % of the labels"
        hits[stage] = hits.get(stage, 0) + 1
        done += 1
        if len(seen) == len(expected) and done < kills:
            process, seen = first_run(folder, out := f"{out}x", votes), {}
        else:
            process = start(folder, "--resume", out)
    process.wait()
    run = folder / out
    if json.loads((run / "manifest.json").read_text())["status"] != "complete":
        assert start(folder, "--resume", out).wait() == 0
    assert ledger_of(run, votes) == expected
    straight_summary, summary = (json.loads((folder / name / "summary.json").read_text()) for name in ("straight", out))
    for key in ("queries", "privacy", "student"):
        assert summary[key] == straight_summary[key]
    left, right = (pl.read_parquet(folder / name / "labels.parquet") for name in ("straight", out))
    assert left.equals(right)
    return hits


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_killed_and_resumed_runs_end_like_one_that_was_left_alone(tmp_path: Path) -> None:
    """Three kills at most."""
    crash_loop(tmp_path, kills=some(3), seed=1)


def test_killed_while_it_is_compared_it_leaves_a_student_and_can_be_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model is in its folder, and was told of, before anything is compared; done again, it comes out the same."""
    out = tmp_path / "run"

    def killed(space: Workspace, case: Case, progress: object, begin: object) -> Analysis:
        (saved,) = [event for event in read_events(out / EVENTS) if isinstance(event, StudentSaved)]
        card = json.loads((out / "student" / "student.json").read_text())
        assert saved.value == card["metrics"]["auc"]
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr("consilium.simulations.analysis.analyse", killed)
        run_scenario("stroke", load_scenario("stroke", SMALL), "local", 4, out, quiet)
    assert json.loads((out / "manifest.json").read_text())["status"] == "interrupted"
    files = [out / "student" / name for name in (MODEL_FILE, "student.json", "MODEL_CARD.md")]
    before = [file.read_bytes() for file in files]
    model = load_model(files[0])
    assert model.predict_proba(np.zeros((1, len(model.schema.features)))).shape == (1, 2)
    summary = resume_run(out, quiet)
    assert [file.read_bytes() for file in files] == before
    assert summary["student"] == json.loads(before[1])["metrics"]


@pytest.mark.slow
def test_a_student_that_fails_leaves_its_answers_and_another_learns_from_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It fails in the first of two rounds: the second is asked as it goes on, and the first is charged once."""
    out = tmp_path / "run"

    def fails(*_: object, **__: object) -> None:
        raise ZeroDivisionError("of a private row")

    with monkeypatch.context() as patched:
        patched.setattr("consilium.student.learn.train", fails)
        with pytest.raises(FailedAfterRelease, match=r"^ZeroDivisionError at .* 150 queries .*run --resume") as raised:
            run_scenario("stroke", load_scenario("stroke", SMALL), "local", 4, out, quiet)
    assert "private row" not in str(raised.value) + (out / "manifest.json").read_text()
    assert raised.value.run_dir == str(out)
    first, before = pl.read_parquet(out / "labels.parquet"), ledger_of(out)
    assert first.height == len(before) == 150
    other = ["student.trainer.name=graph"]
    with pytest.raises(ConfigError, match=r"--set student\.queries=20 \(the run has another value\)"):
        resume_run(out, quiet, overrides=[*other, "student.queries=20"])
    summary = resume_run(out, quiet, overrides=other)
    assert summary["queries"]["asked"] == len(ledger_of(out)) > 150
    assert before.items() <= ledger_of(out).items()
    assert pl.read_parquet(out / "labels.parquet").head(150).equals(first)
    assert json.loads((out / "manifest.json").read_text())["config"]["student"]["trainer"]["name"] == "graph"
    assert holds(audit_path(out).findings)


@pytest.mark.parametrize("content", [None, "{", '{"status": "complete", "format": 1}', '{"status": "x", "format": 99}'])
def test_what_cannot_be_resumed(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "manifest.json").write_text(content)
    with pytest.raises(ConfigError, match=r"cannot read|damaged|complete|format 99"):
        resume_run(tmp_path, quiet)
