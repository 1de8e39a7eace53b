"""Integer noise: the operating system's entropy for every deployment, a seed for simulations only.

Both draw the discrete Gaussian N_Z(0, sigma^2) of Canonne, Kamath and Steinke 2020 (arXiv 2004.00010), whose Renyi
divergence obeys the continuous bound alpha / sigma^2, and the discrete Laplace Lap_Z(1/gamma), Pr[z] proportional to
exp(-gamma |z|). Integers leave no floating-point trace. ``curves.discrete`` charges exactly these two laws. The
coordinator draws from here, and in distributed mode every party.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from functools import lru_cache, partial
from typing import Literal, Protocol

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
        return _in_threads(partial(_opendp, "gaussian", float(sigma)), shape)

    def laplace(self, gamma: float, shape: tuple[int, ...]) -> np.ndarray:
        """See `NoiseSource.laplace`. OpenDP's scale s means Pr[z] proportional to exp(-|z| / s)."""
        return _in_threads(partial(_opendp, "laplace", laplace_scale(gamma)), shape)


def _opendp(law: Literal["gaussian", "laplace"], scale: float) -> Callable[[np.ndarray], Sequence[int]]:
    """A sampler that adds noise to as many whole numbers as it is called with.

    The rooms of OpenDP that it needs, one by one: its prelude loads every data frame library that is installed, for
    180 MB and a second.
    """
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
    """Noise of that shape, int64, drawn chunk by chunk into it. Every chunk builds its own sampler, so that threads
    share nothing."""
    noise = np.zeros(shape, dtype=np.int64)

    def draw(chunk: np.ndarray) -> None:
        chunk[:] = sampler()(chunk)

    chunks = list(_chunks(noise))
    if len(chunks) == 1:
        draw(chunks[0])
    elif chunks:
        with ThreadPoolExecutor(min(len(chunks), _cores())) as pool:
            list(pool.map(draw, chunks))
    return noise


def _chunks(numbers: np.ndarray) -> Iterator[np.ndarray]:
    """Its elements in their order, as views of at most CHUNK."""
    flat = numbers.reshape(-1)
    return (flat[start : start + CHUNK] for start in range(0, flat.size, CHUNK))


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
        noise = np.empty(shape, dtype=np.int64)
        for chunk in _chunks(noise):
            chunk[:] = np.searchsorted(cumulative, self._generator.random(len(chunk)), side="right")
            np.minimum(chunk, len(cumulative) - 1, out=chunk)
            chunk -= len(cumulative) // 2
        return noise

    def laplace(self, gamma: float, shape: tuple[int, ...]) -> np.ndarray:
        """See `NoiseSource.laplace`. The difference of two geometric numbers, each the floor of an exponential one."""
        up = np.empty(shape)
        for chunk in _chunks(up):
            chunk[:] = self._geometric(gamma, len(chunk))
        noise = up.view(np.int64)  # in the same place: all that go up are drawn before those that go down
        for chunk, difference in zip(_chunks(up), _chunks(noise), strict=True):
            difference[:] = (chunk - self._geometric(gamma, len(chunk))).astype(np.int64)
        return noise

    def _geometric(self, gamma: float, count: int) -> np.ndarray:
        return np.floor(self._generator.standard_exponential(count) / gamma)


@lru_cache(maxsize=8)
def _gaussian_cumulative(sigma: float) -> np.ndarray:
    reach = int(10 * sigma) + 10
    weights = np.exp(-((np.arange(-reach, reach + 1) / sigma) ** 2) / 2)
    return np.cumsum(weights / weights.sum())
