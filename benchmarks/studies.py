"""What finished studies and papers found: `python -m benchmarks.studies [FOLDER...]`, kept with RECORD=1."""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path
from typing import Any

from benchmarks.results import Rows, record
from consilium.report.words import many
from consilium.simulations.papers.run import RESULTS, exhibits
from consilium.simulations.study.run import FACTS_FILE

JUDGES = {
    "heart": "patients by lot of all four hospitals; nothing was chosen on them",
    "hospitals": "patients of held-out hospitals; two constants of the student were chosen in view of seeds 0 to 4",
    "naturals": "rows of held-out owners; nothing was chosen on them",
    "papers": "patients by lot; constants as of `hospitals`",
    "writers": "images of held-out writers; the student's constants were chosen with test images in view",
}
"""Which rows judge, by study."""
IMAGES = "nothing was chosen on images that judge; intervals are 95 %, over seeds and test images together"


def paper(results: dict[str, Any]) -> None:
    """Print, and keep, the first table of a paper's page: its figures beside ours."""
    shown = exhibits(results)[0].exhibits[0].table
    assert shown is not None
    rows = Rows(shown.columns)
    for line in shown.lines:
        rows.add(str(line.name), *(str(cell.text) or None for cell in line.cells))
    if os.environ.get("RECORD"):
        command = f"consilium run {results['paper']}"
        result = {"values": rows.values, "split": IMAGES, "seeds": results["seeds"], "command": command}
        record(results["paper"], result, results["seconds"])


def main(folders: list[str] | None = None) -> None:
    """Print, and keep, how each study was made and its sentences, or a paper's table."""
    for folder in folders or sorted(Path("runs").glob("study-*")):
        if (Path(folder) / RESULTS).exists():
            paper(json.loads((Path(folder) / RESULTS).read_text(encoding="utf-8")))
            continue
        facts = json.loads((Path(folder) / FACTS_FILE).read_text(encoding="utf-8"))
        words = shlex.split(facts["command"])
        at, name = words.index("--out"), words[2]
        command = shlex.join([*words[:at], *words[at + 2 :]])
        made = f"`{command}`: {many(facts['cells'], 'cell')}, {many(len(facts['seeds']), 'seed')},"
        made += f" {facts['seconds'] / 60:.1f} minutes on {many(facts['workers'], 'core')}."
        values = {"made": made, **{str(place): text for place, text in enumerate(facts["answers"], 1)}}
        print("\n".join(values.values()), flush=True)
        if os.environ.get("RECORD"):
            result = {"values": values, "split": JUDGES[name], "seeds": facts["seeds"], "command": command}
            record(f"study-{name}", result, facts["seconds"])


if __name__ == "__main__":
    main(sys.argv[1:])
