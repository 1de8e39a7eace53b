"""The student of a graph and networks: what it must do, that its parts help each other, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from consilium.models.base import Shares
from consilium.protocol.errors import ConfigError
from consilium.protocol.label_source import no_progress
from consilium.simulations.papers.description import CnnStudent
from consilium.simulations.papers.description import train as train_of_paper
from consilium.student.learn import train
from tests.models.digits import digits, spec


class TestContract:
    """What a trainer of images must do."""

    def test_probabilities_of_classes_never_seen_too(self) -> None:
        x, y = digits()
        model = train(x[:40], y[:40], x[40:90], 12, spec("graph_cnn", steps=10), seed=0)
        probabilities = model.predict_proba(x[:700])
        assert probabilities.shape == (700, 12)
        assert probabilities.dtype == np.float64
        np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-12)
        assert (probabilities >= 0).all()
        assert model.predict_proba(x[:0]).shape == (0, 12)

    def test_learns(self) -> None:
        x, y = digits()
        model = train(x[:300], y[:300], x[300:600], 10, spec("graph_cnn", channels=12, steps=150, networks=2), seed=0)
        # processors add in other orders, and some in 16 bits: from .74 up; by chance .1
        assert (model.predict_proba(x[1000:]).argmax(axis=1) == y[1000:]).mean() > 0.7

    def test_the_seed_decides(self) -> None:
        x, y = digits()
        first, again, other = (
            train(x[:30], y[:30], x[30:90], 10, spec("graph_cnn", steps=8, networks=1), seed).predict_proba(x[:50])
            for seed in (4, 4, 5)
        )
        assert (first == again).all()
        assert (first != other).any()

    @pytest.mark.parametrize(("labelled", "unlabelled"), [(30, 0), (2, 50)])
    def test_few_rows(self, labelled: int, unlabelled: int) -> None:
        x, y = digits()
        rows = np.append(np.flatnonzero(y != y[0])[: labelled - 1], 0)  # two classes, where there are but two labels
        model = train(x[rows], y[rows], x[100 : 100 + unlabelled], 10, spec("graph_cnn", steps=5), seed=0)
        assert np.isfinite(model.predict_proba(x[:5])).all()

    def test_neither_threads_nor_random_state_of_others_change(self) -> None:
        x, y = digits()
        state, threads = torch.get_rng_state(), torch.get_num_threads()
        train(x[:40], y[:40], x[40:90], 10, spec("graph_cnn", steps=2), seed=0)
        assert (torch.get_rng_state() == state).all()
        assert torch.get_num_threads() == threads


@pytest.mark.nightly
def test_noisy_shares_teach_more_than_their_largest() -> None:
    """A histogram for each of 1,200 digits, its noise as large as four fifths of all votes.

    The largest share of a row is right in a third of them, of which labels alone make what they can.
    """
    x, y = digits()
    deviation = 0.8
    noise = deviation * np.random.default_rng(0).normal(size=(1200, 10))
    told = Shares(np.eye(10)[y[:1200]] + noise, np.full(1200, deviation))
    labels = told.shares.argmax(axis=1)
    settings = spec("graph_cnn", steps=150, looks=100)
    right = {
        name: float((model.predict_proba(x[1200:]).argmax(axis=1) == y[1200:]).mean())
        for name, model in {
            "shares": train(x[:1200], labels, x[:0], 10, settings, 0, told=told),
            "labels": train_of_paper(x[:1200], labels, x[:0], 10, CnnStudent(channels=8, steps=150), 0, no_progress),
        }.items()
    }
    assert (labels == y[:1200]).mean() < 0.5
    assert right["shares"] > right["labels"] + 0.05
    assert right["shares"] > 0.85


def test_rows_that_are_no_images() -> None:
    with pytest.raises(ConfigError, match="square images of at least 8x8 pixels, not 3 features"):
        train(np.zeros((2, 3)), np.array([0, 1]), np.zeros((0, 3)), 2, spec("graph_cnn"), seed=0)
