"""The worst case of a composition by backward induction, beside other bounds and an adversary that was searched for.

    python -m benchmarks.adaptive

The adversary is one of few places: leads of two classes .05 noise parameters apart, near ties of three, and thresholds
of checks. It chooses in view of all outcomes before, with the checks all first or all last. What it reaches is below
the truth, what is claimed above. The table is that of docs/laboratory/accounting.md (docs/figures.py).
"""

from __future__ import annotations

import math
import multiprocessing
import resource
import sys
import time
from concurrent.futures import ProcessPoolExecutor

import numpy as np
from scipy.special import ndtr

from consilium.accounting.curves.conversion import DEFAULT_ORDERS, rdp_to_epsilon
from consilium.accounting.units import Noise
from consilium.accounting.worst.adaptive import adaptive_epsilon
from consilium.accounting.worst.compose import Composed, composed_epsilon
from consilium.accounting.worst.renyi import rdp_argmax, rdp_check
from docs.figures import figure

Case = tuple[str, float, tuple[int, float], tuple[int, float]]
CASES: tuple[Case, ...] = (
    ("10 labels at 40", 1e-5, (0, 1.0), (10, 40.0)),
    ("100 labels at 40", 1e-5, (0, 1.0), (100, 40.0)),
    ("100 labels at 40", 1e-12, (0, 1.0), (100, 40.0)),
    ("207 hospitals: 800 checks at 300, 300 labels at 108", 1e-5, (800, 300.0), (300, 108.0)),
    ("1,000 labels at 100", 1e-6, (0, 1.0), (1000, 100.0)),
    ("640 checks at 150, 640 labels at 40", 1e-5, (640, 150.0), (640, 40.0)),
)
"""Name, delta, checks and labels, each with how many there are and their noise."""
FINE = 0.04
"""Spacing of the adversary's losses in units of the distance of a label: they overstate it by .03 %."""


def of_three(u: float, v: float) -> tuple[float, float, float]:
    """a, b or the third wins; noise of deviation 1, the third at 0."""
    x, weights = np.polynomial.legendre.leggauss(400)
    end = max(u, v, 0.0) + 9.0
    x, weights = (x + 1) * end / 2, weights * end / 2 / math.sqrt(2 * math.pi)
    a = float(weights @ (np.exp(-((x - u) ** 2) / 2) * ndtr(x - v)))
    b = float(weights @ (np.exp(-((x - v) ** 2) / 2) * ndtr(x - u)))
    return a, b, float(ndtr(-u) * ndtr(-v))


def places(checks: float, labels: float) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """What a check, and a label, can be: float64 (2, outcomes) each, the law before and after the move."""
    bits = {sigma: [] for sigma in (checks, labels / math.sqrt(2))}
    for sigma, found in bits.items():
        for t in np.arange(-4.5, 4.51, 0.05):
            for sign in (1, -1):
                before, after = ndtr(sign * t), ndtr(sign * (t - 1 / sigma))
                found.append(np.array([[before, 1 - before], [after, 1 - after]]))
    third = [
        np.array([of_three(h + x / 2, h - x / 2), of_three(h + x / 2 - 1 / labels, h - x / 2 + 1 / labels)])
        for h in (0.4, 0.75, 1.2)
        for x in np.linspace(-3, 3, 25)
    ]
    return bits[checks], [*bits[labels / math.sqrt(2)], *third]


def searched(delta: float, checks: tuple[int, float], labels: tuple[int, float], rough: float) -> float:
    """The epsilon of the adversary at ``delta``; ``rough`` is above it."""
    step = FINE * math.sqrt(2) / labels[1]
    most = math.ceil(1.3 * rough / step)
    losses = step * np.arange(-most, most + 1)

    def round_of(value: np.ndarray, pairs: list[np.ndarray]) -> np.ndarray:
        best = np.zeros_like(value)
        wide = np.concatenate((np.ones(most), value, np.zeros(most)))
        for before, after in pairs:
            total = np.zeros_like(value)
            for p, q in zip(before, after, strict=True):
                whole, part = divmod(math.log(q / p) / step, 1.0)
                start = most + int(max(-most, min(whole, most - 1)))
                weight = math.expm1(part * step) / math.expm1(step)
                total += p * ((1 - weight) * wide[start : start + value.size])
                total += p * (weight * wide[start + 1 : start + 1 + value.size])
            np.maximum(best, total, out=best)
        return best

    kinds = places(checks[1], labels[1])
    found = []
    for order in ((0, 1), (1, 0)):
        value = np.maximum(-np.expm1(losses), 0.0)
        for kind in order:
            for _ in range((checks, labels)[kind][0]):
                value = round_of(value, kinds[kind])
        found.append(float(np.interp(-delta, -value, losses)))
        if not checks[0]:
            break
    return max(found)


def claimed(delta: float, parts: list[Composed]) -> tuple[float, float, float]:
    """What is claimed, with processor seconds and megabytes of a process that does nothing else."""
    epsilon = adaptive_epsilon(parts, delta)
    return epsilon, time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Print the table."""
    columns = ("composition", "delta", "Rényi curves", "beside a Gaussian", "**induction**", "adversary", "above it")
    timed = ("seconds", "MB")
    split = "a function of counts and noise; nothing is drawn and nothing chosen"
    with figure(
        "accounting/adaptive", "python -m benchmarks.adaptive", (*columns, *timed), split=split, timings=timed,
        quick=False, note="integer noise; processor seconds and memory of a process by itself",
    ) as table:  # fmt: skip
        for name, delta, checks, labels in CASES:
            parts = [Composed(checks[0], "check", checks[1], Noise.DISCRETE)] if checks[0] else []
            parts.append(Composed(labels[0], "argmax", labels[1], Noise.DISCRETE))
            alone = multiprocessing.get_context("spawn")
            with ProcessPoolExecutor(1, mp_context=alone) as process:
                epsilon, seconds, memory = process.submit(claimed, delta, parts).result()
            curve = labels[0] * rdp_argmax(labels[1], DEFAULT_ORDERS, Noise.DISCRETE)
            curve = curve + checks[0] * rdp_check(checks[1], DEFAULT_ORDERS, Noise.DISCRETE)
            renyi = rdp_to_epsilon(curve, DEFAULT_ORDERS, delta).epsilon
            beside = composed_epsilon(parts, delta)
            adversary = searched(delta, checks, labels, renyi)
            table.add(
                *(name, f"{delta:g}", f"{renyi:.3f}", f"{beside:.3f}" if math.isfinite(beside) else None),
                *(f"**{epsilon:.4f}**", f"{adversary:.4f}", f"{epsilon / adversary - 1:.2%}"),
                *(f"{seconds:.1f}", f"{memory:.0f}"),
            )
    sys.stdout.flush()


if __name__ == "__main__":
    main()
