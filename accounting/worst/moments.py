"""Renyi moments of a channel's places, and what lies beyond the places that are tried."""

from __future__ import annotations

import numpy as np

from consilium.accounting.worst.channel import Pairs
from consilium.accounting.worst.supremum import envelope


def _facts(pairs: Pairs) -> np.ndarray:
    """For each place probabilities, log ratios, and what rounding left of their sums: (2 outcomes + 1, places)."""
    drift = (pairs.q - pairs.p).sum(axis=0, keepdims=True)
    return np.concatenate((pairs.p, pairs.log_ratio(), drift))


def _log_moment(alpha: np.ndarray, facts: np.ndarray) -> np.ndarray:
    """log sum_j p_j^alpha q_j^(1 - alpha): float64 (orders, places).

    The sum is formed without its 1, so that a moment far below the spacing of doubles at 1 is not lost; the first order
    in q - p, which is 0 in truth, is taken out.
    """
    outcomes, alpha = facts.shape[0] // 2, alpha[:, None]
    total = (alpha - 1) * facts[-1]
    for p, log_ratio in zip(facts[:outcomes], facts[outcomes:-1], strict=True):
        total += p * np.expm1((1 - alpha) * log_ratio)
    return np.log1p(np.maximum(total, 0.0))


def largest(pairs: Pairs, orders: np.ndarray) -> np.ndarray:
    """max over places of (alpha - 1) D_alpha(p || q): float64 (orders,)."""
    return envelope(_log_moment, _facts(pairs), orders)


def with_rare(log_moment: np.ndarray | float, rare: float, exponent: np.ndarray, orders: np.ndarray) -> np.ndarray:
    """(alpha - 1) D_alpha where an outcome of probability at most ``rare`` is set beside a simpler channel.

    By Jensen's inequality the outcome adds at most e^exponent times its probability under the tilted input, and what it
    takes from the neighbour's other outcomes is a factor of at least 1 - rare: (1 - rare)^(1 - alpha) S + e^exponent
    rare, with S the moment of the simpler channel.
    """
    return np.logaddexp(log_moment + (1 - orders) * np.log1p(-rare), exponent + np.log(rare))
