"""The default scenario over ten seeds: what the student reaches, at which epsilon, and what stands beside it."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from benchmarks.cells import spread
from consilium.simulations.run import run_scenario
from consilium.simulations.scenario import load_scenario
from docs.figures import figure

SEEDS = range(10)
CONFIDENT = ("federation.mechanism={name='confident', threshold=150}", "federation.privacy.epsilon=0.8")
SETTINGS = {
    "as shipped: 371 hospitals, histograms": ("stroke", ()),
    "labels with the same noise": ("stroke", ("federation.mechanism={name='gnmax', sigma=112.1}",)),
    "labels at the same epsilon: a sixth less noise, since a label is charged as a label": (
        "stroke",
        ("federation.mechanism={name='gnmax', sigma=94.17}",),
    ),
    "votes for the likeliest class": ("stroke", ("federation.ballot={rule='top'}",)),
    "hospitals with 20 patients or more (207)": ("stroke", ("data.least_rows=20",)),
    "`stroke-labels` (207, Confident) at the same epsilon": ("stroke-labels", CONFIDENT),
}
"""Name -> scenario, and what is changed in it."""
SPLIT = (
    "AUC on patients of hospitals that took no part; the student's settings were chosen on such rows of seeds 0 to 4"
)
QUIET = ("simulation.hand_labels=none",)
COLUMNS = ("setting", "promised", "released", "student", "mean teacher", "plurality", "pooled")
OTHERS = ("mean_teacher", "plurality", "pooled")


def rows(seeds: Iterable[int] = SEEDS) -> Iterator[list[str]]:
    """One row for each setting: mean and standard deviation of the AUC over the seeds."""
    with tempfile.TemporaryDirectory() as folder:
        for index, (name, (base, changes)) in enumerate(SETTINGS.items()):
            scenario = load_scenario(base, [*changes, *QUIET])
            runs = []
            for seed in seeds:
                out = Path(folder) / f"{index}-{seed}"
                summary = run_scenario(base, scenario, "local", seed, out, lambda _: contextlib.nullcontext())
                aucs = [summary["student"]["auc"], *(summary["baselines"][other]["auc"] for other in OTHERS)]
                runs.append([summary["privacy"]["epsilon_promised"], summary["queries"]["answered"], *aucs])
            promised, released, *aucs = zip(*runs, strict=True)
            yield [name, spread(promised), spread(released, 0), *(spread(values) for values in aucs)]


def main() -> None:
    """Print the table."""
    name, command = "results/default-scenario", "python -m benchmarks.default_scenario"
    with figure(name, command, COLUMNS, seeds=SEEDS, split=SPLIT) as table:
        for row in rows():
            table.add(*row)


if __name__ == "__main__":
    main()
