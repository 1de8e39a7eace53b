"""The noise itself. Statistical tests at 1e-6: a sound source fails one in a million runs. The seeds are fixed; the
system's noise takes none, so its tests have that false-alarm rate on every run."""

from __future__ import annotations

import hashlib
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from consilium.protocol.noise import CHUNK, NoiseSource, SeededNoise, SystemNoise, laplace_scale

SOURCES = pytest.mark.parametrize("source", [SeededNoise(3), SystemNoise()], ids=["seeded", "system"])


def follows(draws: np.ndarray, weights: np.ndarray) -> None:
    """Integers against the law proportional to `weights` on -R..R, by chi-square at 1e-6."""
    assert draws.dtype == np.int64
    reach = len(weights) // 2
    expected = weights / weights.sum() * draws.size
    inside = draws[np.abs(draws) <= reach]
    counts = np.bincount(inside + reach, minlength=len(weights))
    common = expected >= 10
    observed = np.append(counts[common], draws.size - counts[common].sum())
    wanted = np.append(expected[common], draws.size - expected[common].sum())
    keep = wanted > 1e-9
    assert stats.chisquare(observed[keep], wanted[keep] / wanted[keep].sum() * observed[keep].sum()).pvalue > 1e-6


@pytest.mark.parametrize("sigma", [0.7, 3.0, 40.0])
@SOURCES
def test_gaussian_is_the_discrete_gaussian(source: NoiseSource, sigma: float) -> None:
    z = np.arange(-int(8 * sigma) - 2, int(8 * sigma) + 3)
    follows(source.gaussian(sigma, (20, 1000)).ravel(), np.exp(-((z / sigma) ** 2) / 2))


@pytest.mark.parametrize("gamma", [3.0, 0.3, 0.05])
@SOURCES
def test_laplace_is_the_discrete_laplace(source: NoiseSource, gamma: float) -> None:
    z = np.arange(-int(40 / gamma) - 2, int(40 / gamma) + 3)
    follows(source.laplace(gamma, (20, 1000)).ravel(), np.exp(-gamma * np.abs(z)))


@SOURCES
def test_tiny_gamma_keeps_its_scale(source: NoiseSource) -> None:
    """|Z| / 1e10 is nearly exponential: Kolmogorov-Smirnov at 1e-6."""
    draws = source.laplace(1e-10, (2000,))
    assert stats.kstest(np.abs(draws) * 1e-10, "expon").pvalue > 1e-6
    assert stats.binomtest(int((draws > 0).sum()), 2000).pvalue > 1e-6


@SOURCES
@pytest.mark.parametrize("law", ["gaussian", "laplace"])
def test_numbers_are_independent(source: NoiseSource, law: str) -> None:
    """Lags 1 to 8 within a call, a whole chunk's lag, and two calls: 10 tests of correlation at 1e-7 each. The lag of
    a chunk would be 1 if two threads drew the same numbers."""
    draw = {"gaussian": lambda shape: source.gaussian(5.0, shape), "laplace": lambda shape: source.laplace(0.2, shape)}
    first, second = draw[law]((2 * CHUNK + 100,)), draw[law]((2 * CHUNK + 100,))
    pairs = [(first[lag:], first[:-lag]) for lag in (*range(1, 9), CHUNK)] + [(first, second)]
    for x, y in pairs:
        assert abs(np.corrcoef(x, y)[0, 1]) * math.sqrt(len(x)) < stats.norm.isf(1e-7 / 2)


@SOURCES
@pytest.mark.parametrize("shape", [(), (0, 4), (2, 5), (2, CHUNK // 2 + 1)], ids=str)
def test_shapes(source: NoiseSource, shape: tuple[int, ...]) -> None:
    for drawn in (source.gaussian(3.0, shape), source.laplace(0.3, shape)):
        assert drawn.shape == shape
        assert np.asarray(drawn).dtype == np.int64


def test_a_seed_has_the_same_numbers_for_ever_and_is_not_in_repr() -> None:
    """As drawn in one piece, chunks or not."""
    assert "4711" not in repr(SeededNoise(4711))
    source, digest = SeededNoise(7), hashlib.sha256()
    for shape in ((5,), (3, 4000), (3,)):
        for drawn in (source.gaussian(40.0, shape), source.laplace(0.05, shape)):
            digest.update(drawn.astype("<i8").tobytes())
    assert digest.hexdigest() == "89ee1cef319d4885c6a828bf432bd3697b273c6ba8b5a66ffe9999007f1d447b"


@given(st.floats(min_value=1e-12, max_value=1e3))
def test_laplace_scale_is_the_least_that_is_not_below_what_is_charged(gamma: float) -> None:
    scale = laplace_scale(gamma)
    assert Fraction(scale) * Fraction(gamma) >= 1
    assert Fraction(math.nextafter(scale, 0)) * Fraction(gamma) < 1
