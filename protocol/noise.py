"""Integer noise: the operating system's entropy for every deployment, a seed for simulations only. Both draw the
discrete Gaussian N_Z(0, sigma^2) of Canonne, Kamath and Steinke 2020 (arXiv 2004.00010), whose Renyi divergence obeys
the continuous bound alpha / sigma^2, and the discrete Laplace Lap_Z(1/gamma), Pr[z] proportional to exp(-gamma |z|).
Integers leave no floating-point trace. ``curves.discrete`` charges exactly these two laws."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from functools import lru_cache, partial
from typing import Literal, Protocol

import numpy as np

CHUNK = 8192
"""Numbers that one thread draws at a time, about 80 ms."""


class NoiseSource(Protocol):
    """Where the noise comes from. `simulated`: from a seed."""

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
    """OpenDP's exact samplers on the operating system's entropy. It takes no seed and keeps no state. A number takes
    about 9 microseconds (Gaussian) or 5 (Laplace) of one core; the samplers run outside Python's lock, on as many
    threads as this process has cores."""

    simulated = False

    def gaussian(self, sigma: float, shape: tuple[int, ...]) -> np.ndarray:
        return _in_threads(partial(_opendp, "gaussian", float(sigma)), shape)

    def laplace(self, gamma: float, shape: tuple[int, ...]) -> np.ndarray:
        """See `NoiseSource.laplace`. OpenDP's scale s means Pr[z] proportional to exp(-|z| / s)."""
        return _in_threads(partial(_opendp, "laplace", laplace_scale(gamma)), shape)


def _opendp(law: Literal["gaussian", "laplace"], scale: float) -> Callable[[np.ndarray], Sequence[int]]:
    """A sampler that adds noise to as many whole numbers as it is called with. The rooms of OpenDP that it needs, one
    by one: its prelude loads every data frame library that is installed, for 180 MB and a second."""
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_gaussian, make_laplace
    from opendp.metrics import l1_distance, l2_distance
    from opendp.mod import enable_features
    from opendp.typing import f64, i64

    enable_features("contrib")
    domain = vector_domain(atom_domain(T=i64))
    if law == "gaussian":
        return make_gaussian(domain, l2_distance(T=f64), scale=scale)
    return make_laplace(domain, l1_distance(T=i64), scale=scale)


def _in_threads(sampler: Callable[[], Callable[[np.ndarray], Sequence[int]]], shape: tuple[int, ...]) -> np.ndarray:
    """Noise of that shape, int64, drawn chunk by chunk, each by its own sampler, so that threads share nothing."""
    noise = np.zeros(shape, dtype=np.int64)
    flat = noise.reshape(-1)
    chunks = [flat[start : start + CHUNK] for start in range(0, flat.size, CHUNK)]

    def draw(chunk: np.ndarray) -> None:
        chunk[:] = sampler()(chunk)

    if len(chunks) == 1:
        draw(chunks[0])
    elif chunks:
        with ThreadPoolExecutor(min(len(chunks), os.cpu_count() or 1)) as pool:
            list(pool.map(draw, chunks))
    return noise


class SeededNoise:
    """Reproducible noise for simulations. Whoever knows the seed can remove it: it protects nobody. A deployed
    coordinator cannot build one: `FederationConfig` refuses a seed outside a simulation, and parties refuse to serve a
    simulation unless their policy allows it."""

    simulated = True

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(np.random.SeedSequence([seed, 0x6E6F697365]))

    def __repr__(self) -> str:
        return "SeededNoise(simulation only)"

    def gaussian(self, sigma: float, shape: tuple[int, ...]) -> np.ndarray:
        """See `NoiseSource.gaussian`. Inverse of the distribution function on +-(10 sigma + 10); 1e-22 lies outside."""
        cumulative = _gaussian_cumulative(sigma)
        places = np.searchsorted(cumulative, self._generator.random(shape), side="right")
        return np.minimum(places, len(cumulative) - 1) - len(cumulative) // 2

    def laplace(self, gamma: float, shape: tuple[int, ...]) -> np.ndarray:
        """See `NoiseSource.laplace`. The difference of two geometric numbers, each the floor of an exponential one."""
        up, down = (np.floor(self._generator.standard_exponential(shape) / gamma) for _ in range(2))
        return (up - down).astype(np.int64)


@lru_cache(maxsize=8)
def _gaussian_cumulative(sigma: float) -> np.ndarray:
    reach = int(10 * sigma) + 10
    weights = np.exp(-((np.arange(-reach, reach + 1) / sigma) ** 2) / 2)
    return np.cumsum(weights / weights.sum())
