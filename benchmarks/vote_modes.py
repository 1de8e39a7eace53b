"""Clear, secure and distributed votes on the default scenario over five seeds: AUC, epsilon towards whom, seconds."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from benchmarks.cells import spread
from consilium.protocol.strict_json import number
from consilium.simulations.run import run_scenario
from consilium.simulations.scenario import load_scenario
from docs.figures import figure

SEEDS = range(5)
DISTRIBUTED = "federation.votes=distributed"
SETTINGS = {
    "clear": [],
    "secure": ["federation.votes=secure"],
    "distributed, all answered (sigma 92)": [
        DISTRIBUTED,
        "federation.mechanism={name='distributed', threshold=0, sigma=92.0, noise_shares=139}",
        "federation.caps={queries=300, answers=300}",
    ],
    "distributed, threshold 30 (sigma 92)": [
        DISTRIBUTED,
        "federation.mechanism={name='distributed', threshold=30, sigma=92.0, noise_shares=139}",
        "federation.caps={queries=300, answers=300}",
    ],
    "distributed, two phases, threshold 30 (sigma1 168, sigma2 90)": [
        DISTRIBUTED,
        "federation.mechanism={name='distributed_two_phase', threshold=30, sigma1=168, sigma2=90, noise_shares=139}",
        "federation.caps={queries=300, answers=150}",
    ],
}


COLUMNS = (
    "votes", "student AUC", "epsilon towards student and public", "towards the coordinator", "labels",
    "of them right", "seconds in all", "of them voting",
)  # fmt: skip


def rows(seeds: Iterable[int] = SEEDS) -> Iterator[list[str]]:
    """One row for each way: mean and standard deviation over the seeds; the epsilons are guarantees."""
    with tempfile.TemporaryDirectory() as folder:
        for index, (name, overrides) in enumerate(SETTINGS.items()):
            scenario = load_scenario("stroke-labels", overrides)
            runs = []
            for seed in seeds:
                out = Path(folder) / f"{index}-{seed}"
                summary = run_scenario("stroke", scenario, "local", seed, out, lambda _: contextlib.nullcontext())
                privacy, seconds = summary["privacy"], summary["seconds"]
                runs.append(
                    (
                        summary["student"]["auc"],
                        number(privacy, "epsilon_student"),
                        number(privacy, "epsilon_promised"),
                        summary["queries"]["answered"],
                        privacy["released_label_accuracy"],
                        seconds["total"],
                        seconds["vote"],
                    )
                )
            auc, to_student, to_coordinator, labels, right, whole, voting = zip(*runs, strict=True)
            seen = spread(to_coordinator) if scenario.federation.votes == "distributed" else "none"
            answered = [spread(labels, 0), spread(right), spread(whole, 1), spread(voting, 1)]
            yield [name, spread(auc), spread(to_student), seen, *answered]


def main() -> None:
    """Print the table."""
    split = "AUC on patients of hospitals that took no part"
    name, command = "results/vote-modes", "python -m benchmarks.vote_modes"
    with figure(name, command, COLUMNS, seeds=SEEDS, split=split, timings=COLUMNS[-2:]) as table:
        for row in rows():
            table.add(*row)


if __name__ == "__main__":
    main()
