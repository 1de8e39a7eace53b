"""What goes into the tables that benchmarks make: a mean with its standard deviation, and the command that was run."""

from __future__ import annotations

import argparse
import math
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from scipy.stats import t

from docs.figures import figure

Cell = str | float | int | None
Table = tuple[Sequence[str], Iterator[Sequence[Cell]]]
"""Columns, and rows as they are computed."""


def spread(values: Sequence[float], digits: int = 3, deviation: bool = True) -> str:
    """Mean ± sample standard deviation; the mean alone of one value, of equal ones, or without `deviation`.

    >>> spread([0.75, 0.77]), spread([300, 300], 0), spread([0.75, 0.77], deviation=False)
    ('0.760 ± 0.014', '300', '0.760')
    """
    mean = f"{np.mean(values):,.{digits}f}"
    alone = not deviation or len(values) < 2 or float(np.ptp(values)) == 0
    return mean if alone else f"{mean} ± {np.std(values, ddof=1):,.{digits}f}"


def student_interval(values: Sequence[float]) -> tuple[float, float]:
    """Lower and upper end of the 95 % interval of a mean by Student's t, each value one observation; two at least.

    >>> [round(end, 3) for end in student_interval([0.98, 0.99, 0.985])]
    [0.973, 0.997]
    """
    half = float(t.ppf(0.975, len(values) - 1)) * float(np.std(values, ddof=1)) / math.sqrt(len(values))
    return float(np.mean(values)) - half, float(np.mean(values)) + half


def command_of(module: str, arguments: Sequence[str] = (), variables: Sequence[str] = ()) -> str:
    """The command that was run: a module's, with its arguments and those of the environment's variables that are set.

    Where measurements are kept (`--out`) is left out.

    >>> command_of("benchmarks.worth", ["stroke", "--seeds", "0", "--out", "kept.jsonl"])
    'python -m benchmarks.worth stroke --seeds 0'
    """
    chosen = [f"{name}={shlex.quote(os.environ[name])}" for name in variables if name in os.environ]
    words = [word for before, word in zip(("", *arguments), arguments, strict=False) if "--out" not in (before, word)]
    return " ".join([*chosen, "python -m", module, *map(shlex.quote, words)])


def shown(value: Cell) -> str:
    """A cell as the pages have it: four digits, and none before the point of a number below one.

    >>> [shown(value) for value in (0.5536, -0.02, 5.6613, 12.1599, 140.177, 9000, None)]
    ['.554', '-.020', '5.661', '12.16', '140.2', '9,000', '–']
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if isinstance(value, float):
        digits = 3 if abs(value) < 10 else 2 if abs(value) < 100 else 1
        text = f"{value:,.{digits}f}"
        return text.replace("0.", ".", 1) if abs(value) < 0.9995 else text
    return f"{value:,}" if isinstance(value, int) else value


def power(value: float, digits: int | None = None) -> str:
    """A number as a power of ten where Python would write one; with digits after the point always.

    >>> power(1e-5), power(0.05), power(3.4e-5, 1)
    ('1e-5', '0.05', '3.4e-5')
    """
    text = f"{value:g}" if digits is None else f"{value:.{digits}e}"
    return re.sub(r"e([+-])0?", lambda sign: f"e{sign[1].strip('+')}", text)


def show_tables(tables: Mapping[str, Callable[[], Table]], module: str, arguments: Sequence[str] | None = None) -> None:
    """Print those tables of votes alone that the arguments choose: figures of docs/laboratory/papers.md, same names."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}")
    parser.add_argument("--tables", nargs="*", default=list(tables), choices=list(tables))
    for name in parser.parse_args(arguments or []).tables:
        print(f"\n{name}: {(tables[name].__doc__ or '').strip()}")
        columns, rows = tables[name]()
        address, command = f"papers/{name.replace('_', '-')}", f"python -m {module} --tables {name}"
        with figure(address, command, columns, split="a function of votes and settings; nothing is trained") as table:
            for row in rows:
                table.add(*map(shown, row))
