"""Each benchmark behind a table of a page writes that table: from made-up measurements, or on a tiny size.

The tables of pages that stand on studies: from the folder of made-up results to data files.
"""

from __future__ import annotations

import doctest
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks import (
    audit,
    availability,
    by_name,
    cells,
    cost,
    default_scenario,
    exact,
    forecast,
    held_out,
    histogram,
    interactive,
    liar,
    papers,
    schedule,
    secagg,
    skewed,
    teacher_shards,
    torch_teachers,
    verified,
    vote_modes,
    voting_rules,
    worth,
)
from benchmarks.cost import plans
from benchmarks.cost.model import Load, NodeKind
from benchmarks.peers import table as peers
from benchmarks.peers.table import Round
from benchmarks.scale import clear, secaggplus, secure
from benchmarks.secagg import Cost
from benchmarks.study_tables import main, read_study
from benchmarks.study_tables.cells import digits, signed
from consilium.simulations.study.summaries.questions import questions
from docs import figures
from docs.figures import Figure, read
from docs.marked import DOCS, names, pages
from tests.simulations.study.made_up import MadeUp

MARKED = {name for page in pages(DOCS) for name in names(page.read_text(encoding="utf-8"), figures.TABLES)}


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], dict[str, Figure]]:
    """Figures are written below tmp_path: all of them, by name."""
    (tmp_path / "figures").mkdir()
    monkeypatch.setenv(figures.RECORD, str(tmp_path / "figures"))
    return lambda: figures.read_all(tmp_path)


def kept(path: Path, items: list[dict[str, Any]]) -> list[str]:
    """The option that reads measurements which were made before."""
    path.write_text("".join(json.dumps({"processor_seconds": 1.5, **item}) + "\n" for item in items), encoding="utf-8")
    return ["--out", str(path)]


WORTH = {
    **{"metric": "auc", "released": 300, "student": 0.7, "by_hand": 0.7, "mean_teacher": 0.6, "noisy_average": None},
    **{"plurality": 0.7, "pooled": 0.8, "hand_labels": 100, "low": 0, "high": None, "public_rows": 900},
}
SKEWED = {
    **{"epsilon": 0.9, "parties": 250, "metric": "auc", "student": 0.7, "mean teacher": 0.6, "plurality": 0.7},
    **{"accuracy": 0.7, "majority": 0.8, "hand_labels": None, "warnings": ["class-not-found"]},
}
PLANNED = {"owners": 40, "student": 0.7, "low": 0.5, "median": 0.6, "high": 0.9, "noise": 0.05, "nothing": False}
RUNS = {
    "default_scenario": (
        default_scenario.main,
        ["--seeds", "0", "1"],
        [
            {"setting": name, "seed": seed, "promised": 0.8, **WORTH, "noisy_average": 0.7, "private_gradient": 0.7}
            for name in default_scenario.SETTINGS
            for seed in (0, 1)
        ],
        {"results/default-scenario": 6, "results/default-runs": 3},
    ),
    "worth": (
        worth.main,
        ["stroke", "--seeds", "0", "1"],
        [
            {"scenario": "stroke", "half": half, "seed": seed, "set": '["simulation.hand_labels=quick"]'}
            | {"epsilon": 0.8, **WORTH}
            for half in (False, True)
            for seed in (0, 1)
        ],
        {"results/worth": 2},
    ),
    "skewed": (
        skewed.main,
        ["--seeds", "0", "1"],
        [{"case": name, "seed": seed, **SKEWED} for name in skewed.CASES for seed in (0, 1)],
        {"results/skewed-parties": len(skewed.CASES)},
    ),
    "histogram": (
        histogram.main,
        ["--scenarios", "stroke", "--seeds", "0", "1", "--draws", "1"],
        [
            {"scenario": "stroke", "seed": seed, "epsilon": epsilon, "draw": 0, **dict.fromkeys(histogram.LEARNS, 0.7)}
            for epsilon in histogram.EPSILONS
            for seed in (0, 1)
        ],
        {"results/histograms-or-labels": 2},
    ),
    "forecast": (
        forecast.main,
        ["--seeds", "2", "--epsilons", "1"],
        [
            {"division": name, "unit": unit, "epsilon": 1.0, "seed": seed, **PLANNED}
            for name in voting_rules.DEVELOPMENT
            for unit in forecast.UNITS
            for seed in (0, 1)
        ],
        {"planning/forecast": 2 * len(voting_rules.DEVELOPMENT) + 2},
    ),
    "papers": (
        papers.main,
        ["--seeds", "--rows"],
        [
            {"scenario": "mnist-250", "seed": 0, "row": "teachers", "teacher": 0.96, "plurality": 0.98, "trainer": ""},
            *(
                {"scenario": "mnist-250", "seed": 0, "row": "lnmax-100", "trainer": trainer, "asked": 100}
                | {"answered": 100, "right": 0.9, "data-dependent": 0.5, "worst": 3.0, "promised": 3.0, "accuracy": 0.9}
                for trainer in ("", "cnn")
            ),
        ],
        {"results/mnist-250-votes": 1, "results/mnist-250-students": 1},
    ),
    "held_out": (
        held_out.main,
        ["--seeds", "0"],
        [
            {"scenario": "mnist-250", "seed": 0, "fold": fold, "rows": 1000, "accuracy": 0.98 + fold / 1000}
            | {"right": 1.0, "plurality": 0.97}
            for fold in range(10)
        ],
        {"results/mnist-250-held-out": 11},
    ),
}
"""Benchmark -> its main function, its arguments, what was measured before, and the rows of each table."""


