"""Students of images: rows as images, their changed copies, what whole students ask and what their models are given."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from consilium.models.devices import using_device
from consilium.models.images.graph_cnn import GraphCnnModel
from consilium.models.images.network import HIDDEN
from consilium.models.images.pixels import DIGITS, NONE, OBJECTS, Distortion, Pixels
from consilium.models.keys import GraphStudent, TorchKeys
from consilium.models.published.model import load_model
from consilium.models.torch_classifier import TorchClassifier
from consilium.protocol.errors import ConfigError
from consilium.protocol.schema import Schema
from consilium.student.config import StudentSpec
from consilium.student.learn import train
from consilium.student.pool import Pool
from consilium.student.run import run_student
from tests.models.digits import digits, spec
from tests.strangers import Eyes
from tests.student.test_run import Source


def test_probabilities_of_classes_never_seen_too() -> None:
    """Neither threads nor the random state of others change."""
    x, y = digits()
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    model = train(x[:40], y[:40], x[40:90], 12, spec("graph_cnn", steps=10), seed=0)
    assert (torch.get_rng_state() == state).all() and torch.get_num_threads() == threads
    probabilities = model.predict_proba(x[:700])
    assert (probabilities.shape, probabilities.dtype) == ((700, 12), np.float64)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-12)
    assert (probabilities >= 0).all()
    assert model.predict_proba(x[:0]).shape == (0, 12)


def test_its_networks_learn() -> None:
    """Looked at by themselves: the graph alone is right where they learned nothing."""
    x, y = digits()
    model = train(x[:300], y[:300], x[300:600], 10, spec("graph_cnn", steps=100, looks=60, networks=1), seed=0)
    assert isinstance(model, GraphCnnModel)
    first, last = model.sight.networks
    # processors add in other orders, and some in 16 bits: from .88 up; untrained up to .14
    assert (last.predict_proba(x[1000:]).argmax(axis=1) == y[1000:]).mean() > 0.8
    seen, same = first.features(x[1000:]), y[1000:, None] == y[1000:]
    likeness = seen @ seen.T
    assert likeness[same].mean() > likeness[~same].mean() + 0.2  # .34 and more; untrained .01


def test_the_seed_decides() -> None:
    x, y = digits()
    first, again, other = (
        train(x[:30], y[:30], x[30:90], 10, spec("graph_cnn", steps=8, networks=1), seed).predict_proba(x[:50])
        for seed in (4, 4, 5)
    )
    assert (first == again).all()
    assert (first != other).any()


@pytest.mark.parametrize(("labelled", "unlabelled"), [(30, 0), (2, 50)])
def test_few_rows(labelled: int, unlabelled: int) -> None:
    x, y = digits()
    rows = np.append(np.flatnonzero(y != y[0])[: labelled - 1], 0)  # two classes, where there are but two labels
    model = train(x[rows], y[rows], x[100 : 100 + unlabelled], 10, spec("graph_cnn", steps=5), seed=0)
    assert np.isfinite(model.predict_proba(x[:5])).all()


def test_rows_that_are_no_images() -> None:
    with pytest.raises(ConfigError, match="square images of at least 8x8 pixels, not 3 features"):
        train(np.zeros((2, 3)), np.array([0, 1]), np.zeros((0, 3)), 2, spec("graph_cnn"), seed=0)


@pytest.mark.parametrize("distortion", [DIGITS.weak, DIGITS.strong, OBJECTS.weak, OBJECTS.strong, NONE.strong])
def test_distortions_keep_shape_and_range(distortion: Distortion) -> None:
    images = Pixels.of(digits()[0]).images(digits()[0][:50])
    generator = torch.Generator().manual_seed(0)
    changed = distortion(images, generator)
    assert (changed.shape, changed.dtype) == (images.shape, images.dtype)
    assert 0 <= float(changed.min()) <= float(changed.max()) <= 1
    assert torch.allclose(changed, images, atol=1e-5) == (distortion == Distortion())
    assert not torch.equal(distortion(images, generator), changed) or distortion == Distortion()


def test_distortions_by_hand() -> None:
    dot = torch.zeros(200, 1, 9, 9)
    dot[:, 0, 4, 4] = 1.0
    generator = torch.Generator().manual_seed(0)
    turned = Distortion(degrees=180)(dot, generator)
    assert torch.allclose(turned[:, 0, 4, 4], torch.ones(200), atol=1e-4)  # the centre stays where it is
    moved = Distortion(shift=1 / 9)(dot, generator)
    reach = torch.nonzero(moved.sum(dim=(0, 1)) > 1e-4)
    assert (reach.min(), reach.max()) == (3, 5)  # at most one pixel, to all sides
    left = torch.zeros(200, 1, 9, 9)
    left[:, 0, 4, 0] = 1.0
    mirrored = Distortion(mirror=True)(left, generator)[:, 0, 4, 8]
    assert 60 <= int((mirrored > 0.99).sum()) <= 140  # of 200 coins; outside in one of 10^8 seeds
    light = Distortion(light=0.5)(torch.full((200, 1, 9, 9), 0.4), generator)[:, 0, 4, 4]
    assert 0.2 <= float(light.min()) < 0.22
    assert 0.58 < float(light.max()) <= 0.6
    holes = (Distortion(cutout=0.5)(torch.ones(200, 1, 9, 9), generator) == 0).sum(dim=(1, 2, 3))
    assert 4 <= int(holes.min()) <= int(holes.max()) <= 25


def test_rows_as_images() -> None:
    rows = np.arange(128, dtype=np.float32).reshape(2, 64)
    images = Pixels.of(rows).images(rows)
    assert images.shape == (2, 1, 8, 8)
    assert (float(images.min()), float(images.max())) == (0, 1)
    assert float(images[0, 0, 1, 0]) == pytest.approx(8 / 127)  # the second line begins with the ninth feature
    assert float(Pixels.of(np.full((2, 64), 7.0)).images(np.full((1, 64), 7.0)).abs().max()) == 0


SIDE = 8


def hues(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows of 8x8 pixels in colour: one of three channels is brighter, and their sum is the same."""
    generator = np.random.default_rng(seed)
    y = generator.integers(0, 3, count)
    x = generator.uniform(0.2, 0.4, size=(count, SIDE, SIDE, 3)) + 0.4 * np.eye(3)[y][:, None, None, :]
    return x.reshape(count, -1), y


