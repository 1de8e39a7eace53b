"""What papers state and no promise uses: figures to compare with, most of them too small."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import log_ndtr

from consilium.accounting.curves.discrete import log_pr_loss_laplace


def gnss_cost_published(order, beta, sigma_ss):
    """Theorem 23 of PATE 2018, for alpha beta < 1/2. NOT a bound."""
    first = order * math.exp(2 * beta) / sigma_ss**2
    return first + (order * beta - math.log1p(-2 * order * beta) / 2) / (order - 1)


def log_pr_flip(constant, scale, kind, noise):
    """log Pr[noise bridges the gap c + 1 between (126 + c, 125) and (125, 126 + c)], ties included."""
    gap = float(constant + 1)
    if kind == "laplace":
        x = scale * gap
        return float(log_pr_loss_laplace(scale, np.array(gap))) if noise == "discrete" else math.log((2 + x) / 4) - x
    return float(log_ndtr(-gap / (math.sqrt(2) * scale)))


def actual_epsilon(constant, scale, kind, noise, delta=0.0):
    """Lower bound on the true epsilon of ONE query of the immutable argmax: log((1 - t - delta) / t)."""
    log_t = log_pr_flip(constant, scale, kind, noise)
    t = math.exp(log_t)
    return 0.0 if 1 - t - delta <= 0 else max(0.0, float(np.log1p(-(t + delta))) - log_t)
