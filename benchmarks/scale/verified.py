"""Verified votes of 5,000 parties on 10,000 queries with 10 classes, one in a hundred of them a liar, on one thread.

All nodes take turns in one process (`benchmarks.verified.session`); liars give two votes to a query and forge the rest.
Times are processor time. CONSILIUM_SCALE_VERIFIED (default "250 1000 5000") chooses the numbers of parties.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from benchmarks.scale.measured import answering, in_own_process, peak_mb
from benchmarks.verified import session

QUERIES, CLASSES = 10_000, 10
PARTIES = "250 1000 5000"


def federation(count: int) -> dict[str, Any]:
    """One session of so many parties."""
    before, start = peak_mb(), time.process_time()
    run = session(count, (QUERIES, CLASSES), count // 100)
    if not run.right or run.named != count // 100:
        raise SystemExit("the sum is wrong, or a liar is not named")
    everything = time.process_time() - start
    each = {name: 1000 * seconds / count for name, seconds in run.clock.spent.items()}
    return {
        "each": each,
        "all": everything,
        "up": run.up,
        "between": run.between,
        "before": before,
        "memory": peak_mb(),
    }


def main() -> None:
    """Print the table."""
    print(f"{QUERIES} queries x {CLASSES} classes, one thread; 1 % liars, all left out by name, sums right")
    heads = ("party ms", "leader ms", "helper ms", "party up, kB", "between, MB", "all, s", "memory, MB", "of it")
    print(f"{'parties':<10}{'liars':>6}" + "".join(f"{head:>14}" for head in heads))
    for count in map(int, os.environ.get("CONSILIUM_SCALE_VERIFIED", PARTIES).split()):
        row = in_own_process(__spec__.name, "federation", count)
        each = row["each"]
        print(
            f"{count:<10}{count // 100:6d}{each['party']:14.2f}{each['leader']:14.2f}{each['helper']:14.2f}"
            f"{row['up'] / 1000:14.1f}{row['between'] / 1e6:14.1f}{row['all']:14.1f}{row['memory']:14.0f}"
            f"{row['before']:14.0f}",
            flush=True,
        )


if __name__ == "__main__":
    answering({"federation": federation}) if len(sys.argv) > 1 else main()
