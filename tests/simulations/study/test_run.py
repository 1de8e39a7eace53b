"""A study from its file to its folder: what is in it, what is computed again, and that nothing else changes it."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import threading
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from consilium.protocol.config_files import validate
from consilium.protocol.errors import ConfigError, DataError, EngineError, OutputExists, StorageError
from consilium.report.progress import COMPARE
from consilium.simulations.divide import make_case
from consilium.simulations.judge import judged
from consilium.simulations.methods import kinds
from consilium.simulations.scenario import Scenario
from consilium.simulations.study import compute
from consilium.simulations.study.cells import cell_id, compared, plots
from consilium.simulations.study.results import CACHE, FACTS_FILE, PAGE, RESULTS, RESULTS_CSV, open_study
from consilium.simulations.study.run import StudyInterrupted, run_study
from consilium.simulations.study.spec import COLUMNS, FACTS, load_study
from consilium.simulations.study.summaries.questions import compared as compared_with
from consilium.simulations.study.summaries.view import study_view
from consilium.simulations.study.workers import in_workers
from consilium.simulations.vote import train_ensemble
from tests.simulations.study.test_spec import merged
from tests.simulations.study.tiny import SCENARIO, STUDY, write_tiny

SMALL = {"study": {**STUDY["study"], "seeds": 1}, "axis": STUDY["axis"][:1]}
"""One division, two mechanisms, one seed: six cells."""


def run(folder: Path, out: str = "out", workers: int = 1, **study: Any) -> dict[str, Any]:
    """The study in `folder`."""
    return run_study(load_study(str(write_tiny(folder, **study))), folder / out, workers)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small study that is done."""
    folder = tmp_path_factory.mktemp("small")
    assert run(folder, **SMALL)["found"] == 0
    return folder


