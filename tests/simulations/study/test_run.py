"""A study from its file to its folder: what is in it, what is computed again, and that nothing else changes it."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from consilium.protocol.errors import ConfigError, OutputExists
from consilium.protocol.files import take_lock
from consilium.simulations.artifact import from_bytes
from consilium.simulations.divide import make_case
from consilium.simulations.judge import judged
from consilium.simulations.methods import kinds
from consilium.simulations.study.cache import StepCache
from consilium.simulations.study.cells import expand
from consilium.simulations.study.results import FACTS_FILE, MATRICES, PAGE, RESULTS
from consilium.simulations.study.row_scores import RowScores
from consilium.simulations.study.run import StudyInterrupted, run_study
from consilium.simulations.study.spec import COLUMNS, FACTS, load_study
from consilium.simulations.study.summaries.questions import paired
from consilium.simulations.vote import train_ensemble
from tests.simulations.study.test_cells import opened
from tests.simulations.study.test_spec import merged
from tests.simulations.study.tiny import SCENARIO, STUDY, write_tiny

SMALL = {"study": {**STUDY["study"], "seeds": 1}, "axis": STUDY["axis"][:1]}
"""One division, two mechanisms, one seed: six cells."""


@pytest.fixture
def cache(tmp_path: Path) -> StepCache:
    return StepCache(tmp_path / "cache")


def run(folder: Path, cache: StepCache, out: str = "out", **study: Any) -> dict[str, Any]:
    """The study in `folder`, in this process."""
    return run_study(load_study(str(write_tiny(folder, **study))), folder / out, cache)


def kinds_kept(cache: StepCache) -> Counter[str]:
    """How many steps of each kind are in the cache."""
    heads = [json.loads(path.open("rb").readline()) for path in cache.folder.glob("??/*")]
    return Counter(head["what"].partition(":")[0] for head in heads)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small study that is done, and its cache."""
    folder = tmp_path_factory.mktemp("small")
    assert run(folder, StepCache(folder / "cache"), **SMALL)["steps"]["from_cache"] == 0
    return folder


@pytest.fixture
def copied(small: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(small, tmp_path / "copy"))


@pytest.mark.slow
def test_what_is_in_the_folder(tmp_path: Path, cache: StepCache) -> None:
    summary = run(tmp_path, cache)
    out = tmp_path / "out"
    assert (summary["cells"], summary["cases"], summary["failed"]) == (24, 8, [])
    assert summary["shifts"] == {"natural": ["covariate"], "iid": []}  # clinics differ in age
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
    assert told["status"] == "complete" and len(told["cases"]) == 8
    assert [axis["values"] for axis in told["axes"]] == [["2.0", "4.0"], ["natural", "iid"]]
    assert [axis["numeric"] for axis in told["axes"]] == [True, False]
    for id, case in told["cases"].items():
        matrices = from_bytes((out / MATRICES / f"{id}.npz").read_bytes())
        assert len(matrices["parties"]) == case["parties"] == (6 if case["axes"]["division"] == "iid" else 8)
    assert (out / PAGE).is_file() and "over seeds and test rows together" in (out / PAGE).read_text()
    known = RowScores.read(out)
    judged_on_rows = table.filter((pl.col("scope") == "run") & pl.col("metric").is_in(["accuracy", "auc", "ece"]))
    judged_on_rows = judged_on_rows.filter(pl.col("method").is_in(["local", "plurality", "pate"]))
    for cell, metric in judged_on_rows.select("cell", "metric").iter_rows():
        scores = known.of(cell, metric)
        assert (scores is None) == (metric == "ece")
        assert scores is None or (scores.unit, scores.space[:16]) == ("clinic", told["data"][0]["sha256"][:16])
    assert set(paired(table, "accuracy", "pate", row_scores=known)["over"]) == {"seeds and rows"}
    assert [
        path for path in out.iterdir() if path.suffix in (".parquet", ".json") and path.stat().st_mode & 0o077
    ] == []


def test_its_rows_are_those_of_each_method_by_hand(small: Path) -> None:
    """Without steps, cache or scenario in normal form: the case, its teachers and the method, one after the other."""
    table = pl.read_parquet(small / "out" / RESULTS)
    from consilium.protocol.config_files import validate
    from consilium.simulations.scenario import Scenario

    for cell in expand(load_study(str(small / "tiny.toml"))):
        case = make_case(validate(dict(cell.plot.table), Scenario, "cell"), cell.plot.seed, 0.2)
        predicted = cell.compared.method.predict(case, train_ensemble(case))
        expected = sorted(judged(cell.compared.label, case, predicted))
        fields = ["method", "scope", "name", "metric", "value", "low", "high"]
        own = (pl.col("cell") == cell.id) & (
            pl.col("federation.mechanism.sigma") == cell.plot.axes["federation.mechanism.sigma"]
        )
        assert sorted(table.filter(own).select(fields).iter_rows()) == [tuple(row) for row in expected]


