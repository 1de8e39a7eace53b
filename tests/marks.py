"""Markers that `make fast` leaves out, what a test without one may not start, and how much of a brute force is run."""

from __future__ import annotations

import itertools
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest

Case = TypeVar("Case")

HEAVY = ("proofs", "deploy", "ray", "slow", "statistics", "fuzz")
"""Most expensive first: files with such tests begin first, or the last one would be waited for by an idle processor."""
PROGRAMS = {"flower-superlink": "deploy", "flower-supernode": "deploy", "gcs_server": "ray", "raylet": "ray"}
COMMANDS = {("node", "start"): "deploy", ("--engine", "ray"): "ray"}


WHOLE = os.environ.get("TESTS") == "whole"
"""All cases of brute force and all random examples are run, as `make proofs` does; else a third."""


def third(cases: Sequence[Case], first: int = 0) -> Sequence[Case]:
    """Every third of cases that show one rule again and again, from this one on; or all of them."""
    return cases if WHOLE else cases[first % 3 :: 3]


def some(count: int) -> int:
    """A third of so many random examples, draws or histories, rounded up; or all of them."""
    return count if WHOLE else -(-count // 3)


def needed(command: Sequence[object] | object) -> str | None:
    """The marker that a test needs which starts this command."""
    words = [str(word) for word in command] if isinstance(command, (list, tuple)) else str(command).split()
    for word in words:
        if (name := Path(word).name) in PROGRAMS:
            return PROGRAMS[name]
    return next((mark for pair, mark in COMMANDS.items() if pair in set(itertools.pairwise(words))), None)


def rank(item: pytest.Item) -> int:
    """Of an item among the expensive ones; all others are last."""
    found = [HEAVY.index(mark.name) for mark in item.iter_markers() if mark.name in HEAVY]
    return min(found, default=len(HEAVY))


def guard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever starts a deployment or Ray from now on fails."""
    start = subprocess.Popen.__init__

    def started(self: subprocess.Popen[Any], args: Any, *more: Any, **named: Any) -> None:
        if mark := needed(args):
            pytest.fail(f"this test starts {args!r}: mark it {mark}")
        start(self, args, *more, **named)

    monkeypatch.setattr(subprocess.Popen, "__init__", started)
