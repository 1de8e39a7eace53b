"""Verified votes in the field of sums up to 32,760 and in the larger one, in turn: processor time and bytes of 1,000
parties on one thread. The larger one is asked for by terms with noise, of which none is drawn.

CONSILIUM_SCALE_FIELDS (default 1000) chooses the number of parties.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

from benchmarks.cells import command_of
from benchmarks.scale.measured import answering, in_own_process
from benchmarks.verified import named, session
from docs.figures import figure

SHAPES = (300, 2), (10_000, 10)
COLUMNS = (
    "queries x classes", "numbers", "party, ms", "coordinator, ms a party", "second aggregator, ms a party", "up, kB",
    "between the two, kB a party",
)  # fmt: skip


def measured(count: int, queries: int, classes: int, larger: int) -> dict[str, Any]:
    """A session without liars: milliseconds by node and bytes, each of one party."""
    run = session(count, (queries, classes), 0, bool(larger))
    if not run.right or run.named:
        raise SystemExit("the sum is wrong")
    milliseconds = [1000 * run.clock.spent[node] / count for node in ("party", "leader", "helper")]
    return {"figures": [*milliseconds, run.up / 1000, run.between / count / 1000]}


def rows(count: int) -> Iterator[list[str]]:
    """Of each shape both fields, and the larger one by the smaller."""
    for shape in SHAPES:
        smaller, larger = (in_own_process(__spec__.name, "measured", count, *shape, larger)["figures"]
                           for larger in (0, 1))  # fmt: skip
        yield [named(shape), "2 bytes", *(f"{figure:.2f}" for figure in smaller)]
        yield ["", "3 bytes", *(f"{figure:.2f}" for figure in larger)]
        yield ["", "by 2 bytes", *(f"{more / less:.2f}" for less, more in zip(smaller, larger, strict=True))]


def main() -> None:
    """Print the table."""
    count = int(os.environ.get("CONSILIUM_SCALE_FIELDS", "1000"))
    command = command_of("benchmarks.scale.fields", variables=["CONSILIUM_SCALE_FIELDS"])
    split = f"made-up votes of {count:,} parties"
    with figure("scale/fields", command, COLUMNS, split=split, timings=COLUMNS[2:5], quick=False) as table:
        for row in rows(count):
            table.add(*row)


if __name__ == "__main__":
    answering({"measured": measured}) if len(sys.argv) > 1 else main()
