"""Outcomes against the exact laws that the accounting charges, by chi-square at 1e-6 over all outcomes.

A sound mechanism fails such a test for one seed in a million; the seeds are fixed. Ties go to the lowest class, so the
laws count them there.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from consilium.accounting.curves.discrete import log_pr_loss_table, log_pr_loss_table_laplace, log_tail_table
from consilium.accounting.curves.gaussian import log_pr_answered, public_offsets
from consilium.accounting.mechanisms import (
    Confident,
    Difference,
    GNMax,
    Immutable,
    ImmutableGaussian,
    Interactive,
    LNMax,
)
from consilium.accounting.units import Noise
from consilium.coordinator.draw import Drawn
from consilium.protocol.noise import SeededNoise
from tests.coordinator.mechanisms.drawing import release

QUERIES = 40_000
ROW = np.array([60, 75, 72, 70])


def gaussian_pmf(sigma: float) -> np.ndarray:
    """Of -R..R, from the accounting's table of tails."""
    tails = np.exp(log_tail_table(sigma, int(12 * sigma) + 12))
    half = -np.diff(tails)
    return np.concatenate((half[:0:-1], half))


def laplace_pmf(gamma: float) -> np.ndarray:
    z = np.arange(-int(60 / gamma), int(60 / gamma) + 1)
    return np.tanh(gamma / 2) * np.exp(-gamma * np.abs(z))


def law_of_argmax(row: np.ndarray, pmf: np.ndarray) -> np.ndarray:
    """Pr[j wins], float64 (classes,), for integer noise with that pmf on every count."""
    reach = len(pmf) // 2
    spread = int(np.ptp(row))
    values = np.arange(-reach - spread, reach + spread + 1)
    mass = np.stack([np.interp(row.max() + values - n, np.arange(-reach, reach + 1), pmf, 0, 0) for n in row])
    at_most = np.cumsum(mass, axis=1)
    out = np.empty(len(row))
    for j in range(len(row)):
        below = [at_most[i] - mass[i] if i < j else at_most[i] for i in range(len(row)) if i != j]
        wins = mass[j] * np.prod(below, axis=0)
        out[j] = wins.sum()
    return out


def agrees(drawn: Drawn, law: np.ndarray) -> None:
    """Counts of (no label, class 0, class 1, ...) against Pr of each class, by chi-square at 1e-6."""
    assert law.min() >= 0 and law.sum() <= 1 + 1e-9
    expected = np.append(max(0.0, 1 - law.sum()), law) * len(drawn.labels)
    counts = np.bincount(drawn.labels + 1, minlength=len(expected))
    assert counts[expected < 1e-6].sum() == 0
    common = expected >= 5
    counts = np.append(counts[common], counts[~common].sum())
    expected = np.append(expected[common], expected[~common].sum())
    keep = expected > 1e-6
    scaled = expected[keep] / expected[keep].sum() * counts[keep].sum()
    assert stats.chisquare(counts[keep], scaled).pvalue > 1e-6


def same(row: np.ndarray) -> np.ndarray:
    return np.tile(row, (QUERIES, 1))


@pytest.mark.parametrize("row", [ROW, np.array([70, 70]), np.array([4, 4, 1, 1])], ids=str)
def test_noise_on_every_count(row: np.ndarray) -> None:
    agrees(release(LNMax(gamma=0.1), same(row), SeededNoise(1)), law_of_argmax(row, laplace_pmf(0.1)))
    agrees(release(GNMax(sigma=12.0), same(row), SeededNoise(2)), law_of_argmax(row, gaussian_pmf(12.0)))


def test_two_classes_follow_the_tables_of_the_accounting() -> None:
    """Class 0 wins ties, so it overtakes a lead of 8 with exactly the probability that the accounting charges."""
    row = np.array([50, 58])
    gaussian, laplace = np.exp(log_pr_loss_table(12.0, 8)[8]), np.exp(log_pr_loss_table_laplace(0.1, 8)[8])
    assert law_of_argmax(row, gaussian_pmf(12.0))[0] == pytest.approx(gaussian, rel=1e-9)
    assert law_of_argmax(row, laplace_pmf(0.1))[0] == pytest.approx(laplace, rel=1e-9)
    agrees(release(GNMax(sigma=12.0), same(row), SeededNoise(3)), np.array([gaussian, 1 - gaussian]))
    agrees(release(LNMax(gamma=0.1), same(row), SeededNoise(4)), np.array([laplace, 1 - laplace]))


@pytest.mark.parametrize("row", [[50, 58], [70, 70], [90, 71]], ids=str)
def test_difference(row: list[int]) -> None:
    """One noise on one number, which has to be above 0 for class 1."""
    pmf = gaussian_pmf(12.0)
    first = pmf[np.arange(-(len(pmf) // 2), len(pmf) // 2 + 1) + row[1] - row[0] >= 1].sum()
    agrees(release(Difference(sigma=12.0), same(np.array(row)), SeededNoise(8)), np.array([1 - first, first]))


def test_confident() -> None:
    mechanism = Confident(threshold=80, sigma1=20.0, sigma2=12.0)
    answered = np.exp(log_pr_answered(ROW[None].max(axis=1), 80, 20.0, Noise.DISCRETE)[0][0])
    agrees(release(mechanism, same(ROW), SeededNoise(5)), answered * law_of_argmax(ROW, gaussian_pmf(12.0)))


def test_interactive() -> None:
    """The check passes or fails on votes minus M p; then labels follow GNMax on the votes, or the student."""
    p = np.array([0.1, 0.5, 0.3, 0.1])
    top = (ROW - public_offsets(p[None], int(ROW.sum()))).max(axis=1)
    answered = np.exp(log_pr_answered(top, 50, 20.0, Noise.DISCRETE)[0][0])
    probabilities = np.tile(p, (QUERIES, 1))
    mechanism = Interactive(threshold=50, sigma1=20.0, sigma2=12.0, confidence=0.5)
    law = answered * law_of_argmax(ROW, gaussian_pmf(12.0))
    drawn = release(mechanism, same(ROW), SeededNoise(6), probabilities)
    agrees(drawn, law)
    assert not drawn.reinforced.any()
    sure = Interactive(threshold=50, sigma1=20.0, sigma2=12.0, confidence=0.4)
    drawn = release(sure, same(ROW), SeededNoise(7), probabilities)
    assert (drawn.labels[drawn.reinforced] == 1).all()
    agrees(replace(drawn, labels=np.where(drawn.reinforced, -1, drawn.labels)), law)
    agrees(drawn, law + np.array([0, 1 - answered, 0, 0]))


def test_immutable() -> None:
    flips = np.exp(log_pr_loss_table_laplace(0.2, 4)[4])
    laplace, gaussian = Immutable(gamma=0.2, constant=3), ImmutableGaussian(sigma=8.0, constant=3)
    agrees(release(laplace, same(np.array([125, 126])), SeededNoise(9)), np.array([flips, 1 - flips]))
    raised = law_of_argmax(np.array([40, 52 + 3, 30]), gaussian_pmf(8.0))
    agrees(release(gaussian, same(np.array([40, 52, 30])), SeededNoise(9)), raised)
