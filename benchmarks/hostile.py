"""A hundred thousand damaged messages against parties and coordinator, whole federations long: what became of them, and
the peak memory. CONSILIUM_FUZZ_MESSAGES chooses another number. Replies of secure sums: `secagg_fuzz`."""

from __future__ import annotations

import os
import resource
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.hostile import attack

COPIES = 400


def main() -> None:
    """Print what became of the messages."""
    wanted = int(os.environ.get("CONSILIUM_FUZZ_MESSAGES", "100000"))
    before, start = _peak(), time.perf_counter()
    sent, accepted, outcomes = Counter(), Counter(), Counter()
    seed = 0
    while sum(sent.values()) < wanted:
        with tempfile.TemporaryDirectory() as folder:
            transport = attack(Path(folder), ("plaintext", "secure")[seed % 2], COPIES, seed)
        sent, accepted, outcomes = sent + transport.sent, accepted + transport.accepted, outcomes + transport.outcomes
        seed += 1
    for outcome, count in sorted(outcomes.items()):
        print(f"{outcome:40s} {count:8d}")
    print(f"{sum(sent.values())} damaged ({dict(sent)}) in {seed} federations, {time.perf_counter() - start:.0f} s:")
    print(f"accepted: {sum(accepted.values())} {dict(accepted)}; every federation came to its end")
    print(f"peak memory {_peak():.0f} MB, {before:.0f} MB before the first message")


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
