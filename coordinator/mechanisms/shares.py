"""What the parties' shares of noise add up to, for simulations that need no parties."""

from __future__ import annotations

import math

import numpy as np

from consilium.accounting.curves.discrete import convolution_slack
from consilium.protocol.noise import NoiseSource

NEGLIGIBLE_SLACK = 1e-12
"""Largest |log ratio| to its discrete Gaussian at which a sum of shares is drawn as that Gaussian."""


def sum_of_shares(noise: NoiseSource, sigma: float, shares: int, shape: tuple[int, ...]) -> np.ndarray:
    """What `shares` parties add together, each a discrete Gaussian of parameter sigma / sqrt(shares): int64.

    Where the accounting bounds the log ratio of the sum to one discrete Gaussian of parameter `sigma` by 1e-12 (a
    share's sigma above 1.75), that one is drawn: no experiment tells them apart, and what is charged holds for
    both. Below, every share is drawn, which takes `shares` times as long.
    """
    share = sigma / math.sqrt(shares)
    if shares == 1 or convolution_slack(shares, share) <= NEGLIGIBLE_SLACK:
        return noise.gaussian(sigma, shape)
    total = np.zeros(shape, dtype=np.int64)
    for _ in range(shares):
        total += noise.gaussian(share, shape)
    return total
