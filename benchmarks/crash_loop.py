"""kill -9 a run at a hundred random moments and resume it each time; ends with an error unless nothing was lost.

CONSILIUM_CRASH_VOTES=secure and CONSILIUM_CRASH_KILLS=8 choose how votes are collected, and how often it is killed.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from tests.simulations.test_resume import crash_loop


def main() -> None:
    """Print where the kills fell."""
    kills, votes = (
        int(os.environ.get("CONSILIUM_CRASH_KILLS", "100")),
        os.environ.get("CONSILIUM_CRASH_VOTES", "plaintext"),
    )
    with tempfile.TemporaryDirectory() as folder:
        hits = crash_loop(Path(folder), kills, seed=2026, votes=votes)
    print(
        f"{kills} kills, {votes} votes: same label for every query, same charge, same student, chain intact after each"
    )
    for stage, count in sorted(hits.items()):
        print(f"  {stage:24} {count:4}")


if __name__ == "__main__":
    main()
