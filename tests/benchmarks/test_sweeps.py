"""The benchmarks of teachers, orders and private labels: what they count, on votes that are counted by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.composition import laplace_and_gauss, sigma_for
from benchmarks.glyph_students import Taught, together
from benchmarks.label_accuracy import pr_label
from benchmarks.orders import GRIDS, at_edge, renyi, sequences
from benchmarks.papers import Kept
from benchmarks.private_labels import MECHANISMS, PRIVATE, interval, label_sets, table
from benchmarks.teachers import STUDY, Heard, accuracy, gaps, heard, leads, print_table, spread
from consilium.coordinator.mechanisms import Confident
from consilium.simulations.study.cache import StepCache
from consilium.simulations.study.cells import plots
from consilium.simulations.study.spec import load_study
from docs.figures import RECORD, read
from docs.marked import DOCS
from tests.simulations.study.tiny import write_tiny

VOTES = np.array([[10, 0, 0], [6, 4, 0], [5, 5, 0], [1, 2, 7]])
TRUTH = np.array([0, 1, 0, 2])


def said(seed: int = 0) -> Heard:
    return Heard("ridge", 10, seed, 0.5, VOTES, TRUTH)


def test_gaps_are_counted_in_votes_and_as_a_share() -> None:
    assert leads(VOTES).tolist() == [10, 2, 0, 5]
    found = gaps(said())
    assert (found["mean, % of teachers"], found["> 0, %"], found["> 2, %"], found["> 10, %"]) == (42.5, 75, 50, 0)
    assert found["> 2 and wrong, %"] == 0


def test_less_noise_labels_as_the_plurality() -> None:
    found = accuracy(said())
    noisy = [value for name, value in found.items() if name.startswith("gamma")]
    assert found["plurality, %"] == 75 and found["one teacher, %"] == 50
    assert noisy == sorted(noisy) and 30 < noisy[0] < 40


@pytest.mark.parametrize(("values", "told"), [([2.0], "2.000"), ([98.0, 99.0], "98.50 ± 0.71")])
def test_spread(values: list[float], told: str) -> None:
    assert spread(values) == told


def test_noise_of_equal_accuracy_is_found() -> None:
    votes = np.random.default_rng(0).multinomial(250, [0.5, 0.3, 0.2], 200)
    truth, sigmas = np.zeros(200, dtype=np.int64), np.geomspace(5, 200, 30)
    share = float(pr_label(votes, 61.0, truth).mean())
    assert sigma_for(share, votes, truth, sigmas) == pytest.approx(61.0, rel=0.01)
    laplace, gauss = np.split(np.array(laplace_and_gauss(votes, 0.02, 61.0, 1e-5)), 2)
    assert (gauss < laplace).all(), "classic, CKS and worst case"


def test_teachers_of_a_study_are_trained_once(tmp_path: Path) -> None:
    spec, cache = load_study(str(write_tiny(tmp_path))), StepCache(tmp_path / "cache")
    assert list(heard(spec, cache, train=False)) == []
    first = list(heard(spec, cache))
    again = list(heard(spec, cache, train=False))
    assert len(first) == 4, "two divisions, two seeds; the axis of noise trains nothing"
    for one, other in zip(first, again, strict=True):
        assert (one.kind, one.teachers, one.seed, one.one) == (other.kind, other.teachers, other.seed, other.one)
        assert (one.votes == other.votes).all() and (one.votes.sum(axis=1) == one.teachers).all()
        assert one.one > 0.5 and len(one.truth) == len(one.votes)


def test_the_study_of_teachers_has_every_number_once_for_each_mechanism() -> None:
    cells = [(plot.axes["mechanism"][:5], plot.axes["parties"]) for plot in plots(load_study(str(STUDY), seeds=1))]
    numbers = ["5", "10", "25", "50", "100", "250", "500", "1,000", "2,500", "5,000"]
    assert sorted(cells) == sorted((name, number) for name in ("LNMax", "GNMax") for number in numbers)


@pytest.mark.slow
def test_our_orders_do_not_end_where_epsilon_is_least() -> None:
    header, rows = renyi()
    found = list(rows)
    if not found:
        pytest.skip("neither votes nor golden sets are beside the repository (shared/)")
    ours = header.index("ours: order")
    assert [row[0] for row in found if "edge" in f"{row[ours]} {row[-1]}"] == []
    assert "edge" in str(found[0][header.index("8 moments: order")]), "the trap that this looks for"
    assert at_edge(GRIDS["2018"][-1], GRIDS["2018"]) and not at_edge(3.0, GRIDS["2018"])


def test_orders_of_queries_have_each_once() -> None:
    found = sequences(VOTES)
    assert [sorted(order) for order in found.values()] == [[0, 1, 2, 3]] * len(found)
    assert found["clearest first (secret)"].tolist() == [0, 3, 1, 2]
    assert found["most disputed first (secret)"].tolist() == [2, 1, 3, 0]


def test_all_labels_are_as_many_and_of_the_same_queries() -> None:
    votes = np.random.default_rng(1).multinomial(250, [0.6, 0.3, 0.1], 900)
    truth = np.zeros(900, dtype=np.int64)
    sets = label_sets(Confident(threshold=150, sigma1=10.0, sigma2=5.0), votes, truth, seed=3)
    count = len(sets[PRIVATE][0])
    assert 200 < count < 500 and {len(rows) for rows, _ in sets.values()} == {count}
    assert {len(labels) for _, labels in sets.values()} == {count}
    assert all(len(set(rows.tolist())) == count for rows, _ in sets.values()), "no query twice"
    passed, lot = sets["passed, plurality"][0], sets["by lot, plurality"][0]
    assert votes[passed].max(axis=1).mean() > votes[lot].max(axis=1).mean()
    assert (sets["by lot, true"][1] == 0).all()


def test_an_interval_needs_two_seeds() -> None:
    assert [interval([0.01, 0.03]), interval([0.01])] == ["+2.00 ± 12.71", "+1.00 ± nan"]


def test_tables_of_teachers_and_of_private_labels_are_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(RECORD, str(tmp_path))
    print_table("accuracy", [said(0), said(1)], "python -m benchmarks.teachers --tables accuracy")
    accuracies = read(tmp_path / "papers" / "teachers-accuracy.json")
    assert accuracies.rows[0][:4] == ("10", "ridge", "50.00 ± 0.00", "75.00 ± 0.00") and accuracies.seeds == (0, 1)
    known = read(DOCS / "figures" / "papers" / "teachers-accuracy.json")
    assert set(known.columns) - {"images"} == set(accuracies.columns)

    kept = Kept(tmp_path / "kept.jsonl")
    for name in MECHANISMS:
        for seed, more in ((0, 0.01), (1, 0.03)):
            of = {"mechanism": name, "trainer": "graph", "seed": seed, "count": 100, "right": 0.9}
            kept.add(**of, labels=PRIVATE, accuracy=0.8)
            kept.add(**of, labels="by lot, true", accuracy=0.8 + more)
    table(kept, ["graph"], 2, "python -m benchmarks.private_labels --trainers graph --seeds 2")
    labels = read(tmp_path / "papers" / "private-labels.json")
    assert [row[1:] for row in labels.rows[:2]] == [
        (PRIVATE, "100", "90.00", "80.00", ""),
        ("by lot, true", "100", "90.00", "82.00", "+2.00 ± 12.71"),
    ]
    assert len(labels.rows) == 4 and labels.seeds == (0, 1)


def test_students_of_glyphs_over_seeds_are_a_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(RECORD, str(tmp_path))
    hits = (np.array([True, True, True, False]), np.array([True, True, False, False]))
    seeds = [
        [Taught("GNMax", "1.00", 500, 500, 0.9, each), Taught("labels by hand: 150", "none", 150, 150, 1, each)]
        for each in hits
    ]
    together(seeds, "by family", "python -m benchmarks.glyph_students --seeds 2")
    made = read(tmp_path / "papers" / "glyph-students-by-family.json")
    assert made.rows[0] == ("GNMax", "1.00", "500", "500", "90.0", "62.5 ± 17.7", "29.0 to 96.0") and made.seeds == (
        0,
        1,
    )
    assert made.rows[1][:5] == ("labels by hand: 150", "none", "150", "150", "100.0")


def test_label_accuracy_against_simulation():
    """Quadrature against 200,000 draws; a difference above .006 has p < 1e-7."""
    rng = np.random.default_rng(4)
    votes = np.array([[40, 35, 25], [50, 30, 20]])
    labels = np.array([0, 1])
    exact = pr_label(votes, 12.0, labels)
    for row, label, p in zip(votes, labels, exact, strict=True):
        noisy = row + rng.normal(0, 12.0, (200_000, 3))
        assert (noisy.argmax(axis=1) == label).mean() == pytest.approx(p, abs=0.006)
