"""What hidden sums and more parties cost: the same federation in each way of collection, in one run of this script.

    python -m benchmarks.scale [--parties 100 371 1000] [--collections plaintext secure verified]

The patients of the stroke trial are dealt to so many parties by lot; nothing else of the scenario is changed. Seconds
are those of the whole run and of collecting votes; the ratio is to plaintext votes of as many parties. The epsilons are
guarantees: towards the student, and towards whoever sees the sums.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.results import command_of, table
from consilium.report.disclosure import epsilon_text
from consilium.simulations.run import run_scenario
from consilium.simulations.scenario import load_scenario

PARTIES = (100, 371, 1000)
COLLECTIONS = ("plaintext", "secure", "verified")
COLUMNS = ("parties, collection", "seconds", "of them votes", "beside plaintext", "towards student", "towards nodes")
SPLIT = "the stroke trial's patients, dealt by lot; nothing is judged"


def seconds(parties: int, collection: str) -> tuple[float, float, list[str]]:
    """Of a whole run, of its votes; and its two guarantees."""
    changes = ["data.partition=iid", f"data.parties={parties}", f"federation.collection={collection}"]
    scenario = load_scenario("stroke", [*changes, "simulation.hand_labels=none"])
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        summary = run_scenario("stroke", scenario, "local", 0, out, lambda _: contextlib.nullcontext())
    privacy = summary["privacy"]
    towards = [privacy["epsilon_guaranteed"], privacy.get("epsilon_nodes")]
    told = ["none" if epsilon is None else epsilon_text(epsilon) for epsilon in towards]
    return time.monotonic() - start, summary["seconds"]["vote"], told


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Seconds by parties and way of collection.")
    parser.add_argument("--parties", type=int, nargs="*", default=list(PARTIES))
    parser.add_argument("--collections", nargs="*", default=list(COLLECTIONS), choices=COLLECTIONS)
    chosen = parser.parse_args(arguments or [])
    with table("scale", command_of("benchmarks.scale", arguments or []), COLUMNS, split=SPLIT, seeds=[0]) as rows:
        for parties in chosen.parties:
            plain = 0.0
            for collection in chosen.collections:
                whole, votes, guarantees = seconds(parties, collection)
                plain = plain or whole
                cells = [f"{whole:.1f}", f"{votes:.1f}", f"{whole / plain:.1f}"]
                rows.add(f"{parties:,}, {collection}", *cells, *guarantees)


if __name__ == "__main__":
    main(sys.argv[1:])
