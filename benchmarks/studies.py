"""What finished studies found, for results.md: `python -m benchmarks.studies [FOLDER...]`, kept with RECORD=1."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

from benchmarks.results import record
from consilium.report.words import many
from consilium.simulations.study.results import open_study
from consilium.simulations.study.summaries.questions import questions
from consilium.simulations.study.summaries.sentences import answers_of
from consilium.simulations.study.summaries.view import study_view

JUDGES = {
    "heart": "patients by lot of all four hospitals; nothing was chosen on them",
    "hospitals": "patients of held-out hospitals; two constants of the student were chosen in view of seeds 0 to 4",
    "naturals": "rows of held-out owners; nothing was chosen on them",
    "papers": "patients by lot; constants as of `hospitals`",
    "writers": "images of held-out writers; the student's constants were chosen with test images in view",
}
"""Which rows judge, by study."""


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
        if os.environ.get("RECORD"):
            result = {"values": values, "split": JUDGES[name], "seeds": list(view.seeds), "command": command}
            record(f"study-{name}", result, facts["seconds"])


if __name__ == "__main__":
    main(sys.argv[1:])
