"""A study from its file to its folder: what is in it, what is computed again, and that nothing else changes it."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from consilium.protocol.config_files import validate
from consilium.protocol.errors import ConfigError, DataError, EngineError, OutputExists, StorageError
from consilium.report.progress import COMPARE
from consilium.simulations.divide import make_case
from consilium.simulations.judge import judged
from consilium.simulations.scenario import Scenario
from consilium.simulations.study import compute, page
from consilium.simulations.study.compute import in_workers
from consilium.simulations.study.run import CACHE, FACTS_FILE, PAGE, RESULTS, RESULTS_CSV, StudyInterrupted, run_study
from consilium.simulations.study.spec import COLUMNS, FACTS, compared, load_study, method_of, plots
from consilium.simulations.study.summaries.questions import compared as compared_with
from consilium.simulations.study.summaries.view import study_view
from consilium.simulations.vote import train_ensemble
from tests.simulations.study.test_spec import merged
from tests.simulations.study.tiny import SCENARIO, SMALL, STUDY, write_tiny


def run(folder: Path, out: str = "out", workers: int = 1, **study: Any) -> dict[str, Any]:
    """The study in `folder`."""
    return run_study(load_study(str(write_tiny(folder, **study))), folder / out, workers)


@pytest.fixture
def copied(tiny: Path, tmp_path: Path) -> Path:
    shutil.copytree(tiny, tmp_path / "copy")
    return tmp_path / "copy"


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is computed: "ensemble", and names of methods."""
    done: list[str] = []

    def counted(name: str, work: Any) -> Any:
        return lambda *given: done.append(name) or work(*given)

    monkeypatch.setattr(compute, "train_ensemble", counted("ensemble", train_ensemble))
    for name in ("local", "plurality", "pate"):
        kind = type(method_of(name))
        monkeypatch.setattr(kind, "predict", counted(name, kind.predict))
    return done


