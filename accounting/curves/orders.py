"""Renyi orders at which curves are evaluated.

A curve may be minimised over any set of orders, so a finer grid never makes a guarantee wrong, only smaller. The grid
must not be chosen by looking at private votes; these are fixed.
"""

from __future__ import annotations

import numpy as np


def _frozen(array: np.ndarray) -> np.ndarray:
    array.setflags(write=False)
    return array


REFERENCE_ORDERS: np.ndarray = _frozen(
    np.unique(np.concatenate((np.arange(2, 101, 0.5), np.logspace(2, np.log10(500), 100))))
)
"""float64 (297,): the grid of the published PATE 2018 code, sorted and without its one repeated order (100)."""

DEFAULT_ORDERS: np.ndarray = _frozen(
    np.concatenate((1 + np.logspace(-2, 0, 40, endpoint=False), np.union1d(REFERENCE_ORDERS, np.arange(2.25, 30, 0.5))))
)
"""float64 (393,): 40 orders between 1.01 and 2 (needed once epsilon is above about 20), then ``REFERENCE_ORDERS`` with
quarter steps up to 30, where the CKS conversion has its optimum most often."""
