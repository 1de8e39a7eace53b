"""Whole students of images: what they ask, what their models are given, and that nothing is asked in vain."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from consilium.models.devices import using_device
from consilium.models.images.graph_cnn import GraphCnnModel
from consilium.models.images.network import HIDDEN
from consilium.models.keys import GraphStudent
from consilium.models.published.model import load_model
from consilium.protocol.errors import ConfigError
from consilium.protocol.schema import Schema
from consilium.student.config import StudentSpec
from consilium.student.learn import train
from consilium.student.pool import Pool
from consilium.student.run import run_student
from tests.models.digits import digits, spec
from tests.student.test_run import Source


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


FEATURES = tuple(f"p{index}" for index in range(256))
PIXELS = Schema.of_images(FEATURES, ("a", "b"), "none")
STANDARDISED = Schema.from_public_rows(FEATURES, ("a", "b"), np.random.default_rng(0).random((5, 256)))


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
