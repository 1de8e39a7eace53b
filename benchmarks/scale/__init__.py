"""Thousands of parties: what a federation costs each node by parties, queries, classes and the way votes are collected.

Each part is a module of this folder with a `main()` that prints its table; `PARTS` names them in order.
"""

from __future__ import annotations

import importlib

PARTS = ("grid", "population", "clear", "nodes", "verified", "secure", "secaggplus", "liar", "memory", "fields")


def main(*wanted: str) -> None:
    """Print the tables of the parts that are named, or of all. Raises SystemExit for one that there is not."""
    if unknown := set(wanted) - set(PARTS):
        raise SystemExit(f"no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    for name in wanted or PARTS:
        print(f"\n-- {name}")
        importlib.import_module(f"benchmarks.scale.{name}").main()
