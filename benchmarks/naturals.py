"""The table of natural partitions in results.md: `python -m benchmarks.naturals FOLDER`, of a finished
`consilium study naturals`."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from benchmarks.results import table
from consilium.simulations.study.results import open_study
from consilium.simulations.study.summaries.view import study_view

MANY = 40
METHODS = {
    "local": "alone", "pate": "student", "private_gradient": "private gradient descent", "pooled": "pooled",
}  # fmt: skip
PRIVATE = ("pate", "private_gradient")
SPLIT = (
    "test rows are half of the rows of held-out owners; nothing was tuned on these sets; mean over seeds ± half of its"
    " 95 % interval over seeds and test rows"
)


def study_table(folder: Path) -> None:
    """A line for each partition at its first epsilon, the largest first."""
    files = open_study(folder)
    view = study_view(files.results, files.facts["axes"], files.row_scores)
    epsilon, metric = view.order["epsilon"][0], view.metric or ""
    sizes = {name: view.mean((epsilon, name), "division", "parties") or 0.0 for name in view.order["division"]}
    groups = {"mean, 40 parties or more": [name for name in sizes if sizes[name] >= MANY]}
    groups["mean, fewer parties"] = [name for name in sizes if sizes[name] < MANY]
    columns = ["division", "parties", *METHODS.values(), "manual labels"]
    with table("naturals", "python -m benchmarks.naturals", columns, split=SPLIT, seeds=view.seeds) as rows:
        for name in sorted(sizes, key=lambda name: -sizes[name]):
            point, cells = (epsilon, name), []
            for method in METHODS:
                row = view.means.get((point, method, metric))
                if row is None:
                    cells.append(None)
                    continue
                half = f" ± {(row.ends[1] - row.ends[0]) / 2:.3f}" if method in PRIVATE and row.ends else ""
                cells.append(f"{row.mean:.3f}{half}")
            worth = view.mean(point, "pate", "manual_labels")
            rows.add(name, f"{sizes[name]:,.0f}", *cells, None if worth is None else f"{worth:,.0f}")
        for label, names in groups.items():
            found = [[view.mean((epsilon, name), method, metric) for name in names] for method in METHODS]
            means = [None if None in line else f"{np.mean(np.array(line, dtype=float)):.3f}" for line in found]
            rows.add(label, "", *means, "")


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    study_table(Path((arguments or ["runs/study-naturals"])[0]))


if __name__ == "__main__":
    main(sys.argv[1:])