@pytest.mark.parametrize("module", [cells, held_out, plans])
def test_cells_are_what_their_examples_say(module: ModuleType) -> None:
    outcome = doctest.testmod(module)
    assert outcome.attempted > 0 and outcome.failed == 0


@pytest.mark.parametrize("name", RUNS)
def test_what_was_measured_before_makes_the_tables(name: str, tmp_path, monkeypatch, written) -> None:
    monkeypatch.setattr(held_out, "measure", lambda *_: None)  # it would train teachers before it looks
    main, arguments, items, tables = RUNS[name]
    main([*arguments, *kept(tmp_path / "kept.jsonl", items)])
    made = written()
    assert {each.name: len(each.rows) for each in made.values()} == tables
    assert set(made) <= MARKED, "no page shows it"
    assert not any(each.quick or "kept.jsonl" in each.command for each in made.values())
    assert all(each.seconds and each.seconds >= 1.5 for each in made.values())


def test_runs_of_papers_make_tables_with_the_command_that_was_typed(tmp_path: Path, written) -> None:
    def row(title: str, **ours: Any) -> dict[str, Any]:
        each = [{"thousands": [0.997, 0.975]}]
        figures = {name: [0.98, 0.0] for name in ("labels", "student", "teacher", "plurality", "gap")}
        ours = {**figures, "interval": [0.97, 0.99], "unbounded": False, "each": each, **ours}
        return {"title": title, "paper": {"student": "98.00", "teacher": "83.86"}, "differs": "", "ours": ours}

    rows = [row("MNIST"), row("experiment: all labels")]
    results = {"paper": "pate-2017", "seeds": [0], "fast": False, "absent": [], "seconds": 2.0, "rows": rows}
    (tmp_path / "results.json").write_text(json.dumps(results))
    order = {"paper": "pate-2017", "choice": {"rows": ["a", "b"], "seeds": [0], "fast": False}}
    (tmp_path / "paper.json").write_text(json.dumps(order))
    by_name.main([str(tmp_path)])
    made = {figure.name: figure for figure in written().values()}
    assert set(made) == {"papers/pate-2017", "papers/pate-2017-teachers", "papers/pate-2017-why"} <= MARKED
    assert {figure.command for figure in made.values()} == {
        "consilium run pate-2017 --set 'rows=[\"a\", \"b\"]' --set 'seeds=[0]'"
    }
    assert sorted(figure.rows[0][0] for figure in made.values()) == ["MNIST", "MNIST", "all labels"]
    assert made["papers/pate-2017-why"].rows[0][-2:] == ("99.7", "97.5")


def run_of(**changes: Any) -> dict[str, Any]:
    """What a run's summary says of it, as far as tables look."""
    return {
        "student": {"auc": 0.7}, "queries": {"answered": 300}, "seconds": dict.fromkeys(
            ("train", "vote", "enrol", "total"), 1.0
        ),
        "privacy": {"epsilon_student": 0.8, "epsilon_guaranteed": 0.9, "released_label_accuracy": 0.6}, **changes,
    }  # fmt: skip