def test_nothing_is_computed_twice(copied: Path) -> None:
    cache = StepCache(copied / "cache")
    kept = kinds_kept(cache)
    assert (kept["ensemble"], kept["division"], kept["teachers"], kept["settle"]) == (1, 1, 1, 2)
    assert (kept["predict local"], kept["predict plurality"], kept["predict pate"]) == (1, 1, 2)
    content = (copied / "out" / RESULTS).read_bytes()
    assert run(copied, cache, **SMALL)["steps"]["computed"] == 0
    assert (copied / "out" / RESULTS).read_bytes() == content
    # another budget, another student: the teachers and the exact votes are there
    changes = {"federation": {"query_budget": {"queries": 9, "answers": 9}}, "student": {"trainer": {"C": 1.0}}}
    run(copied, cache, "other", **{**SMALL, "base": merged(SCENARIO, changes)})
    more = kinds_kept(cache)
    assert (more["ensemble"], more["predict local"], more["division"]) == (1, 1, 1)
    assert more["predict pate"] == 4
    # a further seed: its own steps alone
    run(copied, cache, "seeds", **{**SMALL, "study": {**SMALL["study"], "seeds": 2}})
    assert kinds_kept(cache)["ensemble"] == 2


def test_every_measure_and_labels_by_hand(tmp_path: Path, cache: StepCache) -> None:
    """Under what the methods are called, and of private methods alone."""
    methods = ["local", {"name": "pate", "label": "ours"}, {"name": "noisy_average", "epsilon": 5.0}]
    study = {"methods": methods, "measures": ["division", "teachers", "influence", "gain"], "hand_labels": "quick"}
    summary = run(tmp_path, cache, **{**SMALL, "study": {**SMALL["study"], **study}})
    assert summary["failed"] == []
    table = pl.read_parquet(tmp_path / "out" / RESULTS)
    by_hand = table.filter(pl.col("metric").str.starts_with("hand_labels"))
    assert by_hand.group_by("method").len().sort("method").rows() == [("noisy_average epsilon=5.0", 2), ("ours", 2)]
    assert set(table["method"]) == {"local", "ours", "noisy_average epsilon=5.0", "division", "teachers"}
    kept = kinds_kept(cache)
    assert (kept["influence"], kept["worth"], kept["gain"]) == (1, 3, 2), "the average hangs on no mechanism"


def test_an_impossible_division_is_told_and_ends_nothing(tmp_path: Path, cache: StepCache) -> None:
    points = {"natural": {}, "large": {"data": {"least_rows": 1000}}}
    axis = [{"name": "division", "points": points}]
    summary = run(tmp_path, cache, **{**SMALL, "axis": axis})
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
            "federation: mechanism.threshold: unknown key",
        ),
    ],
)
def test_where_nothing_can_be_computed_it_is_an_error(
    tmp_path: Path, cache: StepCache, changes: dict[str, Any], told: str
) -> None:
    base = merged(SCENARIO, changes)
    with pytest.raises(ConfigError, match=told):
        run(tmp_path, cache, **{**SMALL, "axis": [], "base": base})
    assert not (tmp_path / "out" / RESULTS).exists()


