"""The tables of `results.md` and `papers.md` in docs/laboratory/ that stand on studies, from their folders.

    consilium study hospitals
    python -m benchmarks.study_tables runs/study-hospitals

Which tables, the study's name says. Means over seeds ± half of the 95 % interval over seeds and test rows together;
differences with their interval, and a star where p, corrected for the comparisons of the question (Holm), is below .05.
Only what guarantees the same is tested (`summaries.questions`).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.study_tables.cells import StudyTables
from benchmarks.study_tables.pages import TABLES
from consilium.simulations.study.results import open_study
from consilium.simulations.study.summaries.view import study_view


def read_study(folder: Path) -> StudyTables:
    """A folder of results.

    Raises
    ------
    PathError, DataError : it is none.
    """
    files = open_study(folder)
    view = study_view(files.results, files.order, logarithmic=files.logarithmic, row_scores=files.row_scores)
    name = str(files.facts.get("name") or folder.name)
    asked = f"benchmarks/studies/{name}.toml" if name in ("stroke_skew", "teachers") else name
    data = " --set data.path=FOLDER" if name in ("skew", "teachers", "writers") else ""
    return StudyTables(name, view, f"consilium study {asked}{data}", float(files.facts["seconds"]["computing"]))


def main(arguments: Sequence[str] = ()) -> None:
    """Print the tables of the folders that are named."""
    if not arguments:
        print("needs folders of studies: python -m benchmarks.study_tables runs/study-hospitals")
    for folder in arguments:
        study = read_study(Path(folder))
        if study.name not in TABLES:
            sys.exit(f"{folder}: no page has tables of the study {study.name}; those of {', '.join(TABLES)} have")
        TABLES[study.name](study)
