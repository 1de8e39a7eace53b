"""What is secret of a run: who may read which file, and that what anybody may see follows from what was charged alone.

For that everything private is changed. Three federations have the same roster, public rows and released outcomes, which
are what is charged: the mechanism is made to release them whatever the votes are. Rows, labels, sizes, votes, who is
left out, at which stage, and why, are others in each.
"""

from __future__ import annotations

import datetime as dates
import json
import stat
from collections.abc import Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from consilium.coordinator import label_service
from consilium.coordinator.draw import Drawn
from consilium.protocol.label_source import NO_LABEL
from consilium.report.disclosure import epsilon_text
from consilium.simulations import run as running
from consilium.simulations.report.build import render
from consilium.simulations.report.data import ReportData, load_report_data
from consilium.simulations.run import run_scenario
from consilium.simulations.scenario import load_scenario
from consilium.simulations.simulated import Population
from tests.command_line import consilium
from tests.simulations.datasets.own import FEDERATION, HOSPITALS, patients, table_keys, write_scenario

CONFIDENT = {
    **FEDERATION,
    "mechanism": {"name": "confident", "threshold": 3, "sigma1": 2.0, "sigma2": 1.5},
    "query_budget": {"queries": 12, "answers": 12},
    "privacy": {"unit": "party", "delta": 1e-3},
}

