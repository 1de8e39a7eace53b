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
from scipy.special import log_ndtr, logsumexp

from consilium import accounting
from consilium.accounting.curves.conversion import REFERENCE_ORDERS
from consilium.accounting.curves.gaussian import log_pr_answered, log_q_gnmax, rdp_data_dependent, sum_over_queries
from consilium.accounting.curves.laplace import PAPER_MOMENTS, log_q_lnmax, rdp_lnmax
from consilium.accounting.sanitise.release import label_costs
from consilium.accounting.sanitise.smooth import CheckProfile, LabelProfile, smooth_sensitivity
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


def confident(votes: np.ndarray, threshold: float, sigma1: float, sigma2: float) -> np.ndarray:
    top = votes.max(axis=1)
    log_p, log_fails = log_pr_answered(top, threshold, sigma1, "continuous")
    check = np.minimum(log_p, log_fails)
    total = sum_over_queries(lambda q: rdp_data_dependent(q, sigma1, REFERENCE_ORDERS, scalar=True), check)
    log_q = log_q_gnmax(votes, sigma2, "continuous")
    return total + sum_over_queries(lambda q: rdp_data_dependent(q, sigma2, REFERENCE_ORDERS), log_q, np.exp(log_p))


def lnmax(votes: np.ndarray, gamma: float) -> np.ndarray:
    log_q = log_q_lnmax(votes, gamma, "continuous")
    each = rdp_lnmax(log_q, gamma, PAPER_MOMENTS + 1, noise="continuous", baseline="paper")
    return each.sum(axis=0) * PAPER_MOMENTS


def smooth(
    votes: np.ndarray, teachers: int, threshold: float, sigma1: float, sigma2: float, orders: np.ndarray
) -> np.ndarray:
    """Smooth sensitivity of check and label at these orders, alpha beta = .4."""
    event = accounting.Confident(threshold, sigma1, sigma2).event(len(votes), noise=Noise.CONTINUOUS)
    weights = np.exp(event.log_p_answered(votes, teachers))
    label = LabelProfile(votes, teachers, label_costs(event, teachers, votes.shape[1], orders), weights)
    compared = event.mechanism.comparison(votes, teachers, event.noise)
    assert compared is not None
    return smooth_sensitivity([label, CheckProfile(compared, orders)], orders, 0.4 / orders, teachers)


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
    pairs: list[tuple[str, Call, Call]] = [
        ("LNMax, 8 moments", lambda: plain_lnmax(votes, gamma), lambda: lnmax(votes, gamma)),
        ("Confident, 297 orders", lambda: plain_confident(votes, *checked), lambda: confident(votes, *checked)),
    ]
    for title, plain, here in pairs:
        slow, expected = once(plain)
        fast, found = best_of(5, here)
        difference = float(np.max(np.abs(found / expected - 1)))
        print(f"{title:34}{name:>11}{slow:10.3f}{fast:10.4f}{slow / fast:8.0f}{difference:21.1e}")
    one = np.array([20.0])
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
