"""What finished studies found, for results.md: `python -m benchmarks.studies [FOLDER...]`, kept with RECORD=1."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import numpy as np

from benchmarks.results import record, table
from consilium.report.words import many
from consilium.simulations.study.results import open_study
from consilium.simulations.study.summaries.questions import questions
from consilium.simulations.study.summaries.sentences import answers_of
from consilium.simulations.study.summaries.view import StudyView, study_view

JUDGES = {
    "heart": "patients by lot of all four hospitals; nothing was chosen on them",
    "hospitals": "patients of held-out hospitals; two constants of the student were chosen in view of seeds 0 to 4",
    "naturals": "rows of held-out owners; nothing was chosen on them",
    "papers": "patients by lot; constants as of `hospitals`",
    "writers": "images of held-out writers; the student's constants were chosen with test images in view",
}
"""Which rows judge, by study."""
MANY = 40
METHODS = {
    "local": "alone", "pate": "student", "private_gradient": "private gradient descent", "pooled": "pooled",
}  # fmt: skip
PRIVATE = ("pate", "private_gradient")
SPLIT = (
    "test rows are half of the rows of held-out owners; nothing was tuned on these sets; mean over seeds ± half of its"
    " 95 % interval over seeds and test rows"
)


def naturals(view: StudyView, command: str) -> None:
    """A line for each natural partition at its first epsilon, the largest first."""
    epsilon, metric = view.order["epsilon"][0], view.metric or ""
    sizes = {name: view.mean((epsilon, name), "division", "parties") or 0.0 for name in view.order["division"]}
    groups = {"mean, 40 parties or more": [name for name in sizes if sizes[name] >= MANY]}
    groups["mean, fewer parties"] = [name for name in sizes if sizes[name] < MANY]
    columns = ["division", "parties", *METHODS.values(), "manual labels"]
    with table("naturals", command, columns, split=SPLIT, seeds=view.seeds) as rows:
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


def main(folders: list[str] | None = None) -> None:
    """Print, and keep, how each study was made and its sentences; of `naturals` a table too."""
    for folder in folders or sorted(Path("runs").glob("study-*")):
        files = open_study(Path(folder))
        facts, view = files.facts, study_view(files.results, files.facts["axes"], files.row_scores)
        words = shlex.split(facts["command"])
        at, name = words.index("--out"), words[2]
        command = shlex.join([*words[:at], *words[at + 2 :]])
        made = f"`{command}`: {many(facts['cells'], 'cell')}, {many(len(view.seeds), 'seed')},"
        made += f" {facts['seconds'] / 60:.1f} minutes on {many(facts['workers'], 'core')}."
        values = {"made": made, **{str(place): text for place, text in enumerate(answers_of(view, questions(view)), 1)}}
        print("\n".join(values.values()), flush=True)
        if name == "naturals":
            naturals(view, command)
        if os.environ.get("RECORD"):
            result = {"values": values, "split": JUDGES[name], "seeds": list(view.seeds), "command": command}
            record(f"study-{name}", result)


if __name__ == "__main__":
    main(sys.argv[1:])