PUBLIC, SECRET = 0o644, 0o600
RUN = {
    "manifest.json": SECRET,
    "summary.json": SECRET,
    "coordinator.json": SECRET,
    "ledger.db*": SECRET,
    "events.jsonl": SECRET,
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
PUBLIC_FILES = [name for name, mode in RUN.items() if mode == PUBLIC]


@pytest.fixture(scope="module", params=["plaintext", "verified"])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run and its public report."""
    folder = tmp_path_factory.mktemp(request.param)
    patients(30).write_csv(folder / "patients.csv")
    federation = {**CONFIDENT, "collection": request.param}
    path = write_scenario(
        folder, table_keys(), federation=federation, student={"batch": 6}, simulation={"manual_labels": "none"}
    )
    run_scenario("own", load_scenario(str(path)), "local", 3, folder / "run")
    assert consilium("report", folder / "run", "--public").exit_code == 0
    return folder


@pytest.mark.parametrize("made", ["plaintext"], indirect=True)
def test_nothing_public_holds_what_was_spent(made: Path) -> None:
    privacy = json.loads((made / "run" / "coordinator.json").read_text())["privacy"]
    by_kind = {claim["kind"]: claim["epsilon"] for claim in privacy.values()}
    guarantee, spent = by_kind["worst_case"], by_kind["realised"]
    assert guarantee > 1.01 * spent > 0
    forms = {value: {repr(value), epsilon_text(value), f"{value:.4g}", f"{value:.4f}"} for value in (guarantee, spent)}
    found = dict.fromkeys(forms, "")
    for name in PUBLIC_FILES:
        content = (made / "run" / name).read_bytes()
        for value, texts in forms.items():
            if any(text.encode() in content for text in texts):
                found[value] += f" {name}"
    assert found == {guarantee: " report-public.html student/student.json student/MODEL_CARD.md", spent: ""}


def test_who_may_read_what_a_run_writes(made: Path) -> None:
    run = made / "run"
    for path in run.rglob("*"):
        name, mode = path.relative_to(run).as_posix(), stat.S_IMODE(path.stat().st_mode)
        if path.is_file():
            assert {of for pattern, of in RUN.items() if fnmatchcase(name, pattern)} == {mode}, name
    for folder in (run, run / "private"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


Arrays = Mapping[str, np.ndarray]
PUBLIC_OWNERS = HOSPITALS[:2]
LABELS = {"mechanism": {"name": "confident", "threshold": 2, "sigma1": 2.0, "sigma2": 1.5}}
COUNTS = {"mechanism": {"name": "histogram", "sigma": 1.5}}
"""What is released: labels and abstentions, noisy counts."""


class Clock(dates.datetime):
    """A run begins when the test says: the time of day follows from nobody's rows, and is in no file but the report."""

    @classmethod
    def now(cls, tz: dates.tzinfo | None = None) -> Clock:
        return cls(2026, 1, 2, 3, 4, 5, tzinfo=tz)


def left(world: int, index: int, arrays: Arrays) -> Arrays:
    """In the second world the first party has no rows: it is refused at training, for its data. In the third two others
    have rows that are none of the schema."""
    if (world, index) == (1, 0):
        return {name: array[:0] for name, array in arrays.items()}
    return {**arrays, "x": np.full_like(arrays["x"], np.nan)} if world == 2 and index in (1, 2) else arrays


def table(world: int) -> pl.DataFrame:
    """The same public hospitals in each world; of the others other patients, other outcomes, and more of them."""
    same = patients(30)
    if world == 0:
        return same
    generator = np.random.default_rng(world)
    public = same.filter(pl.col("hospital").is_in(PUBLIC_OWNERS))
    others = patients(30 + 7 * world).filter(~pl.col("hospital").is_in(PUBLIC_OWNERS))
    count = len(others)
    others = others.with_columns(
        pl.Series("age", generator.integers(20, 90, count)),
        pl.Series("outcome", generator.choice(["alive", "dead"], count)),
        pl.Series("sex", generator.choice(["f", "m"], count)),
    )
    return pl.concat([public, others])


def as_charged(mechanism: Any, collect: Any, noise: object, *, room: int, **_: object) -> Drawn:
    """The outcome that all worlds have, after votes were collected as ever."""
    votes = collect(1, None).votes
    generator = np.random.default_rng(len(votes))
    if mechanism.name == "histogram":
        counts = generator.integers(-1, 6, votes.shape)
        return replace(Drawn.winners(counts), counts=counts)
    labels = generator.integers(0, 2, len(votes))
    labels[:2] = 0, NO_LABEL
    return Drawn(labels, np.zeros(len(votes), dtype=bool)).up_to(room)


@pytest.fixture(scope="module", params=[LABELS, COUNTS], ids=["labels", "counts"])
def worlds(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A run folder of each, with its public report."""
    folders = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(running, "datetime", Clock)
        patched.setattr(label_service, "draw", as_charged)
        population_of = Population.of
        for number in range(3):
            folder = tmp_path_factory.mktemp(f"world-{number}")

            def changed(*arguments: Any, world: int = number) -> Population:
                whole = population_of(*arguments)
                items = whole.parties.items()
                return replace(whole, parties={at: replace(of, arrays=left(world, at, of.arrays)) for at, of in items})

            patched.setattr(Population, "of", changed)
            table(number).write_csv(folder / "patients.csv")
            keys = table_keys(public={"by": "owner", "owners": list(PUBLIC_OWNERS)}, public_share=None)
            federation = {**CONFIDENT, **request.param}
            path = write_scenario(
                folder, keys, federation=federation, student={"batch": 6}, simulation={"manual_labels": "quick"}
            )
            run_scenario("own", load_scenario(str(path)), "local", 3, folder / "run")
            assert consilium("report", folder / "run", "--public").exit_code == 0
            folders.append(folder / "run")
    return folders


@pytest.mark.parametrize("name", PUBLIC_FILES)
def test_nothing_public_changes_by_a_byte(worlds: list[Path], name: str) -> None:
    first, *others = ((run / name).read_bytes() for run in worlds)
    for other in others:
        assert other == first


def test_all_that_anybody_may_read_is_compared(worlds: list[Path]) -> None:
    for run in worlds:
        readable = {
            path.relative_to(run).as_posix()
            for path in run.rglob("*")
            if path.is_file() and path.stat().st_size and stat.S_IMODE(path.stat().st_mode) & 0o044
        }
        assert readable == set(PUBLIC_FILES)


def pages(worlds: list[Path]) -> list[str]:
    return [render(load_report_data(run / "private"), public=True) for run in worlds]


def test_control_how_many_were_left_out_differs(worlds: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """A public report that says how many parties were left out at training."""
    assert len(set(pages(worlds))) == 1
    shown = ReportData.published

    def with_those_left_out(self: ReportData) -> ReportData:
        at_training = sum(stage == "train" for _, stage, _ in self.left_out)
        return replace(shown(self), attribution=f"{at_training} parties at the stage “train”")

    monkeypatch.setattr(ReportData, "published", with_those_left_out)
    assert len(set(pages(worlds))) == 3


@pytest.mark.parametrize(
    "name", ["parties", "teachers", "left_out", "warnings", "quality", "baselines", "secret_figures"]
)
def test_control_each_private_part_would_be_seen(worlds: list[Path], name: str) -> None:
    """Whatever `published` takes away differs between the worlds."""
    values = [getattr(load_report_data(run / "private"), name) for run in worlds]
    assert len({repr(value) for value in values}) > 1


def test_the_card_says_who_might_have_taken_part(worlds: list[Path]) -> None:
    assert [json.loads((run / "student" / "student.json").read_text())["parties"] for run in worlds] == [4, 4, 4]
