"""Integer noise: the operating system's entropy for every deployment, a seed for simulations only.

Both draw the discrete Gaussian N_Z(0, sigma^2) of Canonne, Kamath and Steinke 2020 (arXiv 2004.00010), whose Renyi
divergence obeys the continuous bound alpha / sigma^2, and the discrete Laplace Lap_Z(1/gamma), Pr[z] proportional to
exp(-gamma |z|). Integers leave no floating-point trace. ``curves.discrete`` charges exactly these two laws. The
coordinator draws from here, and in distributed mode every party.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from functools import lru_cache
from typing import Protocol

import numpy as np

CHUNK = 8192
"""Numbers that one thread draws at a time, about 80 ms."""


class NoiseSource(Protocol):
    """Where the noise comes from."""

    simulated: bool

    def gaussian(self, sigma: float, shape: tuple[int, ...]) -> np.ndarray:
        """Independent discrete Gaussians, int64 of the given shape; `sigma` is the parameter of one number's noise."""
        ...

    def laplace(self, gamma: float, shape: tuple[int, ...]) -> np.ndarray:
        """Independent discrete Laplace numbers, int64 of the given shape; `gamma` is the inverse scale."""
        ...


def laplace_scale(gamma: float) -> float:
    """Least double s with 1 / s <= gamma in exact arithmetic, so that the noise is never below what is charged.

    >>> laplace_scale(0.05)
    20.0
    """
    scale = 1 / gamma
    return scale if Fraction(scale) * Fraction(gamma) >= 1 else math.nextafter(scale, math.inf)


class SystemNoise:
    """OpenDP's exact samplers on the operating system's entropy. It takes no seed and keeps no state.

    A number takes about 9 microseconds (Gaussian) or 5 (Laplace) of one core; the samplers run outside Python's lock,
    on as many threads as this process has cores.
    """

    simulated = False

    def gaussian(self, sigma: float, shape: tuple[int, ...]) -> np.ndarray:
        """See `NoiseSource.gaussian`."""
        import opendp.prelude as dp  # a second to import: only where real noise is drawn

        dp.enable_features("contrib")

        def sampler() -> Callable[[list[int]], Sequence[int]]:
            domain = dp.vector_domain(dp.atom_domain(T=dp.i64))
            return dp.m.make_gaussian(domain, dp.l2_distance(T=dp.f64), scale=float(sigma))

        return _in_threads(sampler, shape)

    def laplace(self, gamma: float, shape: tuple[int, ...]) -> np.ndarray:
        """See `NoiseSource.laplace`. OpenDP's scale s means Pr[z] proportional to exp(-|z| / s)."""
        import opendp.prelude as dp

        dp.enable_features("contrib")

        def sampler() -> Callable[[list[int]], Sequence[int]]:
            domain = dp.vector_domain(dp.atom_domain(T=dp.i64))
            return dp.m.make_laplace(domain, dp.l1_distance(T=dp.i64), scale=laplace_scale(gamma))

        return _in_threads(sampler, shape)


def _in_threads(sampler: Callable[[], Callable[[list[int]], Sequence[int]]], shape: tuple[int, ...]) -> np.ndarray:
    """Noise of that shape, int64. Every chunk builds its own sampler, so that threads share nothing."""
    count = math.prod(shape)
    sizes = [CHUNK] * (count // CHUNK) + ([count % CHUNK] if count % CHUNK else [])

    def draw(size: int) -> np.ndarray:
        return np.asarray(sampler()([0] * size), dtype=np.int64)

    if len(sizes) <= 1:
        parts = [draw(size) for size in sizes]
    else:
        with ThreadPoolExecutor(min(len(sizes), _cores())) as pool:
            parts = list(pool.map(draw, sizes))
    return np.concatenate(parts).reshape(shape) if parts else np.zeros(shape, dtype=np.int64)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class SeededNoise:
    """Reproducible noise for simulations. Whoever knows the seed can remove it: it protects nobody.

    A deployed coordinator cannot build one: `FederationConfig` refuses a seed outside a simulation, parties refuse
    to serve a simulation unless their policy allows it, and manifest and report say so.
    """

    simulated = True

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(np.random.SeedSequence([seed, 0x6E6F697365]))

    def __repr__(self) -> str:
        return "SeededNoise(simulation only)"

    def gaussian(self, sigma: float, shape: tuple[int, ...]) -> np.ndarray:
        """See `NoiseSource.gaussian`. Inverse of the distribution function on +-(10 sigma + 10); the mass outside is
        below 1e-22."""
        cumulative = _gaussian_cumulative(sigma)
        draws = np.searchsorted(cumulative, self._generator.random(shape), side="right")
        return np.minimum(draws, len(cumulative) - 1) - len(cumulative) // 2

    def laplace(self, gamma: float, shape: tuple[int, ...]) -> np.ndarray:
        """See `NoiseSource.laplace`. The difference of two geometric numbers, each the floor of an exponential one."""
        up = np.floor(self._generator.standard_exponential(shape) / gamma)
        return (up - np.floor(self._generator.standard_exponential(shape) / gamma)).astype(np.int64)


@lru_cache(maxsize=8)
def _gaussian_cumulative(sigma: float) -> np.ndarray:
    reach = int(10 * sigma) + 10
    weights = np.exp(-((np.arange(-reach, reach + 1) / sigma) ** 2) / 2)
    return np.cumsum(weights / weights.sum())
