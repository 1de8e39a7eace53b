"""`consilium study`: its commands and options, and what becomes of a study that is killed."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from consilium.simulations.study import compute
from tests.command_line import Done, consilium
from tests.simulations.study.test_spec import merged
from tests.simulations.study.tiny import SCENARIO, SMALL, write_tiny


@pytest.fixture
def study(tmp_path: Path) -> Path:
    return write_tiny(tmp_path, **SMALL)


def run(study: Path, *options: object) -> Done:
    """In this process."""
    return consilium("study", study, "--workers", 1, "--out", study.parent / "out", *options)


def test_from_a_dry_run_to_what_made_it(study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two divisions with two points all but the last point is done, each cell in an hour."""

    def ahead(workers: int) -> Any:
        return run(study, "--seeds", 2, "--dry-run", "--format", "json", "--workers", workers).json()

    assert ahead(1) == {"study": "tiny", "cells": 12, "cases": 4, "kept": 0, "seconds": None, "failed": []}
    assert not (study.parent / "out").exists()
    keep = compute.Division.keep

    def all_but_the_last(division: compute.Division, plot: Any, found: Any, seconds: float) -> None:
        if plot is not division.plots[1] or plot.seed == 0:
            keep(division, plot, found, 3600.0 * len(division.methods))

    monkeypatch.setattr(compute.Division, "keep", all_but_the_last)
    done = run(study, "--seeds", 2, "--format", "json")
    assert done.exit_code == 0, done.stderr
    assert (done.json()["found"], done.json()["failed"]) == (0, [])
    facts = json.loads((study.parent / "out/study.json").read_text())
    assert facts["seeds"] == [0, 1] and len(facts["data"][0]["digest"]) == 40 and "numpy" in facts["versions"]
    assert facts["command"] == f"consilium study {study} --out {study.parent}/out --seeds 2"
    # they are of one division, which one process computes
    assert [(again["kept"], again["seconds"]) for again in map(ahead, (1, 4))] == [(9, 3 * 3600)] * 2
    assert "9\ntime: about 3 h" in run(study, "--seeds", 2, "--dry-run").stdout


def test_of_data_that_cannot_be_opened_a_dry_run_knows_no_time_and_the_exit_code_is_not_0(study: Path) -> None:
    (study.parent / "rows.csv").unlink()
    ahead = run(study, "--dry-run")
    assert ahead.exit_code == 1 and "time" not in ahead.stdout and "rows.csv is not there" in ahead.stdout


def test_without_ray_a_cluster_is_refused_with_what_to_install(study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    done = run(study, "--cluster", "head:6379")
    assert done.exit_code and "--cluster needs Ray. pip install 'consilium-pate[ray]'" in done.stderr


@pytest.mark.parametrize(
    ("federation", "key"),
    [
        ({"mechanism": {"name": "confident"}}, "federation.mechanism.threshold"),
        ({"mechanism": {"name": "gnmax", "sigmas": 3}}, "federation.mechanism.sigmas"),
        ({"query_budget": {"queries": 0, "answers": 0}}, "query_budget.queries: must be at least 1"),
    ],
)
def test_noise_that_will_be_calibrated_hides_no_other_fault(tmp_path: Path, federation, key) -> None:
    base = merged(SCENARIO, {"federation": {"privacy": {"epsilon": 1.0}, "mechanism": {"name": "gnmax"}}})
    base["federation"] |= federation
    base["federation"]["mechanism"].pop("sigma", None)
    done = run(write_tiny(tmp_path, **{**SMALL, "axis": [], "base": base}))
    assert done.exit_code == 2 and key in done.stderr and not (tmp_path / "out").exists()


def test_text_says_what_was_computed_where_it_is_and_what_failed_with_another_exit_code(study: Path) -> None:
    points = {"natural": {}, "large": {"data": {"least_rows": 1000}}}
    done = run(write_tiny(study.parent, **{**SMALL, "axis": [{"name": "division", "points": points}]}))
    assert done.exit_code == 1
    for told in (
        "6 cells, 0 of them computed before", f"results: {study.parent}/out/results.parquet",
        "not computed: division = large, seed 0: ", "at least 1,000 rows",
    ):  # fmt: skip
        assert told in done.stdout
    assert "cells are computed" in done.stderr
    quiet = consilium("study", study, "--out", study.parent / "out", "--quiet")
    assert (quiet.output, quiet.exit_code) == ("", 1)


def test_shipped_studies_are_listed() -> None:
    done = consilium("study", "list", "--format", "json")
    assert done.exit_code == 0 and all(each["title"] for each in done.json()["studies"])


def test_a_mistake_in_the_file_makes_no_folder(study: Path) -> None:
    done = run(write_tiny(study.parent, **{**SMALL, "study": {"methods": ["telepathy"]}}))
    assert done.exit_code == 2 and "no method 'telepathy'" in done.stderr and not (study.parent / "out").exists()