def test_a_student_of_images_learns_hues() -> None:
    (x, y), (other, truth) = hues(200), hues(200, seed=1)
    settings = spec("graph_cnn", channels=4, looks=10, networks=2, augment="objects", gamma=0.5)
    model = train(x[:30], y[:30], x[30:], 3, settings, seed=0)
    assert (model.predict_proba(other).argmax(axis=1) == truth).mean() > 0.9


def test_a_module_of_ones_own_gets_three_channels() -> None:
    x, y = hues(60)
    keys = TorchKeys(factory="a:b", images=True, epochs=20, learning_rate=0.01)
    model = TorchClassifier(keys, Eyes).fit(x, y)
    assert next(model.module_.parameters()).shape == (4, 3, 3, 3)
    assert (model.predict(x) == y).mean() > 0.9


def truth(queries: np.ndarray) -> np.ndarray:
    x, y = digits()
    return np.array([y[(x == query).all(axis=1)][0] for query in queries])


def source_of(features: int = 64) -> Source:
    """The schema has statistics that a student of images must not use."""
    schema = Schema(
        features=tuple(f"p{index}" for index in range(features)),
        classes=tuple("0123456789"),
        center=(5.0,) * features,
        scale=(0.1,) * features,
    )
    return Source(schema=schema, labels=truth)


def test_a_student_asks_and_learns_and_leaves_four_files(tmp_path: Path) -> None:
    """Graph and networks each get their inputs."""
    source, (x, y) = source_of(), digits()
    rows = Pool(source.schema.features, x[:200], x[1000:1300], y[1000:1300])
    # the smoothness is for distances of several hundreds
    settings = spec("graph_cnn", steps=60, gamma=1e-6, queries=100, rounds=2, selection="typical")
    result = run_student(source, rows, settings, tmp_path, seed=0)
    assert [len(asked) for asked in source.asked] == [50, 50]
    assert sorted(path.name for path in (tmp_path / "student").iterdir()) == [
        "MODEL_CARD.md", "model.safetensors", "plan.json", "student.json",
    ]  # fmt: skip
    published = load_model(tmp_path / "student" / "model.safetensors")
    right = (published.predict_proba(x[1000:1300]).argmax(axis=1) == y[1000:1300]).mean()
    assert right == pytest.approx(result["metrics"]["accuracy"]) and right > 0.7
    model, x = published.model, x[:200].astype(np.float32)
    assert isinstance(model, GraphCnnModel) and len(model.sight.networks) == 2
    first = model.sight.networks[0]
    assert (first.pixels.low, first.pixels.high) == (0, 16)
    np.testing.assert_allclose(np.linalg.norm(first.features(x), axis=1), 1, rtol=1e-5)
    inputs, rows = source.schema.inputs(x), model.sight(x)
    assert inputs.max() > 100  # standardised by this schema, (16 - 5) / 0.1
    np.testing.assert_allclose(rows[:, :64], inputs * 0.5**0.5, rtol=1e-5)
    assert rows[:, 64:].shape == (200, 2 * HIDDEN)
    assert rows[:, 64:].var(axis=0).sum() == pytest.approx(rows[:, :64].var(axis=0).sum(), rel=0.1)  # counts as much


@pytest.mark.parametrize(("features", "device"), [(60, "auto"), (64, "cuda")])
def test_nothing_is_asked_where_the_student_cannot_learn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, features: int, device: str
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    source = source_of(features)
    rows = Pool(source.schema.features, np.zeros((5, features)))
    with using_device(device), pytest.raises(ConfigError):  # pyright: ignore[reportArgumentType]
        run_student(source, rows, spec("graph_cnn"), tmp_path, seed=0)
    assert source.asked == []


PIXEL_NAMES = tuple(f"p{index}" for index in range(256))
PIXELS = Schema.of_images(PIXEL_NAMES, ("a", "b"), "none")
STANDARDISED = Schema.from_public_rows(PIXEL_NAMES, ("a", "b"), np.random.default_rng(0).random((5, 256)))


@pytest.mark.parametrize(
    ("named", "schema", "trained"),
    [
        ({}, PIXELS, "graph"),
        ({}, STANDARDISED, "logistic_regression"),
        ({"trainer": {"name": "logistic_regression"}}, PIXELS, "logistic_regression"),
    ],
)
def test_images_get_the_graph_where_no_trainer_is_named(named: dict, schema: Schema, trained: str) -> None:
    spec = StudentSpec.model_validate(named).for_rows(schema)
    assert (spec.trainer.name, spec.for_rows(STANDARDISED)) == (trained, spec)  # once known it stays


def test_the_graph_finds_a_width_for_rows_of_any_scale() -> None:
    x, y = digits()
    for scale in (0.01, 1.0, 100.0):
        model = train(scale * x[:60], y[:60], scale * x[60:600], 10, StudentSpec(trainer=GraphStudent()), 0)
        assert (model.predict_proba(scale * x[1200:]).argmax(axis=1) == y[1200:]).mean() > 0.85  # by chance .1
