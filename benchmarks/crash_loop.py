"""kill -9 a run at a hundred random moments and resume it each time; ends with an error unless nothing was lost."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.simulations.test_resume import crash_loop

KILLS = 100


def main() -> None:
    """Print where the kills fell."""
    with tempfile.TemporaryDirectory() as folder:
        hits = crash_loop(Path(folder), KILLS, seed=2026)
    print(f"{KILLS} kills: same label for every query, same charge, same student, chain intact after each")
    for stage, count in sorted(hits.items()):
        print(f"  {stage:24} {count:4}")


if __name__ == "__main__":
    main()
