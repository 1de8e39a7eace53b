"""Ten thousand promises with their messages, at random: the largest ratio of true cost to charged cost.

CONSILIUM_PROMISES chooses another number.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

from tests.party.lying import Game


def main() -> None:
    """Print the rules that refused, and the ratios."""
    games = int(os.environ.get("CONSILIUM_PROMISES", "10000"))
    start, rules, ratios, accepted = time.perf_counter(), Counter(), [], 0
    with tempfile.TemporaryDirectory() as root:
        for index in range(games):
            folder = Path(root) / str(index)
            outcome = Game(folder, np.random.default_rng([1, index])).play()
            shutil.rmtree(folder)
            rules += outcome.rules
            accepted += outcome.accepted
            if outcome.let_out:
                ratios.append(outcome.ratio)
    for rule, count in rules.most_common():
        print(f"{rule:24s} {count:8d}")
    print(
        f"{games} promises, {accepted} accepted at hello, votes left in {len(ratios)}: true over charged cost at most"
        f" {max(ratios):.12f}, median {float(np.median(ratios)):.3f}; {time.perf_counter() - start:.0f} s"
    )


if __name__ == "__main__":
    main()