def judged(seed: int) -> tuple[list[float], np.ndarray]:
    return [0.75, 0.7, float("nan"), 600, 300, 0, 0.6, 0.7 + seed / 100], np.full(10, 0.7 + seed / 100)


COST = Cost(party_ms=30.0, masked_ms=20.0, up=2_000, down=4_000, coordinator=0.1, clear=2_000)
NODES = {NodeKind.PARTY: 0.05, NodeKind.COORDINATOR: 10.0, NodeKind.SECOND: 0.2}


def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, Callable[[], object], dict[str, int]]]:
    """Benchmark, its main function on a tiny size or on made-up parts, and the rows of each table."""
    monkeypatch.setattr(secagg, "session", lambda *_: COST)
    monkeypatch.setattr(secagg, "primitives", lambda *_: [("mask", 1.0, 2.0, 3)])
    monkeypatch.setattr(secure, "session", lambda *_: COST)
    yield "secagg", secagg.main, {"results/secagg": 6}
    yield "secure", secure.main, {"results/thousands-secure": 4}
    monkeypatch.setenv("CONSILIUM_VERIFIED_SHAPES", "20x3 20x3x5")
    monkeypatch.setenv("CONSILIUM_VERIFIED_PARTIES", "5")
    yield "verified", verified.main, {"results/verified": 2}
    node = {"memory": 400.0, "before": 100.0, "votes": 1.0, "all": 2.0, "up": 13_000}
    monkeypatch.setattr(clear, "in_own_process", lambda *_: node)
    yield "plaintext", clear.main, {"results/thousands-clear": 4}
    node = {"party": 30.0, "coordinator": 0.1, "second": 0.02, "up": 84_000, "down": 162_000, "right": True}
    monkeypatch.setattr(secaggplus, "in_own_process", lambda *_: node)
    yield "secaggplus", secaggplus.main, {"results/secaggplus": 12}
    of_sizes = [("verified", Load(4, 10, 2), aside, {"seconds": NODES, "memory": {}}) for aside in (False, True)]
    monkeypatch.setattr(cost, "kept", lambda *_: of_sizes)
    monkeypatch.setattr(cost, "mask_rate", lambda: 1e-9)
    yield "cost", cost.main, {"scale/held-out": 3}
    yield "plans", plans.main, {"scale/stroke": 9, "scale/extrapolated": 7}
    monkeypatch.setattr(exact, "LABELLED", {"mnist-250": exact.LABELLED["mnist-250"]})
    exact.main(["--rows"])  # the other tables of the module, of no row
    yield "exact", lambda: exact.main(["--promises"]), {"results/label-promises": 1}
    monkeypatch.setattr(audit, "SOUND", audit.SOUND[:1])
    game = SimpleNamespace(delta=1e-5, claimed=1.0, lower=2.0)
    audited = SimpleNamespace(headline=(SimpleNamespace(pair="tie"), game), violated=True)
    monkeypatch.setattr(
        audit, "audit_mechanism", lambda *_: SimpleNamespace(**vars(audited), results=[SimpleNamespace(at_delta=game)])
    )
    yield "sound", lambda: audit.main("sound"), {"audit/mechanisms": 22}
    yield "planted", lambda: audit.main("planted"), {"audit/planted-bugs": len(audit.PLANTED)}
    found = SimpleNamespace(claimed=2, most_moved=2, most_teachers=2, beyond=0, changes=[0] * 9, violated=False)
    audited = SimpleNamespace(**vars(found), game=SimpleNamespace(headline=(None, game)))
    monkeypatch.setattr(teacher_shards, "audited", lambda *_: audited)
    yield "teacher_shards", teacher_shards.main, {"audit/teacher-shards": 8}
    tiny = {
        name: (spec.model_copy(update={"epochs": 1}), 4, *more)
        for name, (spec, _, *more) in torch_teachers.CASES.items()
    }
    monkeypatch.setattr(torch_teachers, "CASES", tiny)
    monkeypatch.setattr(torch_teachers, "ROUNDS", 1)
    yield "torch_teachers", torch_teachers.main, {"results/network-teachers": 3}
    one = Round(2.0, 3.0, 9.0, 0, "pfl 0.6.0"), np.zeros((371, 300), dtype=np.uint8)
    monkeypatch.setattr(peers, "interpreter", lambda: None)
    monkeypatch.setattr(peers, "done", lambda *_: one)
    yield "peers", lambda: peers.main(["371", "1,000"]), {"scale/peers": 12}
    monkeypatch.setattr(
        vote_modes, "rows", lambda name, _: [[f"{name}, {mode}", *"123456"] for mode in vote_modes.MODES]
    )
    yield "vote_modes", vote_modes.main, {"results/vote-modes": 12}
    yield "availability", lambda: availability.main([36]), {"results/availability": 3}
    yield "liar", lambda: liar.main([0], [10]), {"results/one-liar": 1}
    monkeypatch.setattr(interactive, "stroke", lambda *_: [600, 300, 0, 0.99, 0.97, 0.6, 0.7])
    monkeypatch.setattr(interactive, "mnist", lambda *_: [600, 300, 0, 0.99, 0.97, 0.6, 0.7])
    yield "interactive", interactive.main, {"results/interactive": 7}
    monkeypatch.setattr(schedule, "make_case", lambda *_: SimpleNamespace(of=lambda _: None))
    monkeypatch.setattr(schedule, "train_ensemble", lambda _: SimpleNamespace(pool=None))
    monkeypatch.setattr(schedule, "played", lambda *_: judged(0))
    tables = {"results/schedule": 3, "results/schedule-differences": 3}
    yield "schedule", lambda: schedule.main(["--sets", "stroke", "--seeds", "2"]), tables