@pytest.fixture
def copied(small: Path, tmp_path: Path) -> Path:
    shutil.copytree(small, tmp_path / "copy")
    return tmp_path / "copy"


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is computed: "ensemble", and names of methods."""
    done: list[str] = []

    def counted(name: str, work: Any) -> Any:
        return lambda *given: done.append(name) or work(*given)

    monkeypatch.setattr(compute, "train_ensemble", counted("ensemble", train_ensemble))
    for name in ("local", "plurality", "pate"):
        kind = type(kinds.method_of(name))
        monkeypatch.setattr(kind, "predict", counted(name, kind.predict))
    return done


def test_what_is_in_the_folder(tmp_path: Path) -> None:
    summary = run(tmp_path, study={**STUDY["study"], "seeds": 3})
    out = tmp_path / "out"
    assert (summary["cells"], summary["failed"]) == (36, [])
    assert "natural: covariate; iid: nothing." in " ".join(summary["answers"])  # clinics differ in age
    table = pl.read_parquet(out / RESULTS)
    axes = ["federation.mechanism.sigma", "division"]
    assert table.columns == ["cell", *axes, *COLUMNS[1:], *FACTS]
    promised = table.filter(pl.col("metric") == "epsilon").select("method", "value", *FACTS[:4]).unique()
    assert {row[0] for row in promised.iter_rows()} == {"pate"} and promised["value"].n_unique() == 2
    assert all((row[2], *row[3:]) == (row[1], 1e-3, "party", "replace") for row in promised.iter_rows())
    units = {method: set(some["guarantee_unit"]) for (method,), some in table.group_by("method")}
    assert units == {
        "pate": {"party"},
        **{key: {"none"} for key in ("local", "plurality")},
        **{key: {None} for key in ("division", "teachers")},
    }
    assert set(table["data_set"]) == {"table"}
    assert table.schema["seed"] == pl.Int64 and table.select(axes).dtypes == [pl.String, pl.String]
    assert table["cell"].str.len_chars().unique().to_list() == [12]
    assert not table["value"].is_null().any() and not table["value"].is_nan().any()
    assert set(table["method"]) == {"local", "plurality", "pate", "division", "teachers"}
    assert table.sort([*axes, "seed", "method", "scope", "name", "metric"], maintain_order=True).equals(table)
    told = json.loads((out / FACTS_FILE).read_text())
    assert told["status"] == "complete"
    assert pl.read_csv(out / RESULTS_CSV, schema=table.schema).equals(table)
    assert told["axes"] == {"federation.mechanism.sigma": ["2.0", "4.0"], "division": ["natural", "iid"]}
    assert (out / PAGE).is_file()
    known = open_study(out).row_scores
    judged_on_rows = table.filter(
        (pl.col("scope") == "run") & pl.col("metric").is_in(["accuracy", "auc", "brier", "epsilon"])
    )
    judged_on_rows = judged_on_rows.filter(pl.col("method").is_in(["local", "plurality", "pate"]))
    for cell, metric in judged_on_rows.select("cell", "metric").iter_rows():
        scores = known.of(cell, metric)
        assert (scores is None) == (metric == "epsilon")
        assert scores is None or (scores.unit, scores.space[:16]) == ("row", told["data"][0]["digest"][:16])
    view = study_view(table, told["axes"], known)
    assert {contrast.over for contrast in compared_with(view, "accuracy", "pate")} == {"seeds and rows"}
    assert [
        path for path in out.iterdir() if path.is_file() and path.name != PAGE and path.stat().st_mode & 0o077
    ] == []


def test_its_rows_are_those_of_each_method_by_hand(small: Path) -> None:
    """Without steps, cache or scenario in normal form: the case, its teachers and the method, one after the other."""
    table = pl.read_parquet(small / "out" / RESULTS)
    spec = load_study(str(small / "tiny.toml"))
    for plot in plots(spec):
        case = make_case(validate(dict(plot.table), Scenario, "cell"), plot.seed, 0.2)
        ensemble = train_ensemble(case)
        for label, method in compared(spec).items():
            expected = sorted(judged(label, case, method.predict(case, ensemble)))
            fields = ["method", "scope", "name", "metric", "value", "low", "high"]
            own = (pl.col("cell") == cell_id(plot, label)) & (
                pl.col("federation.mechanism.sigma") == plot.axes["federation.mechanism.sigma"]
            )
            assert sorted(table.filter(own).select(fields).iter_rows()) == [tuple(row) for row in expected]


@pytest.mark.parametrize("damaged", [False, True])
def test_nothing_is_computed_twice_but_what_is_damaged(copied: Path, made: list[str], damaged: bool) -> None:
    content = (copied / "out" / RESULTS).read_bytes()
    kept, _ = (copied / "out" / CACHE).iterdir()
    if damaged:
        kept.write_bytes(kept.read_bytes()[:1000])
    assert run(copied, **SMALL)["found"] == (3 if damaged else 6)
    assert sorted(made) == (["ensemble", "local", "pate", "plurality"] if damaged else [])
    assert (copied / "out" / RESULTS).read_bytes() == content


def test_of_a_study_in_which_something_failed_that_alone_is_tried_again(
    small: Path, tmp_path: Path, made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def predict(self: Any, case: Any, ensemble: Any) -> Any:
        made.append("failed")
        raise DataError("not now")

    with monkeypatch.context() as patch:
        patch.setattr(type(kinds.method_of("local")), "predict", predict)
        assert len(run(tmp_path, **SMALL)["failed"]) == 2
        made.clear()
        again = run(tmp_path, **SMALL)
        assert (again["found"], len(again["failed"]), made) == (4, 2, ["ensemble", "failed"])
    assert run(tmp_path, **SMALL)["failed"] == []
    assert (tmp_path / "out" / RESULTS).read_bytes() == (small / "out" / RESULTS).read_bytes()


def test_every_measure_stands_under_what_the_methods_are_called(tmp_path: Path) -> None:
    methods = ["local", {"name": "pate", "label": "ours"}, {"name": "noisy_average", "epsilon": 5.0}]
    study = {"methods": methods, "measures": ["division", "teachers", "gain"]}
    summary = run(tmp_path, **{**SMALL, "study": {**SMALL["study"], **study}})
    assert summary["failed"] == []
    table = pl.read_parquet(tmp_path / "out" / RESULTS)
    assert set(table["method"]) == {"local", "ours", "noisy_average epsilon=5.0", "division", "teachers"}
    assert table.filter(pl.col("metric") == "winners_flipped_mean").height == 2


def test_an_impossible_division_is_told_and_ends_nothing(tmp_path: Path) -> None:
    points = {"natural": {}, "large": {"data": {"least_rows": 1000}}}
    axis = [{"name": "division", "points": points}]
    summary = run(tmp_path, **{**SMALL, "axis": axis})
    assert [(each["axes"], each["method"], each["type"], each["known"]) for each in summary["failed"]] == [
        ({"division": "large"}, "", "NotEnoughParties", True)
    ]
    assert "1,000" in summary["failed"][0]["why"]
    table = pl.read_parquet(tmp_path / "out" / RESULTS)
    assert set(table["division"]) == {"natural"}
    assert json.loads((tmp_path / "out" / FACTS_FILE).read_text())["failed"] == summary["failed"]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"data": {"least_rows": 1000}}, "no cell of the study can be computed.*at least 1,000 rows"),
        (
            {"federation": {"privacy": {"epsilon": 9.0}, "mechanism": {"threshold": 3}}},
            "federation.mechanism.threshold: unknown key",
        ),
    ],
)
def test_where_nothing_can_be_computed_it_is_an_error(tmp_path: Path, changes: dict[str, Any], told: str) -> None:
    base = merged(SCENARIO, changes)
    with pytest.raises(ConfigError, match=told):
        run(tmp_path, **{**SMALL, "axis": [], "base": base})
    assert not (tmp_path / "out" / RESULTS).exists()


def test_a_fault_of_the_program_is_told_without_its_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The text of an error that nobody foresaw may quote votes."""

    def predict(self: Any, case: Any, ensemble: Any) -> Any:
        raise ValueError("votes 90817 3")

    monkeypatch.setattr(type(kinds.method_of("plurality")), "predict", predict)
    summary = run(tmp_path, **SMALL)
    assert {(each["method"], each["type"], each["known"]) for each in summary["failed"]} == {
        ("plurality", "ValueError", False)
    }
    assert "90817" not in json.dumps(summary["failed"]) and "internal error: ValueError at test_run.py" in json.dumps(
        summary
    )
    assert set(pl.read_parquet(tmp_path / "out" / RESULTS)["method"]) >= {"local", "pate"}


