"""The embedded digits: what is in the file, who is whose, features that look at public rows alone, rivals beside."""

from __future__ import annotations

import hashlib
import importlib.util
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from consilium.models.keys import TRAINERS
from consilium.protocol.errors import DataError
from consilium.report.disclosure import epsilon_text
from consilium.simulations.datasets import images as digits
from consilium.simulations.datasets.images import LEVELS, ROWS, SIDE, gradients, open_digits, upright
from consilium.simulations.divide import divide
from consilium.simulations.methods.manual_labels import ON_PUBLIC_ROWS, relearnt
from consilium.simulations.run import run_scenario
from consilium.simulations.scenario import load_scenario

ROOT = Path(__file__).resolve().parents[3]
HASH = "0736c630eb9e5e00690262a457d78f641a89af22ca747c3fc7a956d7c6ec8039"
FEW = ("data.public={rows=[300, 200]}", "federation.teacher.alpha=20")
"""Features of 23,600 images are computed once a session; fewer public rows make the rest quick."""


def test_what_is_in_the_file() -> None:
    source = open_digits()
    assert source.images.shape == (23_600, SIDE, SIDE) and source.images.dtype == np.uint8
    assert source.images.max() == LEVELS - 1 and len(np.unique(source.y)) == len(source.classes) == 10
    writers, counts = np.unique(source.owner, return_counts=True)
    assert len(writers) == 295 and set(counts.tolist()) == {ROWS}
    content = [np.ascontiguousarray(part).tobytes() for part in (source.images, source.y, source.owner)]
    assert hashlib.sha256(b"".join(content)).hexdigest() == HASH
    folder = Path(digits.__file__).parent
    assert (folder / "digits.npz").stat().st_size < 4_000_000 and (folder / "digits.LICENSE.txt").is_file()


@pytest.mark.nightly
def test_the_file_is_what_the_public_ones_give(shared_data: Path, tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("embedded_data", ROOT / "tools" / "embedded_data.py")
    assert spec is not None and spec.loader is not None
    making = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(making)
    making.digits(str(shared_data / "mnist"), str(shared_data / "mnist_writers.npz"), tmp_path)
    with np.load(tmp_path / "digits.npz") as made, np.load(making.FOLDER / "digits.npz") as shipped:
        assert set(made.files) == set(shipped.files)
        for name in made.files:
            np.testing.assert_array_equal(made[name], shipped[name])


def test_seeds_divide_writers_anew_and_nobody_is_in_two_parts() -> None:
    seen = set()
    for seed in range(5):
        case, owner = divide(load_scenario("digits"), seed), open_digits().owner
        partition = case.partition
        parties = [set(owner[rows].tolist()) for rows in partition.parties.values()]
        everybody = set().union(*parties)
        public, test = (set(owner[rows].tolist()) for rows in (partition.queries, partition.test))
        assert {len(rows) for rows in partition.parties.values()} == {ROWS} and {len(who) for who in parties} == {1}
        assert (len(everybody), len(partition.queries), len(partition.test)) == (250, 2500, 1000)
        assert not everybody & public and not everybody & test and not public & test
        seen.add(frozenset(test))
    assert len(seen) == 5


def test_too_many_public_rows_are_refused() -> None:
    with pytest.raises(DataError, match="leaves no writer private"):
        divide(load_scenario("digits", ("data.public={rows=[23000, 600]}",)), 0)


def test_features_look_at_public_rows_alone() -> None:
    images, rng = open_digits().images[:400], np.random.default_rng(0)
    described, public = gradients(images), np.arange(100)
    found = digits.components(described, public, 20)
    assert found.shape == (400, 20) and abs(float((found[public] ** 2).mean()) - 1) < 1e-3
    changed = described.copy()
    changed[100:] = rng.random(changed[100:].shape)
    np.testing.assert_allclose(digits.components(changed, public, 20)[public], found[public], atol=1e-4)


def test_a_slanted_stroke_is_set_upright() -> None:
    image = np.zeros((1, SIDE, SIDE), dtype=np.uint8)
    image[0, np.arange(2, 18), np.arange(2, 18) // 2 + 4] = LEVELS - 1
    columns = upright(image)[0].sum(axis=0)
    assert columns[8:12].sum() > 0.95 * columns.sum()
    assert not upright(np.zeros_like(image)).any() and not np.isnan(gradients(np.zeros_like(image))).any()


def test_a_rival_with_the_public_rows_learns_as_the_student_does() -> None:
    case = divide(load_scenario("digits", FEW), 0)
    true = np.eye(10)[case.pool_y]
    found = relearnt(case, [true] * 20)
    assert len(found) < 20 and found[0].shape == (200, 10)
    assert (found[0].argmax(axis=1) == case.test_y).mean() > 0.85
    assert {kind.model_fields["name"].default for kind in TRAINERS if kind.learns_from_public_rows} == {"graph"}
    poor = replace(case, scenario=load_scenario("digits", (*FEW, "student.trainer.name=logistic_regression")))
    assert not poor.scenario.student.trainer.learns_from_public_rows


@pytest.fixture(scope="module")
def summary(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    scenario = load_scenario("digits", (*FEW, "simulation.manual_labels=quick"))
    return run_scenario("digits", scenario, "local", 0, tmp_path_factory.mktemp("digits") / "run")


def test_a_small_run(summary: dict[str, Any]) -> None:
    assert (summary["parties"], summary["queries"]["answered"]) == (288, 30)
    assert summary["privacy"]["unit"] == "party" and summary["privacy"]["epsilon_guaranteed"] <= 0.4
    assert epsilon_text(summary["privacy"]["epsilon_guaranteed"]) == "0.400"
    assert summary["student"]["accuracy"] > summary["baselines"]["mean_teacher"]["accuracy"] - 0.05
    assert summary["worth"]["released"]["labels"] == 30


def test_rivals_stand_beside_with_and_without_the_public_rows(summary: dict[str, Any]) -> None:
    baselines = summary["baselines"]
    for name in ("noisy_average", "private_gradient"):
        with_rows = baselines[ON_PUBLIC_ROWS + name]
        assert 0.1 < baselines[name]["accuracy"] < with_rows["accuracy"] + 0.1
        assert "above_student" in with_rows and with_rows["draws"] <= baselines[name]["draws"]
