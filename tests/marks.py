"""How much of a brute force is run, and which tests come first."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

import pytest

Case = TypeVar("Case")

HEAVY = ("nightly", "deploy", "ray")
"""Most expensive first: files with such tests begin first, or the last one would be waited for by an idle processor."""
WHOLE = os.environ.get("TESTS") == "whole"
"""All cases of brute force and all random examples are run, as `make nightly` does; else a third."""


def third(cases: Sequence[Case], first: int = 0) -> Sequence[Case]:
    """Every third of cases that show one rule again and again, from this one on; or all of them."""
    return cases if WHOLE else cases[first % 3 :: 3]


def some(count: int) -> int:
    """A third of so many random examples, draws or histories, rounded up; or all of them."""
    return count if WHOLE else -(-count // 3)


def rank(item: pytest.Item) -> int:
    """Of an item among the expensive ones; after them come whole runs, and all others are last."""
    found = [HEAVY.index(mark.name) for mark in item.iter_markers() if mark.name in HEAVY]
    return min(found, default=len(HEAVY) + ("simulations" not in item.path.parts))