@pytest.mark.parametrize("there", ["a file", "something else", "another study"])
def test_a_folder_of_something_else_is_refused(tmp_path: Path, there: str) -> None:
    out = tmp_path / "out"
    if there == "another study":
        run(tmp_path, **{**SMALL, "study": {**SMALL["study"], "title": "Another"}})
    elif there == "a file":
        out.write_text("mine")
    else:
        out.mkdir()
        (out / "thesis.tex").write_text("mine")
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    with pytest.raises(OutputExists):
        run(tmp_path, **SMALL)
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


def test_the_files_of_the_data_change(copied: Path, made: list[str]) -> None:
    """The same study in the same folder, of other rows."""
    before = pl.read_parquet(copied / "out" / RESULTS)
    spec, rows = load_study(str(copied / "tiny.toml")), copied / "rows.csv"
    rows.write_text("".join(rows.read_text().splitlines(keepends=True)[:-20]))
    run_study(spec, copied / "out")
    assert made.count("ensemble") == 1 and not pl.read_parquet(copied / "out" / RESULTS).equals(before)


def test_a_signal_keeps_what_is_done_and_says_how_to_go_on(
    tmp_path: Path, made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two divisions with two points the last point is left; results are those of a study that nobody ended, in two
    processes."""
    study = {**SMALL, "study": {**SMALL["study"], "seeds": 2}}
    run(tmp_path, "whole", 2, **study)
    spec, kind = load_study(str(tmp_path / "tiny.toml")), type(kinds.method_of("pate"))
    predict = kind.predict

    def interrupt(self: Any, case: Any, ensemble: Any) -> Any:
        if case.seed and case.scenario.federation.mechanism.sigma == 4.0:
            os.kill(os.getpid(), signal.SIGTERM)  # a shell's background jobs ignore SIGINT
        return predict(self, case, ensemble)

    with monkeypatch.context() as patch, pytest.raises(StudyInterrupted) as caught:
        patch.setattr(kind, "predict", interrupt)
        run_study(spec, tmp_path / "out", command="consilium study tiny.toml")
    assert str(caught.value) == "interrupted; what is done is kept. Go on with: consilium study tiny.toml"
    assert caught.value.exit_code == 143
    assert json.loads((tmp_path / "out" / FACTS_FILE).read_text())["status"] == "running"
    made.clear()
    summary = run_study(spec, tmp_path / "out")
    assert (summary["failed"], summary["found"]) == ([], 9)
    assert sorted(made) == ["ensemble", "local", "pate", "plurality"]
    assert (tmp_path / "out" / RESULTS).read_bytes() == (tmp_path / "whole" / RESULTS).read_bytes()


def test_one_bar_over_all_cells_moves_as_they_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while a worker is at its first division, whose second point waits here until it is seen."""
    steps: list[tuple[int, int]] = []
    seen = threading.Event()

    def progress(stage: str, done: int, total: int) -> None:
        if stage == COMPARE:
            steps.append((done, total))
            if done == 3:
                seen.set()

    kind = type(kinds.method_of("pate"))
    predict = kind.predict

    def waiting(self: Any, case: Any, ensemble: Any) -> Any:
        if case.scenario.federation.mechanism.sigma == 4.0:
            seen.wait(60)
        return predict(self, case, ensemble)

    monkeypatch.setattr(kind, "predict", waiting)
    monkeypatch.setattr("consilium.simulations.study.run.POLL_SECONDS", 0.01)
    run_study(load_study(str(write_tiny(tmp_path, **SMALL))), tmp_path / "out", progress=progress)
    assert steps[0] == (0, 6) and steps[-1] == (6, 6) and steps == sorted(steps) and seen.is_set()


def test_a_full_disk_ends_a_study_with_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would compute for hours what is gone at the next interruption."""

    def full(path: Path, content: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(compute, "replace_private", full)
    with pytest.raises(StorageError, match="No space left"):
        run(tmp_path, **SMALL)


@pytest.mark.ray
def test_a_ray_cluster_gives_the_same_table_and_goes_on(small: Path, tmp_path: Path) -> None:
    spec, command = load_study(str(write_tiny(tmp_path, **SMALL))), "consilium study tiny.toml --cluster local"
    assert run_study(spec, tmp_path / "out", command=command, cluster="local")["failed"] == []
    assert (tmp_path / "out" / RESULTS).read_bytes() == (small / "out" / RESULTS).read_bytes()
    assert run_study(spec, tmp_path / "out")["found"] == 6


def test_a_worker_that_dies_is_an_error_with_a_way_on() -> None:
    with pytest.raises(EngineError, match="fewer workers"):
        list(in_workers(os._exit, [9, 9], 2))


def test_parties_that_least_rows_cut_are_a_warning(tmp_path: Path) -> None:
    """Once for the division, not for each mechanism; at the other division nobody is left out."""
    points = {
        "natural": {"data": {"partition": "owners", "least_rows": 1}},
        "skewed": {"data": {"partition": "dirichlet", "parties": 20, "alpha": 1.0, "sizes": 1.0, "least_rows": 6}},
    }
    axis = [STUDY["axis"][0], {"name": "division", "points": points}]
    summary = run(tmp_path, study={**SMALL["study"], "methods": ["plurality"], "measures": []}, axis=axis)
    told = json.loads((tmp_path / "out" / FACTS_FILE).read_text())
    (warning,) = told["warnings"]
    assert summary["warnings"] == told["warnings"] and warning["code"] == "parties-left-out"
    assert "skewed, seed 0: the partition made 20 parties, and " in warning["text"]
    assert "data.least_rows = 6" in warning["text"]
    page = (tmp_path / "out" / PAGE).read_text()
    assert "Not everybody takes part." in page and warning["text"] in page


def test_data_that_cannot_be_opened_are_told(tmp_path: Path) -> None:
    path = write_tiny(tmp_path, **SMALL)
    (tmp_path / "rows.csv").unlink()
    with pytest.raises(ConfigError, match=r"no cell of the study can be computed.*rows\.csv is not there"):
        run_study(load_study(str(path)), tmp_path / "out")
