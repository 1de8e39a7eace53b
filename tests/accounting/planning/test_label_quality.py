"""How often noisy labels are right: Laplace noise by quantiles, against a closed form and a simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest

from consilium.accounting.planning.calibration import pr_label_laplace


@pytest.mark.parametrize("gamma", [0.01, 0.05, 1])
@pytest.mark.parametrize("gap", [0, 2, 50, 248])
def test_two_classes(gamma, gap):
    """1 - (2 + x) / (4 e^x), x = gamma gap: Lemma 4 of Papernot et al. 2017 is exact for two classes."""
    votes = np.array([[125 + gap // 2, 125 - gap // 2]])
    x = gamma * gap
    exact = 1 - (2 + x) / (4 * math.exp(x))
    assert pr_label_laplace(votes, gamma)[0] == pytest.approx(exact, abs=5e-4)
    assert pr_label_laplace(votes, gamma, np.array([1]))[0] == pytest.approx(1 - exact, abs=5e-4)


def test_ten_classes():
    """400,000 draws: within 5 standard deviations, so a false alarm once in a million."""
    row = np.array([90, 70, 40, 20, 10, 5, 5, 5, 5, 0])
    noise = np.random.default_rng(5).laplace(scale=20.0, size=(400_000, 10))
    drawn = (row + noise).argmax(axis=1)
    for label in (0, 1, 2):
        share = float((drawn == label).mean())
        found = pr_label_laplace(row[None], 0.05, np.array([label]))[0]
        assert abs(found - share) < 5 * math.sqrt(share * (1 - share) / drawn.size) + 1e-4


def test_published_votes(mnist_votes):
    """All classes of a row together are certain; what is lost of the rare ones is what quantiles lose."""
    some = mnist_votes[:50]
    total = sum(pr_label_laplace(some, 0.05, np.full(50, label)) for label in range(10))
    assert total == pytest.approx(np.ones(50), abs=5e-3)
