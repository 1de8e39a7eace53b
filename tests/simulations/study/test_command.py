"""`consilium study`: its commands and options, and what becomes of a study that is killed."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from consilium.simulations.study.cache import StepCache
from consilium.simulations.study.results import FACTS_FILE, RESULTS
from tests.command_line import Done, consilium
from tests.simulations.study.test_run import SMALL
from tests.simulations.study.test_spec import merged
from tests.simulations.study.tiny import SCENARIO, write_tiny

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def study(tmp_path: Path) -> Path:
    return write_tiny(tmp_path, **SMALL)


def run(study: Path, *options: object) -> Done:
    """In this process, with a cache of its own."""
    folder = study.parent
    return consilium("study", study, "--workers", 1, "--cache", folder / "cache", "--out", folder / "out", *options)


def test_from_a_dry_run_to_the_citation(study: Path) -> None:
    ahead = run(study, "--dry-run", "--format", "json").json()
    assert (ahead["cells"], ahead["cases"], ahead["unsettled"], ahead["seconds"]) == (6, 2, 2, None)
    assert ahead["missing"] == {"settle": 2, "ensemble": 1}
    assert not (study.parent / "out").exists()
    done = run(study, "--format", "json")
    assert done.exit_code == 0, done.stderr
    summary = done.json()
    assert summary["steps"]["from_cache"] == 0 and summary["failed"] == []
    assert summary["cache"]["files"] == summary["steps"]["computed"]
    again = run(study, "--dry-run", "--format", "json").json()
    assert (again["missing"], again["unsettled"], again["seconds"]) == ({}, 0, 0)
    assert sum(again["kept"].values()) == summary["steps"]["computed"]
    more = run(study, "--dry-run", "--format", "json", "--seeds", 3).json()
    assert more["unsettled"] == 4 and more["seconds"] > 0
    cited = consilium("study", "cite", study.parent / "out", "--format", "json").json()
    assert cited["seeds"] == [0] and len(cited["data"][0]["sha256"]) == 64 and "numpy" in cited["versions"]
    assert cited["command"] == f"consilium study {study} --out {study.parent}/out --cache {study.parent}/cache"
    text = consilium("study", "cite", study.parent / "out").stdout
    assert cited["spec_digest"] in text and cited["command"] in text


@pytest.mark.parametrize(
    ("federation", "key"),
    [
        ({"mechanism": {"name": "confident"}}, "federation: mechanism.threshold"),
        ({"mechanism": {"name": "gnmax", "sigmas": 3}}, "federation: mechanism.sigmas"),
        ({"query_budget": {"queries": 0, "answers": 0}}, "query_budget.queries: must be at least 1"),
    ],
)
def test_noise_that_will_be_calibrated_hides_no_other_fault_from_a_dry_run(tmp_path: Path, federation, key) -> None:
    base = merged(SCENARIO, {"federation": {"privacy": {"epsilon": 1.0}, "mechanism": {"name": "gnmax"}}})
    base["federation"] |= federation
    base["federation"]["mechanism"].pop("sigma", None)
    done = run(write_tiny(tmp_path, **{**SMALL, "axis": [], "base": base}), "--dry-run")
    assert done.exit_code == 2 and key in done.stderr


def test_text_says_what_was_computed_and_where_it_is(study: Path) -> None:
    done = run(study)
    assert "6 cells: " in done.stdout and "0 found in the cache" in done.stdout
    assert f"results: {study.parent}/out/results.parquet" in done.stdout
    assert "divisions' teachers train" in done.stderr
    quiet = run(study, "--quiet")
    assert (quiet.output, quiet.exit_code) == ("", 0)


def test_the_cache_is_measured_and_cleared(study: Path) -> None:
    run(study)
    where = ("--cache", study.parent / "cache", "--format", "json")
    size = consilium("study", "cache", *where).json()
    assert size["files"] > 10 and size["bytes"] > 1000 and not size["cleared"]
    assert consilium("study", "cache", "--clear", *where).json()["files"] == size["files"]
    assert consilium("study", "cache", *where).json()["files"] == 0


def test_shipped_studies_are_listed() -> None:
    done = consilium("study", "list", "--format", "json")
    assert done.exit_code == 0 and all(each["title"] for each in done.json()["studies"])


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["study", "nothing"], 2, "no study 'nothing'"),
        (["study", "{study}", "--ray", "auto", "--workers", "2"], 2, "leave one of --ray and --workers out"),
        (["study", "cite", "{folder}"], 2, "has no study.json"),
    ],
)
def test_a_mistake_is_one_line(study: Path, arguments: list[str], code: int, told: str) -> None:
    words = [each.format(study=study, folder=study.parent) for each in arguments]
    done = consilium(*words)
    assert (done.exit_code, done.stdout) == (code, "")
    last = done.stderr.strip().splitlines()[-1]
    assert told in last and last.startswith("consilium: ")


def start(study: Path, cache: str, workers: int) -> subprocess.Popen[bytes]:
    """`consilium study` in a process of its own."""
    folder = study.parent
    command = [sys.executable, "-m", "consilium", "study", str(study), "--workers", str(workers), "--quiet"]
    return subprocess.Popen(
        [*command, "--cache", str(folder / cache), "--out", str(folder / "killed")],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


@pytest.mark.proofs  # after each step, in one process: test_run.py
def test_kill_9_at_a_random_moment_and_again(tmp_path: Path) -> None:
    """It lives until a few steps are kept, however fast the machine is; then all of it is killed."""
    study = write_tiny(tmp_path)
    run(study)
    wanted = (tmp_path / "out" / RESULTS).read_bytes()
    moments, cache = random.Random(3), StepCache(tmp_path / "killed-cache")
    process, until = start(study, "killed-cache", 2), moments.randrange(1, 12)
    while process.poll() is None and cache.size().files < until:
        time.sleep(0.01)
    process.kill()
    process.wait()
    assert start(study, "killed-cache", 1).wait() == 0
    assert (tmp_path / "killed" / RESULTS).read_bytes() == wanted
    assert '"complete"' in (tmp_path / "killed" / FACTS_FILE).read_text()
