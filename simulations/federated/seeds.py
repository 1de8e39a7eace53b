"""The generators behind Flower's lots and noise, which it takes from Python's and numpy's global ones."""

from __future__ import annotations

import random

import numpy as np

_PURPOSE = 0x666C6F77
_WORD = 2**32


def lots_of(seed: int) -> random.Random:
    """Which parties take part in a round."""
    return random.Random(seed ^ _PURPOSE)


def noise_of(seed: int) -> np.random.RandomState:
    """The noise of all rounds: of the kind that Flower uses."""
    return np.random.RandomState([seed % _WORD, seed // _WORD, _PURPOSE])
