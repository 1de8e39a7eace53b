"""Runs the benchmarks that print tables: all, or those that are named."""

from __future__ import annotations

import importlib
import pkgutil
import sys

import benchmarks


def main() -> None:
    """`python -m benchmarks [NAME...]`; each module has a `main()` that prints a table."""
    known = sorted({module.name for module in pkgutil.iter_modules(benchmarks.__path__)} - {"__main__", "results"})
    wanted = sys.argv[1:] or known
    unknown = set(wanted) - set(known)
    if unknown:
        sys.exit(f"no benchmark {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    for name in wanted:
        print(f"\n== {name}")
        importlib.import_module(f"benchmarks.{name}").main()


if __name__ == "__main__":
    main()
