"""Seconds per 1,000 queries of the accounting on one core, against a plain implementation of the published method.

`python -m benchmarks accounting`. The plain versions below follow the papers query by query (Theorem 6 over all orders
at once, local sensitivities one moved vote at a time for a single order), as the published code does, and are timed in
the same run on the same votes. Votes: the golden sets if they lie beside the repository, else made-up ones of the same
shape.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.special import log_ndtr, logsumexp, ndtri_exp

from consilium.accounting.curves.conversion import REFERENCE_ORDERS
from consilium.accounting.curves.gaussian import log_pr_answered, log_q_gnmax, log_q_threshold, sum_rdp_data_dependent
from consilium.accounting.curves.laplace import PAPER_MOMENTS, log_q_lnmax, sum_rdp_lnmax
from consilium.accounting.sanitise.smooth import CheckProfile, LabelProfile, sensitivity_curve, smooth_sensitivity
from consilium.accounting.units import Noise

GOLDEN = Path(__file__).resolve().parents[1].parent / "shared" / "golden" / "accounting"
SETS: dict[str, dict[str, float]] = {
    "mnistlike": {"teachers": 250, "classes": 10, "gamma": 0.05, "threshold": 200.0, "sigma1": 150.0, "sigma2": 40.0},
    "glyphlike": {
        "teachers": 5000,
        "classes": 150,
        "gamma": 0.02,
        "threshold": 1000.0,
        "sigma1": 500.0,
        "sigma2": 100.0,
    },
}
QUERIES = 1000
Call = Callable[[], np.ndarray]


def load(name: str) -> np.ndarray:
    """First 1,000 queries of a set, int64 (1000, classes)."""
    path = GOLDEN / f"{name}.npz"
    if path.exists():
        return np.load(path)["votes"][:QUERIES]
    teachers, classes = int(SETS[name]["teachers"]), int(SETS[name]["classes"])
    rng = np.random.default_rng(0)
    share = rng.beta(6, 1.5, QUERIES)
    rest = rng.dirichlet(np.full(classes - 1, 0.3), QUERIES) * (1 - share)[:, None]
    p = np.concatenate((share[:, None], rest), axis=1)
    return np.stack([rng.multinomial(teachers, row / row.sum()) for row in p]).astype(np.int64)


def log1mexp(x: float) -> float:
    return math.log(-math.expm1(x)) if x > -0.7 else math.log1p(-math.exp(x))


def plain_log_q(row: np.ndarray, sigma: float) -> float:
    top = int(np.argmax(row))
    gaps = row[top] - np.delete(row, top)
    return min(float(np.asarray(logsumexp(log_ndtr(-gaps / (math.sqrt(2) * sigma))))), math.log1p(-1 / row.size))


def plain_rdp(log_q: float, sigma: float, orders: np.ndarray) -> np.ndarray:
    """Theorem 6 for one query at all orders."""
    variance = sigma**2
    out = orders / variance
    mu2 = math.sqrt(variance * -log_q)
    mu1 = mu2 + 1
    if mu2 <= 1:
        return out
    e1, e2 = mu1 / variance, mu2 / variance
    limit = (mu2 - 1) * e2 - mu2 * (math.log1p(1 / (mu1 - 1)) + math.log1p(1 / (mu2 - 1)))
    if log_q > limit or -log_q <= e2:
        return out
    log_1mq = log1mexp(log_q)
    log_a = (orders - 1) * (log_1mq - log1mexp((log_q + e2) * (1 - 1 / mu2)))
    log_b = (orders - 1) * (e1 - log_q / (mu1 - 1))
    bound = np.logaddexp(log_1mq + log_a, log_q + log_b) / (orders - 1)
    return np.where(orders <= mu1, np.minimum(out, bound), out)


def plain_confident(votes: np.ndarray, threshold: float, sigma1: float, sigma2: float) -> np.ndarray:
    total = np.zeros(REFERENCE_ORDERS.size)
    for row in votes:
        z = (row.max() - threshold) / sigma1
        log_p, log_not_p = float(log_ndtr(z)), float(log_ndtr(-z))
        total += plain_rdp(min(log_p, log_not_p), sigma1 * math.sqrt(2), REFERENCE_ORDERS)
        total += math.exp(log_p) * plain_rdp(plain_log_q(row, sigma2), sigma2, REFERENCE_ORDERS)
    return total


def plain_lnmax(votes: np.ndarray, gamma: float) -> np.ndarray:
    total = np.zeros(8)
    for row in votes:
        top = int(np.argmax(row))
        x = gamma * (row[top] - np.delete(row, top))
        q = min(float(np.sum((2 + x) / (4 * np.exp(x)))), 1 - 1 / row.size)
        for i, el in enumerate(PAPER_MOMENTS):
            bound = min(2 * gamma**2 * el * (el + 1), 2 * gamma * el)
            if 0 < q < 1 / (math.exp(2 * gamma) + 1):
                ratio = (1 - q) / (1 - q * math.exp(2 * gamma))
                bound = min(bound, math.log((1 - q) * ratio**el + q * math.exp(2 * gamma * el)))
            total[i] += bound
    return total


def plain_local_sensitivities(votes: np.ndarray, teachers: int, sigma: float, order: float) -> np.ndarray:
    """Sum over queries of the local sensitivity at each distance, one moved vote at a time, for one order."""
    classes = votes.shape[1]
    curve = sensitivity_curve(sigma, classes, [order])
    log_q0, log_q1, plateau = float(curve.log_q0[0]), float(curve.log_q1[0]), float(curve.plateau[0])
    spread, at = math.log(classes - 1), np.array([order])

    def cost(log_q: float) -> float:
        return float(plain_rdp(min(log_q, -1e-12), sigma, at)[0])

    def shifted(log_q: float, sign: int) -> float:
        return spread + float(log_ndtr(ndtri_exp(min(log_q - spread, -1e-300)) + sign * math.sqrt(2) / sigma))

    def local(log_q: float) -> float:
        if log_q1 <= log_q <= log_q0:
            return plateau
        here = cost(log_q)
        return max(cost(shifted(log_q, +1)) - here, here - cost(shifted(log_q, -1)))

    total = np.zeros(teachers)
    for row in votes:
        now = sorted(row.tolist(), reverse=True)
        values = np.full(teachers, plateau)
        log_q = plain_log_q(np.array(now), sigma)
        towards = log_q > log_q0
        d = 0
        while d < teachers and (log_q > log_q0 and now[1] > 0 if towards else log_q < log_q1):
            values[d] = local(log_q)
            d += 1
            if towards:
                now[0] += 1
                now[1] -= 1
                now.sort(reverse=True)
            else:
                now[0] -= 1
                now[1] += 1
            log_q = plain_log_q(np.array(now), sigma)
        total += values
    return total


def confident(votes: np.ndarray, threshold: float, sigma1: float, sigma2: float) -> np.ndarray:
    top = votes.max(axis=1)
    log_p, _ = log_pr_answered(top, threshold, sigma1, "continuous")
    check = log_q_threshold(top, threshold, sigma1, "continuous")
    total = sum_rdp_data_dependent(check, sigma1, REFERENCE_ORDERS, scalar=True)
    log_q = log_q_gnmax(votes, sigma2, "continuous")
    return total + sum_rdp_data_dependent(log_q, sigma2, REFERENCE_ORDERS, weights=np.exp(log_p))


def lnmax(votes: np.ndarray, gamma: float) -> np.ndarray:
    log_q = log_q_lnmax(votes, gamma, "continuous")
    rdp = sum_rdp_lnmax(log_q, gamma, PAPER_MOMENTS + 1, noise="continuous", baseline="paper")
    return rdp * PAPER_MOMENTS


def local_sensitivities(votes: np.ndarray, teachers: int, sigma: float, order: float) -> np.ndarray:
    profile = LabelProfile(votes, teachers, sigma, Noise.CONTINUOUS, np.array([order]), 1, np.ones(len(votes)))
    return profile.at(np.zeros(teachers, dtype=np.int64), np.arange(teachers))


def smooth(
    votes: np.ndarray, teachers: int, threshold: float, sigma1: float, sigma2: float, orders: np.ndarray
) -> np.ndarray:
    """Smooth sensitivity of check and label at these orders, alpha beta = .4, whether or not C5 and C6 hold."""
    top, noise = votes.max(axis=1), Noise.CONTINUOUS
    weights = np.exp(log_pr_answered(top, threshold, sigma1, noise)[0])
    label = LabelProfile(votes, teachers, sigma2, noise, orders, 1, weights)
    check = CheckProfile(top, threshold, sigma1, noise, orders, 1, 0, teachers)
    return smooth_sensitivity([label, check], orders, 0.4 / orders, teachers)


def best_of(runs: int, call: Call) -> tuple[float, np.ndarray]:
    """(least seconds, result) over a few runs."""
    least, result = math.inf, call()
    for _ in range(runs):
        start = time.perf_counter()
        result = call()
        least = min(least, time.perf_counter() - start)
    return least, result


def once(call: Call) -> tuple[float, np.ndarray]:
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


_STREAM = """
import resource, sys, time
import numpy as np
from benchmarks.accounting import SETS, load, confident
n = int(sys.argv[1])
votes = np.resize(load("glyphlike"), (n, 150))
s = SETS["glyphlike"]
start = time.perf_counter()
confident(votes, s["threshold"], s["sigma1"], s["sigma2"])
seconds = time.perf_counter() - start
print(seconds, votes.nbytes / 2**30, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)
"""


def stream(queries: int) -> tuple[float, float, float]:
    """(seconds, GiB of the votes themselves, GiB of the whole process) for so many queries x 150 classes, int64."""
    env = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", _STREAM, str(queries)],
        capture_output=True,
        text=True,
        check=True,
        env=env,
        cwd=Path(__file__).resolve().parents[1],
    )
    seconds, votes, peak = map(float, done.stdout.split())
    return seconds, votes, peak


def compare(name: str) -> None:
    """Print the rows of one set."""
    s, votes = SETS[name], load(name)
    teachers, gamma, sigma2 = int(s["teachers"]), s["gamma"], s["sigma2"]
    checked = (s["threshold"], s["sigma1"], sigma2)
    order = 20.0
    pairs: list[tuple[str, Call, Call]] = [
        ("LNMax, 8 moments", lambda: plain_lnmax(votes, gamma), lambda: lnmax(votes, gamma)),
        ("Confident, 297 orders", lambda: plain_confident(votes, *checked), lambda: confident(votes, *checked)),
        (
            "local sensitivities, one order",
            lambda: plain_local_sensitivities(votes, teachers, sigma2, order),
            lambda: local_sensitivities(votes, teachers, sigma2, order),
        ),
    ]
    for title, plain, here in pairs:
        slow, expected = once(plain)
        fast, found = best_of(5, here)
        difference = float(np.max(np.abs(found / expected - 1)))
        print(f"{title:34}{name:>11}{slow:10.3f}{fast:10.4f}{slow / fast:8.0f}{difference:21.1e}")
    one = np.array([order])
    fast, _ = best_of(5, lambda: smooth(votes, teachers, *checked, one))
    print(f"{'smooth sensitivity, one order':34}{name:>11}{'':>10}{fast:10.4f}")
    fast, _ = best_of(2, lambda: smooth(votes, teachers, *checked, REFERENCE_ORDERS))
    print(f"{'smooth sensitivity, 297 orders':34}{name:>11}{'':>10}{fast:10.4f}")


def main() -> None:
    """Print both tables."""
    print("seconds per 1,000 queries, one core; plain = the published method, query by query, in the same run")
    print(f"{'':34}{'set':>11}{'plain':>10}{'here':>10}{'ratio':>8}{'largest difference':>21}")
    for name in SETS:
        compare(name)
    print("\nConfident on N queries x 150 classes (int64 in memory)")
    print(f"{'N':>10}{'seconds':>10}{'per 1,000':>12}{'votes GiB':>12}{'process GiB':>13}")
    for queries in (10_000, 100_000, 1_000_000):
        seconds, size, peak = stream(queries)
        print(f"{queries:10,}{seconds:10.2f}{seconds / queries * 1000:12.5f}{size:12.2f}{peak:13.2f}")


if __name__ == "__main__":
    main()
