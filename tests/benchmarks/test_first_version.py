"""The pieces of what the first version of the 2017 paper tried, on a handful of made-up images."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from scipy import stats

from benchmarks.binary_experts import expert_scores, in_doubt
from benchmarks.cnn_teachers import Spoken, spoken
from benchmarks.distillation import label_sigma, noisy_shares, targets_of
from benchmarks.pairs import main, pairs
from benchmarks.plain_network import accuracy, learn, one_hot
from benchmarks.siamese import SameClass, SameImage, matches, siamese
from consilium.accounting.curves.gdp import epsilon_of, mu_squared
from consilium.coordinator.privacy import promised_to_student
from consilium.models.images.loop import Material
from consilium.models.images.network import network
from consilium.models.images.pixels import Distortion, Pixels
from consilium.simulations.scenario import load_scenario
from consilium.simulations.study.cells import plots
from consilium.simulations.study.row_scores import RowScores
from consilium.simulations.study.spec import load_study
from tests.docs.pages import ROOT

SIDE = 8


def bars(labels: np.ndarray, seed: int = 0) -> np.ndarray:
    """Noisy 8x8 images float64 (n, 64): of class c row 2c + 1 is bright."""
    images = 0.3 * np.random.default_rng(seed).random((len(labels), SIDE, SIDE))
    images[np.arange(len(labels)), 2 * labels + 1] += 0.7
    return images.reshape(len(labels), -1)


class Teacher:
    """Says the same of every row: these probabilities of the classes that it has seen."""

    def __init__(self, seen: list[int], probabilities: list[float]) -> None:
        self.classes_, self._probabilities = np.array(seen), np.array(probabilities)

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        return np.tile(self._probabilities, (len(x), 1))


def told() -> Spoken:
    """Three teachers on two rows of four classes, the last of which nobody has seen."""
    teachers = [Teacher([0, 1], [0.8, 0.2]), Teacher([0, 2], [0.1, 0.9]), Teacher([2], [1.0])]
    return spoken(teachers, np.zeros((2, 5)), np.array([0, 2]), classes=4)  # type: ignore[arg-type]


def test_votes_and_averages_of_teachers_that_have_seen_other_classes() -> None:
    found = told()
    assert found.votes.tolist() == [[1, 0, 2, 0], [1, 0, 2, 0]]
    assert found.right.tolist() == [0.5, 0.5, 0.5]
    assert found.averages[0, 0] == pytest.approx([0.9 / 3, 0.2 / 3, 1.9 / 3, 0])
    softened = [0.8**0.2 / (0.8**0.2 + 0.2**0.2), 0.1**0.2 / (0.1**0.2 + 0.9**0.2)]  # softmax(logits / 5)
    assert found.averages[1, 0, 0] == pytest.approx(sum(softened) / 3)
    assert found.averages.sum(axis=2) == pytest.approx(np.ones((2, 2)))


def test_what_students_without_privacy_learn_from() -> None:
    rows, found = np.array([1]), told()
    expected = {
        "labels": ([0, 0, 1, 0], 1.0),
        "T = 1": (found.averages[0, 1], 1.0),
        "T = 5": (found.averages[1, 1], 5.0),
    }
    for way, (targets, temperature) in expected.items():
        given = targets_of(way, found, rows)
        assert (given[0][0].tolist(), given[1]) == (list(targets), temperature), way


@pytest.mark.parametrize("way", ["T = 1", "T = 5", "votes"])
def test_noise_on_sums_costs_what_was_asked(way: str) -> None:
    rows = np.zeros(2000, dtype=np.int64)
    found = noisy_shares(way, told(), rows, 2.0, np.random.default_rng(0))
    sigma = 3 * found.deviation[0]  # of the sum over three teachers
    # one party's probabilities, or its vote, move the sum by the square root of 2 at most: a histogram's sensitivity
    assert epsilon_of(mu_squared(len(rows), sigma), 1e-5) == pytest.approx(2.0, rel=1e-6)
    exact = told().votes[0] / 3 if way == "votes" else targets_of(way, told(), rows[:1])[0][0]
    around = (found.shares - exact) / found.deviation[:, None]
    assert abs(around.mean()) < 0.06 and 0.95 < around.std() < 1.05  # 8,000 draws: 5 and 6 standard errors


@pytest.mark.slow
def test_labels_at_the_same_worst_case() -> None:
    epsilon = 5.0
    noise = f"federation.mechanism={{name='gnmax', sigma={label_sigma(100, epsilon)}}}"
    config = load_scenario("mnist-250", [noise, "federation.query_budget={queries=100, answers=100}"]).federation
    assert 0.98 * epsilon < promised_to_student(config).epsilon <= epsilon


@pytest.mark.parametrize("temperature", [1.0, 5.0])
def test_a_network_learns_probabilities_at_its_temperature(temperature: float) -> None:
    labels = np.arange(40) % 2
    x, shares = bars(labels), np.where(labels[:, None] == 1, [0.3, 0.7], [0.9, 0.1])
    model = learn(x, shares, seed=0, temperature=temperature, steps=150, channels=2)
    logits = np.log(model.predict_proba(bars(np.array([0, 1]), seed=1))) / temperature
    softened = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    assert softened[:, 0] == pytest.approx([0.9, 0.3], abs=0.06)


def test_labels_are_probabilities_of_one() -> None:
    labels = np.arange(30) % 3
    model = learn(bars(labels), one_hot(labels, 3), seed=0, steps=80, channels=2)
    assert accuracy(model, bars(labels, seed=1), labels) == 1.0
    assert accuracy(model, bars(labels, seed=1), (labels + 1) % 3) == 0.0


def material(labels: list[int]) -> Material:
    y = np.array(labels)
    every = Pixels(shape=network_shape(), low=0.0, high=1.0).images(bars(y))
    return Material(every, torch.from_numpy(y), every, 3, torch.Generator().manual_seed(0))


def network_shape():
    return Pixels.of(bars(np.array([0]))).shape


def test_half_of_the_pairs_are_of_one_class() -> None:
    given = material([0, 0, 1, 1, 2, 2])
    left, right, alike = SameClass(network(network_shape(), 1, 2), given).draw()
    bright = [images.sum(dim=(1, 3)).argmax(dim=1) for images in (left, right)]
    assert (bright[0] == bright[1]).float().tolist() == alike.tolist()
    assert alike.tolist() == [1.0] * 32 + [0.0] * 32


def test_where_all_labels_are_one_class_all_pairs_are_alike() -> None:
    *_, alike = SameClass(network(network_shape(), 1, 2), material([1, 1, 1])).draw()
    assert alike.tolist() == [1.0] * 64


def test_pairs_of_an_image_and_its_copy() -> None:
    given = material([0, 1, 2] * 20)
    left, right, alike = SameImage(network(network_shape(), 1, 2), given, Distortion()).draw()
    assert torch.equal(left[:32], right[:32]) and alike.tolist() == [1.0] * 32 + [0.0] * 32


@pytest.mark.parametrize("variant", ["same image", "same class"])
def test_the_most_alike_image_has_the_same_class(variant: str) -> None:
    known, rows = np.array([0, 1, 2] * 5), np.array([2, 0, 1, 1])
    model = siamese(variant, bars(known), known, bars(np.arange(30) % 3, seed=2), seed=0, steps=60)
    best, sure = matches(model, bars(rows, seed=1), bars(known))
    assert known[best].tolist() == rows.tolist()
    assert sure.shape == (4,) and ((sure > 0) & (sure < 1)).all()


@pytest.mark.parametrize(
    ("scores", "others", "expected"),
    [
        ([0.8, 0.2, 0.2, 0.2, 0.2], 4, [0]),
        ([0.8, 0.2, 0.2, 0.2, 0.1], 4, []),  # .1 is not above .1
        ([0.9, 0.2, 0.2, 0.2, 0.2], 4, []),  # .9 is not below .9
        ([0.8, 0.2, 0.0, 0.0, 0.0], 1, [0]),
        ([0.8, 0.0, 0.0, 0.0, 0.0], 1, []),
        ([0.1, 0.1, 0.1, 0.1, 0.1], 1, []),  # no expert at all
    ],
)
def test_which_rows_are_in_doubt(scores: list[float], others: int, expected: list[int]) -> None:
    assert in_doubt(np.array([scores]), others).tolist() == expected


def test_an_expert_knows_its_class() -> None:
    labels, rows = np.arange(30) % 3, np.array([0, 1, 2])
    scores = expert_scores(bars(labels), labels, bars(rows, seed=1), seed=0, classes=4, steps=60)
    assert scores[:, :3].argmax(axis=1).tolist() == rows.tolist()
    assert scores[:, 3].max() < 0.1  # a class without a label


def results(**more: list) -> pl.DataFrame:
    """Three seeds of two strategies: .80, .82, .84 at random, and .01, .02, .03 more."""
    seeds = [0, 1, 2] * 2
    values = [0.80, 0.82, 0.84, 0.81, 0.84, 0.87]
    columns = {"cell": ["c"] * 6, "selection": ["random"] * 3 + ["margin"] * 3, "seed": seeds, "method": ["pate"] * 6}
    columns |= {"scope": ["run"] * 6, "name": [""] * 6, "metric": ["accuracy"] * 6, "value": values}
    return pl.DataFrame({**columns, "low": values, "high": values, **more})


def test_points_of_an_axis_seed_by_seed() -> None:
    found = {line[0]: line[-2:] for line in pairs(results(), "selection", "random", "pate", "accuracy")}
    assert found == {
        "random": ("0.820 ± 0.020", "–"),
        "margin": ("0.840 ± 0.030", "+0.0200 (-0.0048 to +0.0448, over seeds alone)"),
    }


def test_other_axes_stay_apart() -> None:
    two = pl.concat([results(set=["a"] * 6), results(set=["b"] * 6, value=[0.5] * 6)])
    found = pairs(two, "selection", "random", "pate", "accuracy")
    assert sorted(line[:2] for line in found) == [("a", "margin"), ("a", "random"), ("b", "margin"), ("b", "random")]
    assert [line[-1] for line in found if line[:2] == ("b", "margin")] == [
        "+0.0000 (+0.0000 to +0.0000, over seeds alone)"
    ]


def test_one_seed_has_no_interval() -> None:
    one = results().filter(pl.col("seed") == 0)
    assert pairs(one, "selection", "random", "pate", "accuracy")[-1][-1] == "+0.0100 (one seed)"


def test_rows_that_seeds_share_widen_the_interval() -> None:
    cells = [f"c{number}" for number in range(6)]
    off = np.linspace(-0.02, 0.02, 10)
    scores = {
        "ids": [list(range(10))] * 6,
        "rows": [[1] * 10] * 6,
        "accuracy": [(off * (number > 2)).tolist() for number in range(6)],
    }
    known = RowScores(pl.DataFrame({"cell": cells, "space": ["s"] * 6, "unit": ["row"] * 6, **scores}))
    found = pairs(results(cell=cells), "selection", "random", "pate", "accuracy", known)[-1][-1]
    half = math.sqrt(stats.t.ppf(0.975, 2) ** 2 * 0.01**2 / 3 + stats.t.ppf(0.975, 9) ** 2 * np.sum(off**2) * 10 / 9)
    assert found == f"+0.0200 ({0.02 - half:+.4f} to {0.02 + half:+.4f})"


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        (["--axis", "divison"], "no axis divison; there are selection"),
        (["--method", "pooled"], "method pooled has no accuracy at selection random"),
        (["--against", "nobody"], "method pate has no accuracy at selection nobody"),
        (["--metric", "auc"], "method pate has no auc at selection random"),
    ],
)
def test_what_a_study_does_not_have(asked: list[str], text: str, tmp_path: Path) -> None:
    results().write_parquet(tmp_path / "results.parquet")
    with pytest.raises(SystemExit, match=text):
        main([str(tmp_path), *asked])


def test_a_folder_without_results(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"it has no results\.parquet"):
        main([str(tmp_path)])


@pytest.mark.parametrize(("name", "points"), [("mixed", 8), ("selection", 5), ("selection_stroke", 6)])
def test_every_point_of_the_studies_is_a_federation(name: str, points: int) -> None:
    assert len(plots(load_study(str(ROOT / f"benchmarks/studies/{name}.toml"), seeds=1))) == points
