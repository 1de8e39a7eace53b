"""Image sets: where those lie that are not shipped, what their files may be, how they are divided; digits."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io

from consilium.models.keys import TRAINERS
from consilium.models.published.model import check_names
from consilium.protocol.errors import DataError
from consilium.protocol.images import ImageShape
from consilium.report.disclosure import epsilon_text
from consilium.simulations.datasets import images as digits
from consilium.simulations.datasets.base import data_folder
from consilium.simulations.datasets.images import (
    LEVELS,
    ROWS,
    SIDE,
    gradients,
    open_digits,
    read_idx,
    read_mat,
    upright,
)
from consilium.simulations.datasets.source import load_dataset
from consilium.simulations.divide import divide
from consilium.simulations.methods.manual_labels import ON_PUBLIC_ROWS, relearnt
from consilium.simulations.population.partition import not_public
from consilium.simulations.population.partitions import divided
from consilium.simulations.population.public import schema
from consilium.simulations.population.specs import DataSpec
from consilium.simulations.run import run_scenario
from consilium.simulations.scenario import divided_data, load_scenario


def test_absent_data_are_told_with_their_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No folder beside the package is a user's."""
    (tmp_path / "shared" / "data").mkdir(parents=True)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.delenv("CONSILIUM_DATA", raising=False)
    with pytest.raises(DataError, match=r"no folder .* is named\. Name it with data\.path .*CONSILIUM_DATA"):
        data_folder()
    with pytest.raises(DataError, match=r"mnist/train-images.* is not there\. Get it from https://.*CONSILIUM_DATA"):
        load_dataset("mnist", str(tmp_path))
    monkeypatch.setenv("CONSILIUM_DATA", str(tmp_path))
    assert data_folder() == tmp_path
    with pytest.raises(DataError, match=r"data\.path is /absent, which is no folder\. Name it with data\.path"):
        data_folder("/absent")  # a path comes before the variable


