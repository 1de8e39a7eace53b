"""What goes into the tables that benchmarks make: a mean with its standard deviation, and the command that was run."""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Sequence

import numpy as np
from scipy.stats import t


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
    shown = [word for before, word in zip(("", *arguments), arguments, strict=False) if "--out" not in (before, word)]
    return " ".join([*chosen, "python -m", module, *map(shlex.quote, shown)])
