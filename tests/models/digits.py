"""Small digits, and students that learn them in few steps."""

from __future__ import annotations

from functools import cache

import numpy as np
from sklearn.datasets import load_digits

from consilium.student.config import StudentSpec
from tests.specs import student_of


@cache
def digits() -> tuple[np.ndarray, np.ndarray]:
    """1,797 digits of 8x8 pixels in 0..16, in an order by lot."""
    data = load_digits()
    order = np.random.default_rng(0).permutation(len(data.target))
    return data.data[order], data.target[order].astype(np.int64)


def spec(trainer: str, **settings: object) -> StudentSpec:
    return student_of(trainer, **{"channels": 8, "steps": 60, "looks": 20, "settled": 0.0, "gamma": 0.001, **settings})
