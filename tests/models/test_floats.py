"""The gate of bfloat16: networks that are trained in it are as good as those of float32."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from consilium.models.base import Model
from consilium.models.devices import FLOATS_VARIABLE
from consilium.models.teachers import NetworkTeacher, train_many
from consilium.protocol.teachers import CnnSpec, NetworkSpec
from consilium.student.learn import train
from tests.models.digits import digits, spec

pytestmark = pytest.mark.slow

FLOATS = ("float32", "bfloat16")


def students(monkeypatch: pytest.MonkeyPatch, trainer: str, seed: int = 0, **settings: object) -> list[Model]:
    x, y = digits()
    models = []
    for floats in FLOATS:
        monkeypatch.setenv(FLOATS_VARIABLE, floats)
        models.append(train(x[:300], y[:300], x[300:600], 10, spec(trainer, **settings), seed))
    return models


@pytest.mark.parametrize("trainer", ["cnn", "graph_cnn"])
def test_students_of_both_floats_are_as_good(monkeypatch: pytest.MonkeyPatch, trainer: str) -> None:
    """1,197 held-out digits: two standard deviations of a difference are about .03."""
    x, y = digits()
    first, second = students(monkeypatch, trainer, channels=12, steps=150, networks=2)
    right = [(model.predict_proba(x[600:]).argmax(axis=1) == y[600:]).mean() for model in (first, second)]
    assert min(right) > 0.75
    assert abs(right[0] - right[1]) < 0.03
    assert not np.array_equal(first.predict_proba(x[600:]), second.predict_proba(x[600:]))  # it was trained otherwise


def test_virtual_adversarial_training_has_float32_throughout(monkeypatch: pytest.MonkeyPatch) -> None:
    x, _ = digits()
    first, second = students(monkeypatch, "vat", steps=10)
    np.testing.assert_array_equal(first.predict_proba(x[600:]), second.predict_proba(x[600:]))


def teachers(monkeypatch: pytest.MonkeyPatch, spec: NetworkSpec, x: np.ndarray, y: np.ndarray, size: int
             ) -> list[list[NetworkTeacher]]:  # fmt: skip
    parts = np.array_split(np.arange(len(y)), len(y) // size)
    made = []
    for floats in FLOATS:
        monkeypatch.setenv(FLOATS_VARIABLE, floats)
        made.append(train_many(spec, x, y, parts, range(len(parts)), 10, stacked=False))
    return made


@pytest.mark.proofs
def test_teachers_of_both_floats_are_as_good(monkeypatch: pytest.MonkeyPatch, shared_data: Path) -> None:
    """Six networks of 240 images, each on the same 2,000: the mean of a difference is known to about .004."""
    from consilium.simulations.datasets.source import load_dataset

    data = load_dataset("mnist", str(shared_data))
    x, y = data.x[: 6 * 240].astype(np.float32), data.y[: 6 * 240]
    other, truth = data.x[-2000:].astype(np.float32), data.y[-2000:]
    both = teachers(monkeypatch, CnnSpec(), x, y, 240)
    right = [np.mean([(teacher.predict(other) == truth).mean() for teacher in made]) for made in both]
    assert min(right) > 0.8
    assert abs(right[0] - right[1]) < 0.015
    for first, second in zip(*both, strict=True):
        assert {value.dtype for value in second.weights.values()} == {np.dtype(np.float32)}
        assert not np.array_equal(first.weights["first.weight"], second.weights["first.weight"])