@pytest.mark.proofs
def test_a_tiny_size_makes_the_tables(monkeypatch: pytest.MonkeyPatch, written) -> None:
    already: set[str] = set()
    for name, run, tables in small(monkeypatch):
        run()
        made = {each: figure for each, figure in written().items() if each not in already}
        assert {each: len(figure.rows) for each, figure in made.items()} == tables, name
        assert set(made) <= MARKED, f"{name}: no page shows it"
        already |= set(made)


POINTS = {"natural": 0.0, "shuffled": 0.03, "matched": 0.0, "iid": 0.02, "skewed": -0.05, "country": -0.03}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return MadeUp(axes={"division": POINTS}, parties=4).write(tmp_path_factory.mktemp("study") / "hospitals")


def made(folder: Path, out: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Figure]:
    monkeypatch.setenv("RECORD_FIGURES", str(out))
    main([str(folder)])
    return {figure.name: figure for figure in map(read, out.glob("*/*.json"))}


def test_cells_are_means_with_half_of_their_intervals(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, view = made(folder, tmp_path, monkeypatch), read_study(folder).view
    assert found.keys() == {f"results/hospitals{end}" for end in ("", "-2", "-divisions", "-methods")}
    mean = view.means[("iid",), "pooled", "auc"]
    expected = f"{digits(mean['mean'])} ± {digits((mean['high'] - mean['low']) / 2)}"
    table = found["results/hospitals"]
    assert table.cell("pooled", "iid") == expected
    assert table.seeds == (0, 1, 2, 3, 4) and table.command.startswith("consilium study hospitals; python -m")
    assert found["results/hospitals-2"].cell("natural", "kappa of teachers").startswith(".")


def test_only_what_is_tested_is_a_difference_and_a_star_is_what_is_significant(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = made(folder, tmp_path, monkeypatch)
    asked = [question for question in questions(read_study(folder).view) if question.kind == "divisions"]
    tested = [each for question in asked for each in question.tested]
    table = found["results/hospitals-divisions"]
    cells = [cell for row in table.rows for cell in row[1:]]
    assert len(tested) == sum(cell != "–" for cell in cells) > 5
    assert sum(cell.endswith("*") for cell in cells) == sum(each.significant for each in tested) > 0
    skewed = next(each for each in asked[0].tested if each.point == ("skewed",))
    assert table.cell("clear plurality", "skewed in place of natural").startswith(signed(skewed.difference))
    assert all(question.family in table.note for question in asked)
    assert found["results/hospitals-methods"].columns == ("", *POINTS)


@pytest.mark.parametrize(
    ("value", "text", "with_sign"), [(0.0124, ".012", "+.012"), (-0.0126, "−.013", "−.013"), (-0.0002, ".000", ".000")]
)
def test_digits(value: float, text: str, with_sign: str) -> None:
    assert (digits(value), signed(value)) == (text, with_sign)


def test_a_study_without_a_page(folder: Path, tmp_path: Path) -> None:
    other = MadeUp(parties=2, seeds=[0]).write(tmp_path / "mine")
    with pytest.raises(SystemExit, match="no page has tables of the study mine"):
        main([str(other)])