def test_what_is_in_the_folder(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scored, seen = [], page.study_view
    monkeypatch.setattr(page, "study_view", lambda *given: scored.append(given[2]) or seen(*given))
    answers = run(copied)["answers"]
    out, axes = copied / "out", ["federation.mechanism.sigma", "division"]
    table, told = pl.read_parquet(out / RESULTS), json.loads((out / FACTS_FILE).read_text())
    assert (told["status"], told["cells"], told["failed"]) == ("complete", 36, [])
    assert told["answers"] == answers
    assert told["axes"] == {"federation.mechanism.sigma": ["2.0", "4.0"], "division": ["natural", "iid"]}
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
    assert table.sort([*axes, "seed", "method", "scope", "name", "metric"], maintain_order=True).equals(table)
    assert pl.read_csv(out / RESULTS_CSV, schema=table.schema).equals(table)
    assert [path for path in [out, *out.rglob("*")] if path.stat().st_mode & 0o077] == []
    (known,) = scored
    runs = table.filter((pl.col("scope") == "run") & pl.col("metric").is_in(["accuracy", "auc", "brier", "epsilon"]))
    for cell, metric in runs.filter(pl.col("method").is_in(["local", "plurality", "pate"]))["cell", "metric"].rows():
        scores = known.get((cell, metric))
        assert (scores is None) == (metric == "epsilon")
        assert scores is None or (scores.unit, scores.space[:16]) == ("row", told["data"][0]["digest"][:16])
    view = study_view(table, told["axes"], known)
    assert {contrast.over for contrast in compared_with(view, "accuracy", "pate")} == {"seeds and rows"}
    assert "natural: covariate; iid: nothing." in (out / PAGE).read_text()  # clinics differ in age


def test_its_rows_are_those_of_each_method_by_hand(tiny: Path) -> None:
    """Without steps, cache or scenario in normal form: the case, its teachers and the method, one after the other."""
    table = pl.read_parquet(tiny / "out" / RESULTS)
    spec = load_study(str(tiny / "tiny.toml"))
    for plot in plots(spec)[::5]:
        case = make_case(validate(dict(plot.table), Scenario, "cell"), plot.seed, 0.2)
        ensemble = train_ensemble(case)
        for label, method in compared(spec).items():
            expected = sorted(judged(label, case, method.predict(case, ensemble)))
            fields = ["method", "scope", "name", "metric", "value", "low", "high"]
            found = table.filter(pl.col("cell") == plot.cell(label)).select(fields)
            assert sorted(found.iter_rows()) == [tuple(row) for row in expected]


@pytest.mark.parametrize("damaged", [False, True])
def test_nothing_is_computed_twice_but_what_is_damaged(copied: Path, made: list[str], damaged: bool) -> None:
    content = (copied / "out" / RESULTS).read_bytes()
    kept = next((copied / "out" / CACHE).iterdir())
    if damaged:
        kept.write_bytes(kept.read_bytes()[:1000])
    assert run(copied)["found"] == (33 if damaged else 36)
    assert sorted(made) == (["ensemble", "local", "pate", "plurality"] if damaged else [])
    assert (copied / "out" / RESULTS).read_bytes() == content


def test_the_files_of_the_data_change(copied: Path, made: list[str]) -> None:
    """The same study in the same folder, of other rows."""
    before = pl.read_parquet(copied / "out" / RESULTS)
    spec, rows = load_study(str(copied / "tiny.toml")), copied / "rows.csv"
    rows.write_text("".join(rows.read_text().splitlines(keepends=True)[:-20]))
    run_study(spec, copied / "out")
    assert made.count("ensemble") == 6 and not pl.read_parquet(copied / "out" / RESULTS).equals(before)


def test_of_a_study_in_which_something_failed_that_alone_is_tried_again(
    tmp_path: Path, made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The text of an error that nobody foresaw may quote votes: it is told without."""
    run(tmp_path, "whole", **SMALL)

    def predict(self: Any, case: Any, ensemble: Any) -> Any:
        made.append("failed")
        if case.scenario.federation.mechanism.sigma == 4.0:
            raise DataError("not now")
        raise ValueError("votes 90817 3")

    with monkeypatch.context() as patch:
        patch.setattr(type(method_of("pate")), "predict", predict)
        failed = run(tmp_path, **SMALL)["failed"]
        assert [(each["method"], each["what"][:9]) for each in failed] == [("pate", "internal "), ("pate", "not now")]
        assert "90817" not in json.dumps(failed) and "internal error: ValueError at test_run.py" in failed[0]["why"]
        made.clear()
        again = run(tmp_path, **SMALL)
        assert (again["found"], len(again["failed"]), made) == (4, 2, ["ensemble", "failed", "failed"])
    assert run(tmp_path, **SMALL)["failed"] == []
    assert (tmp_path / "out" / RESULTS).read_bytes() == (tmp_path / "whole" / RESULTS).read_bytes()


def test_every_measure_stands_under_what_the_methods_are_called(tmp_path: Path) -> None:
    methods = ["local", {"name": "pate", "label": "ours"}, {"name": "fedavg", "rounds": 2, "learning_rate": 0.2}]
    study = {"methods": methods, "measures": ["division", "teachers", "gain"]}
    summary = run(tmp_path, **{**SMALL, "study": {**SMALL["study"], **study}})
    assert summary["failed"] == []
    table = pl.read_parquet(tmp_path / "out" / RESULTS)
    assert set(table["method"]) == {"local", "ours", "fedavg rounds=2 learning_rate=0.2", "division", "teachers"}
    assert table.filter(pl.col("metric") == "winners_flipped_mean").height == 2


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"data": {"least_rows": 1000}}, "no cell of the study can be computed.*at least 1,000 rows"),
        ({"data": {"path": "gone.csv"}}, r"no cell of the study can be computed.*gone\.csv is not there"),
    ],
)
def test_where_nothing_can_be_computed_it_is_an_error(tmp_path: Path, changes: dict[str, Any], told: str) -> None:
    base = merged(SCENARIO, changes)
    with pytest.raises(ConfigError, match=told):
        run(tmp_path, **{**SMALL, "axis": [], "base": base})
    assert not (tmp_path / "out" / RESULTS).exists()


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


def test_a_signal_keeps_what_is_done_and_says_how_to_go_on(
    tmp_path: Path, made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two divisions with two points the last point is left; results are those of a study that nobody ended, in two
    processes. The bar counts what is kept."""
    study = {**SMALL, "study": {**SMALL["study"], "seeds": 2}}
    run(tmp_path, "whole", 2, **study)
    spec, kind = load_study(str(tmp_path / "tiny.toml")), type(method_of("pate"))
    predict = kind.predict

    def interrupt(self: Any, case: Any, ensemble: Any) -> Any:
        if case.seed and case.scenario.federation.mechanism.sigma == 4.0:
            os.kill(os.getpid(), signal.SIGTERM)  # a shell's background jobs ignore SIGINT
        return predict(self, case, ensemble)

    steps: list[tuple[int, int]] = []

    def progress(stage: str, *step: int) -> None:
        steps.extend([step] if stage == COMPARE else [])  # pyright: ignore[reportArgumentType]

    with monkeypatch.context() as patch, pytest.raises(StudyInterrupted) as caught:
        patch.setattr(kind, "predict", interrupt)
        run_study(spec, tmp_path / "out", 1, progress, command="consilium study tiny.toml")
    assert steps == [(0, 12), (6, 12)]
    assert str(caught.value) == "interrupted; what is done is kept. Go on with: consilium study tiny.toml"
    assert caught.value.exit_code == 143
    assert json.loads((tmp_path / "out" / FACTS_FILE).read_text())["status"] == "running"
    made.clear()
    summary = run_study(spec, tmp_path / "out", 1, progress)
    assert (summary["failed"], summary["found"], steps[2:]) == ([], 9, [(6, 12), (12, 12)])
    assert sorted(made) == ["ensemble", "local", "pate", "plurality"]
    assert (tmp_path / "out" / RESULTS).read_bytes() == (tmp_path / "whole" / RESULTS).read_bytes()


def test_a_full_disk_ends_a_study_with_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would compute for hours what is gone at the next interruption."""

    def full(path: Path, content: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(compute, "replace_private", full)
    with pytest.raises(StorageError, match="No space left"):
        run(tmp_path, **SMALL)


@pytest.mark.ray
def test_a_ray_cluster_gives_the_same_table_and_goes_on(tiny: Path, tmp_path: Path) -> None:
    spec, command = load_study(str(write_tiny(tmp_path))), "consilium study tiny.toml --cluster local"
    assert run_study(spec, tmp_path / "out", command=command, cluster="local")["failed"] == []
    assert (tmp_path / "out" / RESULTS).read_bytes() == (tiny / "out" / RESULTS).read_bytes()
    assert run_study(spec, tmp_path / "out")["found"] == 36


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
    (warning,) = summary["warnings"]
    assert warning["code"] == "parties-left-out" and "data.least_rows = 6" in warning["text"]
    assert "skewed, seed 0: the partition made 20 parties, and " in warning["text"]
    page = (tmp_path / "out" / PAGE).read_text()
    assert "Not everybody takes part." in page and warning["text"] in page
