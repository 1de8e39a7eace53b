"""Classes made even: what many noisy shares hide behind the classes that teachers name most comes out."""

from __future__ import annotations

import numpy as np
import pytest

from consilium.models.base import Shares
from consilium.models.kernel import KernelModel
from consilium.models.shares import even, even_model
from consilium.student.learn import train
from tests.specs import student_of

CLASSES, EACH = 12, 60


def test_every_class_has_one_spread_and_is_found_as_often() -> None:
    shares = np.random.default_rng(0).gamma([[1.0, 4.0, 2.0]], [[0.01, 0.3, 0.1]], (3000, 3))
    found = even(shares)
    np.testing.assert_allclose(found.std(axis=0), shares.std(axis=0).mean())
    assert np.bincount(shares.argmax(axis=1), minlength=3).min() == 0
    np.testing.assert_allclose(np.bincount(found.argmax(axis=1)) / 3000, 1 / 3, atol=0.05)


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_a_class_without_spread_says_nothing(rows: int) -> None:
    shares = np.tile([0.7, 0.3], (rows, 1))
    np.testing.assert_allclose(even(shares), 0.5)


@pytest.mark.parametrize("offset", [None, np.array([0.1, 0.6, 0.3])], ids=["plain", "offset"])
def test_a_model_is_made_even_on_its_rows(offset: np.ndarray | None) -> None:
    generator = np.random.default_rng(1)
    rows, weights = generator.normal(size=(2, 40, 3)).astype(np.float32)
    model = KernelModel(rows, weights, 0.3, offset)
    np.testing.assert_allclose(even_model(model, rows).scores(rows), even(model.scores(rows)), atol=1e-5)


def named_too_often() -> tuple[np.ndarray, np.ndarray, Shares]:
    """Clouds of 60 rows, one for each of twelve classes; a class has at most a seventh of the votes on its own rows,
    and one of them about as much on all rows. The noise of a share is three times that."""
    generator = np.random.default_rng(2)
    y = np.repeat(np.arange(CLASSES), EACH)
    x = 6 * np.eye(CLASSES)[y] + generator.normal(size=(len(y), CLASSES))
    share = np.linspace(0.06, 0.15, CLASSES)
    votes = np.tile((1 - share.mean()) * share / share.sum(), (len(y), 1))
    votes[np.arange(len(y)), y] += share[y]
    votes[:, 0] += 0.15
    return x, y, Shares(votes + 0.45 * generator.normal(size=votes.shape), np.full(len(y), 0.45))


@pytest.mark.parametrize("trainer", ["kernel_ridge", "graph"])
def test_even_classes_are_told_apart_where_one_is_named_on_all_rows(trainer: str) -> None:
    x, y, told = named_too_often()
    right = {}
    for made_even in (False, True):
        spec = student_of(trainer=trainer, gamma=0.02, even=made_even)
        model = train(x, told.shares.argmax(axis=1), x[:0], CLASSES, spec, 0, told=told)
        probabilities = model.predict_proba(x)
        np.testing.assert_allclose(probabilities.sum(axis=1), 1)
        right[made_even] = (probabilities.argmax(axis=1) == y).mean()
    assert right[True] > right[False] + 0.2
