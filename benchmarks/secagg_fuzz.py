"""A hundred thousand mutated messages of secure aggregation, seeded; any forgery, hang or untyped error ends it.

CONSILIUM_FUZZ_MESSAGES and CONSILIUM_FUZZ_SEED choose another number and another seed.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

from tests.secagg.fuzzing import Fuzzer


def main() -> None:
    """Print what became of the messages."""
    wanted = int(os.environ.get("CONSILIUM_FUZZ_MESSAGES", "100000"))
    seed = int(os.environ.get("CONSILIUM_FUZZ_SEED", "0"))
    start, sessions = time.perf_counter(), 0
    with tempfile.TemporaryDirectory() as folder:
        fuzzer = Fuzzer(Path(folder), seed)
        while fuzzer.tried < wanted:
            fuzzer.session(each=20)
            sessions += 1
    for outcome, count in sorted(fuzzer.outcomes.items()):
        print(f"{outcome:40s} {count:8d}")
    print(f"{fuzzer.tried} mutated messages in {sessions} sessions, seed {seed}, {time.perf_counter() - start:.0f} s:")
    print("no other error, no hang, no forgery taken, every session ended with the sum of the votes")


if __name__ == "__main__":
    main()
