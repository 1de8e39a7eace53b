"""One Confident run, its study and its nodes: no name for two numbers, and who may read which file."""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Iterator
from dataclasses import fields
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from consilium.protocol.label_source import LabelTerms
from consilium.report.disclosure import epsilon_text
from consilium.simulations.run import run_scenario, unwatched
from consilium.simulations.scenario import load_scenario
from tests.command_line import consilium
from tests.simulations.datasets.own import FEDERATION, patients, table_keys, write_scenario

CONFIDENT = {
    **FEDERATION,
    "mechanism": {"name": "confident", "threshold": 3, "sigma1": 2.0, "sigma2": 1.5},
    "query_budget": {"queries": 12, "answers": 12},
    "privacy": {"unit": "party", "delta": 1e-3},
}
STUDY = """
[study]
title = "Made up"
scenario = "own.toml"
seeds = 1
methods = ["pate"]
measures = ["teachers"]
"""

PUBLIC, SECRET = 0o644, 0o600
RUN = {
    "manifest.json": SECRET,
    "summary.json": SECRET,
    "coordinator.json": SECRET,
    "ledger.db*": SECRET,
    "events.jsonl": SECRET,
    "metrics.parquet": SECRET,
    "report.html": SECRET,
    "SHA256SUMS": SECRET,
    "private/report.json": SECRET,
    "private/votes-*.npz": SECRET,
    "sessions/*": SECRET,
    "aggregator.db": SECRET,
    "roster.json": SECRET,
    "labels.parquet": PUBLIC,
    "report-public.html": PUBLIC,
    "student/model.safetensors": PUBLIC,
    "student/student.json": PUBLIC,
    "student/MODEL_CARD.md": PUBLIC,
    "student/plan.json": PUBLIC,
}
"""Files of a run folder and who may read them."""
STUDY_FOLDER = {"results.parquet": SECRET, "row_scores.parquet": SECRET, "study.json": SECRET, "study.html": SECRET}
STUDY_FOLDER |= {"results.csv": SECRET, "cache/*": SECRET}
PUBLIC_FILES = [name for name, mode in RUN.items() if mode == PUBLIC]


@pytest.fixture(scope="module", params=["plaintext", "verified"])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run, its public report, and of plaintext votes a study."""
    folder = tmp_path_factory.mktemp(request.param)
    patients(30).write_csv(folder / "patients.csv")
    federation = {**CONFIDENT, "collection": request.param}
    path = write_scenario(
        folder, table_keys(), federation=federation, student={"batch": 6}, simulation={"manual_labels": "none"}
    )
    run_scenario("own", load_scenario(str(path)), "local", 3, folder / "run", unwatched)
    assert consilium("report", folder / "run", "--public").exit_code == 0
    if request.param == "plaintext":
        (folder / "study.toml").write_text(STUDY)
        assert consilium("study", folder / "study.toml", "--out", folder / "study").exit_code == 0
    return folder


def epsilons(folder: Path) -> tuple[float, float]:
    """The guarantee, and what was spent at the released counts, as the ledger gives them."""
    privacy = json.loads((folder / "run" / "coordinator.json").read_text())["privacy"]
    by_kind = {claim["kind"]: claim["epsilon"] for claim in privacy.values()}
    return by_kind["worst_case"], by_kind["realised"]


def numbers_in(value: Any, *names: str) -> Iterator[tuple[str, float]]:
    """Each number of some JSON with its name: its key, with that of the table around it where it is a bare epsilon."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from numbers_in(item, *names, key)
    elif isinstance(value, list):
        for item in value:
            yield from numbers_in(item, *names)
    elif isinstance(value, float):
        yield ".".join(names[-2:]) if names[-1] == "epsilon" else names[-1], value


def named_numbers(folder: Path) -> Iterator[tuple[str, float]]:
    """Name and value of all numbers in what a run and a study write, and in what others are told of them."""
    for path in [*folder.glob("run/*.json"), *folder.glob("run/*/*.json"), folder / "study" / "study.json"]:
        yield from numbers_in(json.loads(path.read_text()), path.stem)
    for line in (folder / "run" / "events.jsonl").read_text().splitlines():
        event = json.loads(line)
        yield from numbers_in(event, event["event"])
    for path in (folder / "run" / "metrics.parquet", folder / "study" / "results.parquet"):
        yield from pl.read_parquet(path).select("metric", "value").drop_nulls().iter_rows()
    guarantee, _ = epsilons(folder)
    yield from ((field.name, guarantee) for field in fields(LabelTerms) if field.name == "epsilon")
    for path in (folder / "run").glob("report*.html"):
        for title, shown in re.findall(
            r'<th scope="row">([^<]+)</th>\s*<td[^>]*><span class="epsilon">([\d.]+)', path.read_text()
        ):
            yield title, float(shown)


def named(folder: Path, wanted: float) -> set[str]:
    """Names under which a number stands, exactly or as pages round it."""
    shown = float(epsilon_text(wanted))
    return {name for name, value in named_numbers(folder) if value in (wanted, shown)}


@pytest.mark.parametrize("made", ["plaintext"], indirect=True)
def test_no_name_is_of_the_guarantee_and_of_what_was_spent(made: Path) -> None:
    guarantee, spent = epsilons(made)
    assert guarantee > 1.01 * spent > 0
    of_guarantee, of_spent = named(made, guarantee), named(made, spent)
    assert of_guarantee & of_spent == set()
    assert of_guarantee >= {
        "promised.epsilon",
        "guarantee.epsilon",
        "epsilon_guaranteed",
        "student.epsilon",
        "privacy.epsilon",
        "epsilon",
    }
    assert of_spent == {"spent.epsilon", "epsilon_spent", "Spent at the released counts"}


@pytest.mark.parametrize("made", ["plaintext"], indirect=True)
def test_nothing_public_holds_what_was_spent(made: Path) -> None:
    guarantee, spent = epsilons(made)
    forms = {value: {repr(value), epsilon_text(value), f"{value:.4g}", f"{value:.4f}"} for value in (guarantee, spent)}
    found = dict.fromkeys(forms, "")
    for name in PUBLIC_FILES:
        content = (made / "run" / name).read_bytes()
        for value, texts in forms.items():
            if any(text.encode() in content for text in texts):
                found[value] += f" {name}"
    assert found == {guarantee: " report-public.html student/student.json student/MODEL_CARD.md", spent: ""}


def modes(folder: Path, table: dict[str, int]) -> dict[str, tuple[str, str]]:
    """Files whose mode is not the table's, or that it does not have: mode, and what it should be."""
    wrong = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_dir():
            continue
        wanted = {mode for pattern, mode in table.items() if fnmatchcase(name, pattern)}
        mode = stat.S_IMODE(path.stat().st_mode)
        if wanted != {mode}:
            wrong[name] = (oct(mode), str([oct(each) for each in wanted]))
    return wrong


def test_who_may_read_what_a_run_writes(made: Path) -> None:
    run = made / "run"
    assert modes(run, RUN) == {}
    assert [oct(stat.S_IMODE((run / name).stat().st_mode)) for name in (".", "private")] == ["0o700", "0o700"]


@pytest.mark.parametrize("made", ["plaintext"], indirect=True)
def test_who_may_read_what_a_study_writes(made: Path) -> None:
    assert modes(made / "study", STUDY_FOLDER) == {}
    assert stat.S_IMODE((made / "study").stat().st_mode) == 0o700