DAMAGED = {
    "no gzip": b"no gzip",
    "floats": gzip.compress(b"\0\0\x0d\x01\0\0\0\x01\0"),
    "cut off": gzip.compress(b"\0\0\x08\x01\0\0\0\x05\0"),
    "gzip cut off": gzip.compress(bytes(1000))[:20],
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_damaged_idx_files(tmp_path: Path, damage: str) -> None:
    (tmp_path / "x.gz").write_bytes(DAMAGED[damage])
    with pytest.raises(DataError, match="cannot read"):
        read_idx(tmp_path / "x.gz")


def test_mnist_is_what_it_should_be_and_writers_are_on_one_side_only(shared_data: Path) -> None:
    data = load_dataset("mnist-writers", str(shared_data))
    assert data.x.shape == (70_000, 784)
    assert (data.x.dtype, data.x.min(), data.x.max()) == (np.float32, 0, 1)
    assert np.bincount(data.y[:60_000]).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert data.public is not None and len(not_public(data)) == 60_000
    assert (data.public.queries[0], len(data.public.queries), len(data.public.test)) == (60_000, 9_000, 1_000)
    assert (len(np.unique(data.owner[:60_000])), len(np.unique(data.owner[60_000:]))) == (539, 297)
    assert not set(data.owner[:60_000]) & set(data.owner[60_000:])
    parts = divided(data, DataSpec(set="mnist-writers", least_rows=50), 400, 0)
    assert all(len(np.unique(data.owner[rows])) == 1 for rows in parts.parties.values())
    _, parts = divided_data(load_scenario("mnist-250", [f"data.path={shared_data}"]), 0)
    assert len(parts.parties) == 250 and {len(rows) for rows in parts.parties.values()} == {240}


# -- SVHN -------------------------------------------------------------------------------------------------------------


def corner(row: np.ndarray) -> list[list[int]]:
    """Red, green and blue of the second pixel of the first line, and of the first of the second."""
    planes = ImageShape(3, 32).planes(row[None])[0]
    return [np.rint(255 * planes[:, 0, 1]).astype(int).tolist(), np.rint(255 * planes[:, 1, 0]).astype(int).tolist()]


def test_svhn(tmp_path: Path) -> None:
    """Its extra images are the parties', too; a label of 10 is the digit 0."""
    files = {}
    for seed, (name, count) in enumerate({"train": 12, "test": 13, "extra": 5}.items()):
        generator = np.random.default_rng(seed)
        images = generator.integers(0, 256, (32, 32, 3, count)).astype(np.uint8)
        files[name] = {"X": images, "y": generator.integers(1, 11, (count, 1)).astype(np.uint8)}
        scipy.io.savemat(tmp_path / f"{name}_32x32.mat", files[name], do_compression=True)
    data = load_dataset("svhn", str(tmp_path))
    assert (data.x.shape, data.x.dtype, len(data.features)) == ((30, 3072), np.float32, 3072)
    assert (data.y[:12].tolist(), data.classes[0]) == ((files["train"]["y"].reshape(-1) % 10).tolist(), "0")
    assert data.public is not None  # of the published 26,032 it would be 10,000, of 13 it is 4
    assert (data.public.queries.tolist(), data.public.test.tolist()) == (list(range(17, 21)), list(range(21, 30)))
    for row, (image, at) in {0: (files["train"]["X"], 0), 29: (files["test"]["X"], 12)}.items():
        assert corner(data.x[row]) == [image[0, 1, :, at].tolist(), image[1, 0, :, at].tolist()]
    assert data.features[3:5] == ("pixel-00-01-red", "pixel-00-01-green")


def svhn_arrays(**other: Any) -> dict[str, Any]:
    return {"X": np.zeros((32, 32, 3, 4), dtype=np.uint8), "y": np.ones((4, 1), dtype=np.uint8), **other}


@pytest.mark.parametrize(
    ("held", "spoilt", "told"),
    [
        ({"X": svhn_arrays()["X"]}, bytes, "cannot read .*'y'. Get it anew"),
        (svhn_arrays(X=np.zeros((32, 32, 3, 4))), bytes, r"images float64 \(4, 32, 32, 3\)"),
        (svhn_arrays(y=np.full((4, 1), 11, dtype=np.uint8)), bytes, "labels from 0 to 9 are needed"),
        (svhn_arrays(), lambda content: content[:-20], "cannot read"),
    ],
)
def test_what_is_no_svhn(tmp_path: Path, held: dict[str, Any], spoilt: Callable[[bytes], bytes], told: str) -> None:
    path = tmp_path / "x.mat"
    scipy.io.savemat(path, held, do_compression=True)
    path.write_bytes(spoilt(path.read_bytes()))
    with pytest.raises(DataError, match=told):
        read_mat(path)


# -- characters of fonts ----------------------------------------------------------------------------------------------


def arrays(**changes: Any) -> dict[str, Any]:
    held = {
        "x": np.arange(6 * 784).reshape(6, 28, 28).astype(np.uint8),
        "y": np.array([0, 1, 2, 2, 1, 0], dtype=np.uint8),
        "family": np.array([0, 0, 0, 1, 1, 1], dtype=np.uint16),
        "chars": np.array(["a", "<", "é"]),
        "families": np.array([".\x7f", "Go"]),
    }
    return {name: value for name, value in {**held, **changes}.items() if value is not None}


def test_what_the_file_of_glyphs_says(tmp_path: Path) -> None:
    np.savez(tmp_path / "glyphs.npz", **arrays())
    data = load_dataset("glyphs", str(tmp_path))
    assert (data.classes, data.owner_names) == (("a", "less-than sign", "é"), (".\x7f", "Go"))
    assert (data.x.shape, data.x.dtype, float(data.x.max())) == ((6, 784), np.float32, 1.0)
    assert (data.y.tolist(), data.owner.tolist()) == ([0, 1, 2, 2, 1, 0], [0, 0, 0, 1, 1, 1])
    assert (data.public, data.owner_label) == (None, "family")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"families": None}, "has no array families"),
        ({}, r"glyphs\.npz is not there"),
        ({"x": np.zeros((6, 784), dtype=np.uint8)}, r"images uint8 \(6, 784\) and labels uint8 \(6,\)"),
        ({"chars": np.array([{}, {}, {}])}, "cannot read"),
    ],
)
def test_what_is_no_such_file(tmp_path: Path, changes: dict[str, Any], told: str) -> None:
    if changes:
        np.savez(tmp_path / "glyphs.npz", **arrays(**changes))
    with pytest.raises(DataError, match=told):
        load_dataset("glyphs", str(tmp_path))


def test_the_scenario_deals_24_images_each_with_wrong_labels_and_families_are_natural_parties(
    shared_data: Path,
) -> None:
    scenario = load_scenario("glyphs", [f"data.path={shared_data}"])
    dataset, parts = divided_data(scenario, 0)
    whole = load_dataset("glyphs", str(shared_data))
    assert len(whole.y) == 152_826 and len(set(whole.classes)) == 150
    check_names(schema(scenario.data, dataset, parts))  # none is a formula to a spreadsheet
    assert {len(rows) for rows in parts.parties.values()} == {24} and len(parts.parties) == 5000
    theirs, public = np.concatenate(list(parts.parties.values())), np.concatenate([parts.queries, parts.test])
    assert abs((dataset.y[theirs] != whole.y[theirs]).mean() - 0.1) < 1e-9
    assert (dataset.y[public] == whole.y[public]).all()
    assert not set(dataset.owner[theirs]) & set(dataset.owner[public])
    natural = divided(whole, DataSpec(set="glyphs", least_rows=20), 200, 0).parties
    assert len(natural) == 244 and all(name.isascii() and name.isprintable() for name in natural)


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