def test_a_fault_of_the_program_is_told_without_its_text(
    tmp_path: Path, cache: StepCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The text of an error that nobody foresaw may quote votes."""

    def predict(self: Any, case: Any, ensemble: Any) -> Any:
        raise ValueError("votes 90817 3")

    monkeypatch.setattr(type(kinds.method_of("plurality")), "predict", predict)
    summary = run(tmp_path, cache, **SMALL)
    assert {(each["method"], each["type"], each["known"]) for each in summary["failed"]} == {
        ("plurality", "ValueError", False)
    }
    assert "90817" not in json.dumps(summary["failed"]) and "internal error: ValueError at test_run.py" in json.dumps(
        summary
    )
    assert set(pl.read_parquet(tmp_path / "out" / RESULTS)["method"]) >= {"local", "pate"}


@pytest.mark.parametrize("there", ["a file", "something else", "another study", "another process"])
def test_a_folder_of_something_else_is_refused(tmp_path: Path, cache: StepCache, there: str) -> None:
    out = tmp_path / "out"
    if there == "another study":
        run(tmp_path, cache, **{**SMALL, "study": {**SMALL["study"], "title": "Another"}})
    elif there == "a file":
        out.write_text("mine")
    else:
        out.mkdir()
        (out / "thesis.tex").write_text("mine")
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    if there == "another process":
        (out / "thesis.tex").unlink()
        with open(out / "lock", "w") as lock, pytest.raises((ConfigError, OutputExists)):
            assert take_lock(lock)
            run(tmp_path, cache, **SMALL)
        return
    with pytest.raises(OutputExists):
        run(tmp_path, cache, **SMALL)
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


def test_damage_anywhere_in_the_cache_changes_nothing(copied: Path) -> None:
    cache, content = StepCache(copied / "cache"), (copied / "out" / RESULTS).read_bytes()
    for number, path in enumerate(sorted(cache.folder.glob("??/*"))):
        path.write_bytes(path.read_bytes()[: 10 * number])
    run(copied, cache, **SMALL)
    assert (copied / "out" / RESULTS).read_bytes() == content


class Killed(BaseException):
    """In place of a signal that nobody can catch."""


@pytest.mark.slow
def test_killed_after_each_step_and_again_it_is_the_same(
    small: Path, tmp_path: Path, cache: StepCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After every single write of the cache: what is kept is used, and the results are the same to the byte."""
    put = StepCache.put

    def put_and_die(self: StepCache, *given: Any) -> None:
        put(self, *given)
        raise Killed

    kills = 0
    while True:
        with monkeypatch.context() as patch:
            patch.setattr(StepCache, "put", put_and_die)
            try:
                run(tmp_path / "killed", cache, **SMALL)
            except Killed:
                kills += 1
                assert cache.size().files == kills, "each attempt adds one step, and does none again"
                continue
        break
    assert kills == StepCache(small / "cache").size().files > 10
    assert (tmp_path / "killed" / "out" / RESULTS).read_bytes() == (small / "out" / RESULTS).read_bytes()


def test_a_signal_keeps_what_is_done_and_says_how_to_go_on(tmp_path: Path, cache: StepCache) -> None:
    spec = load_study(str(write_tiny(tmp_path, **SMALL)))

    def interrupt(stage: str, done: int, total: int) -> None:
        if stage == "ensembles" and done == 1:
            os.kill(os.getpid(), signal.SIGTERM)  # a shell's background jobs ignore SIGINT

    with pytest.raises(StudyInterrupted) as caught:
        run_study(spec, tmp_path / "out", cache, progress=interrupt, command="consilium study tiny.toml")
    assert str(caught.value) == "interrupted; what is done is kept. Go on with: consilium study tiny.toml"
    assert (caught.value.exit_code, kinds_kept(cache)["ensemble"]) == (143, 1)
    assert json.loads((tmp_path / "out" / FACTS_FILE).read_text())["status"] == "running"
    assert run_study(spec, tmp_path / "out", cache)["failed"] == []


def test_parties_that_least_rows_cut_are_a_warning(tmp_path: Path, cache: StepCache) -> None:
    """Once for the division, not for each mechanism; at the other division nobody is left out."""
    points = {
        "natural": {"data": {"partition": "owners", "least_rows": 1}},
        "skewed": {"data": {"partition": "dirichlet", "parties": 20, "alpha": 1.0, "sizes": 1.0, "least_rows": 6}},
    }
    axis = [STUDY["axis"][0], {"name": "division", "points": points}]
    summary = run(tmp_path, cache, study={**SMALL["study"], "methods": ["plurality"], "measures": []}, axis=axis)
    told = json.loads((tmp_path / "out" / FACTS_FILE).read_text())
    (warning,) = told["warnings"]
    assert summary["warnings"] == told["warnings"] and warning["code"] == "parties-too-small"
    (case, *_) = [case for case in told["cases"].values() if case["axes"]["division"] == "skewed"]
    assert (warning["made"], warning["too_small"]) == (20, case["left_out"]) and 0 < case["left_out"] < 20
    assert case["parties"] == 20 - case["left_out"]
    assert [point["division"] for point in warning["points"]] == ["skewed", "skewed"]
    assert f"the division made 20 parties, and {case['parties']} of them take part" in warning["text"]
    assert "data.least_rows = 6" in warning["text"] and "(the same at 1 further point)" in warning["text"]
    page = (tmp_path / "out" / PAGE).read_text()
    assert "Not everybody takes part." in page and warning["text"] in page


def test_rows_in_memory(small: Path, tmp_path: Path, cache: StepCache) -> None:
    """The same as from the file, and not kept in the cache."""
    data = {key: value for key, value in SCENARIO["data"].items() if key != "path"} | {"set": "memory"}
    base = {**SCENARIO, "data": data}
    spec = load_study(str(write_tiny(tmp_path, **{**SMALL, "base": base})))
    run_study(spec, tmp_path / "out", cache, source=opened(tmp_path))
    tables = [pl.read_parquet(folder / "out" / RESULTS).drop("cell") for folder in (small, tmp_path)]
    assert [set(table["data_set"]) for table in tables] == [{"table"}, {"memory"}]
    assert tables[0].drop("data_set").equals(tables[1].drop("data_set"))
    assert "rows" not in kinds_kept(cache)
