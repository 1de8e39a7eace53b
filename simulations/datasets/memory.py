"""Rows that a program holds in memory: a scenario names them, and only that program has them."""

from __future__ import annotations

from typing import Never

from consilium.protocol.errors import PathError
from consilium.simulations.datasets.spec import MEMORY, SourceSpec

__all__ = ["MEMORY", "open_memory"]


def open_memory(spec: SourceSpec) -> Never:
    """Raise PathError: nobody can open them again."""
    raise PathError(
        "the rows were in the memory of the program that ran this, and are not kept with the run",
        'Fit again, or write the rows to a file and name it with data.set = "table"',
    )
