"""The report of a study as one HTML file that needs no network, no scripts and no other file."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
from markupsafe import Markup

from consilium.protocol.files import replacing, writing
from consilium.report.exhibits import Exhibit, PagePart, pairs, without_blanks
from consilium.report.page import METHOD, Page, as_html
from consilium.report.words import many
from consilium.simulations.study.cells import called
from consilium.simulations.study.report.measured import (
    division_part,
    fairness_part,
    influence_part,
    privacy_part,
    votes_part,
)
from consilium.simulations.study.report.methods import contrasts_part, lines_part, methods_part, methods_picture
from consilium.simulations.study.report.parts import as_part
from consilium.simulations.study.results import StudyFiles, open_study
from consilium.simulations.study.summaries.sentences import answers_of
from consilium.simulations.study.summaries.tidy import MEASURED, axis_names, title
from consilium.simulations.study.summaries.view import StudyView, study_view

_SECRET = (
    "Functions of private rows without noise: not for publication unless the data are public. That holds for every"
    " table, picture and download here but those of what a method with a guarantee released."
)
_IN_SHORT = (
    "Computed from the table of results by fixed rules. Significant: p below 0.05 after Holm’s correction over the"
    " comparisons of one question. Methods are tested against each other where their guarantees are equal."
)


def write_study_report(folder: Path, out: Path) -> list[str]:
    """Draw the report of the study in `folder` (results.parquet, study.json) into the file `out`; the
    sentences that it begins with.

    A reader sees the old file or the whole new one. It holds functions of private rows without any noise, so that its
    owner alone may read it.

    Raises
    ------
    PathError, StorageError : a file is missing, or `out` cannot be written. DataError : a file is none of a study.
    """
    files = open_study(folder)
    view = _view(files)
    content = _rendered(files, view).encode()
    with writing(out), replacing(out, mode=0o600, part=f".{out.name}.{os.getpid()}.part") as file:
        file.write(content)
    return answers_of(view)


def _view(files: StudyFiles) -> StudyView:
    return study_view(files.results, files.order, logarithmic=files.logarithmic, row_scores=files.row_scores)


def _rendered(files: StudyFiles, view: StudyView) -> str:
    facts = files.facts
    parts = (
        _answers(view),
        _questions(view, facts, _cells(files.results)),
        methods_part(view),
        lines_part(view),
        contrasts_part(view),
        division_part(view),
        fairness_part(view),
        votes_part(view),
        privacy_part(view),
        influence_part(view),
        _author(facts),
        _how(facts),
    )
    heading, description = facts["title"], facts["description"]
    owners = [entry["attribution"] for entry in facts["data"] if entry["attribution"]]
    data = [Markup("<strong>Data.</strong> {}").format(" ".join(owners))] if owners else []
    return as_html(
        Page(
            "Consilium · a study",
            heading,
            [part for part in parts if part is not None],
            summary=(_summary(view), *([description] if description else [])),
            top=_top(facts),
            footer=(*data, METHOD),
            window=f"{heading} – Consilium, a study",
            contents=True,
            badges=False,
        )
    )


def _cells(results: pl.DataFrame) -> int:
    """Points, seeds and methods that have a figure; gains have rows of their own beside those of their method."""
    judged = results.filter(~pl.col("method").is_in(MEASURED))
    return judged.select([*axis_names(results), "seed", "method"]).n_unique()


def _summary(view: StudyView) -> str:
    """What was asked, in a sentence."""
    axes = ", ".join(f"{axis} ({len(view.order[axis])} values)" for axis in view.axes if view.axes)
    varied = f" over {axes}" if axes else ""
    return f"{many(len(view.methods), 'method')}{varied}, with {many(len(view.seeds), 'seed')} each."


def _top(facts: Mapping[str, Any]) -> tuple[Exhibit, ...]:
    """What has to be known before anything else: who may see it, what failed, what is not there."""
    failed = tuple(f"{_place(entry)}: {entry['why']}" for entry in facts["failed"])
    counts = Counter((entry["method"], entry["why"]) for entry in facts["absent"])
    absent = tuple(f"{title(method)} in {many(count, 'cell')}: {why}" for (method, why), count in counts.items())
    warnings = tuple(entry["text"] for entry in facts["warnings"])
    heading = f"{many(len(failed), 'cell')} could not be computed."
    return without_blanks(
        [
            Exhibit("secret", words=(_SECRET,), look="secret"),
            Exhibit("failed", heading, items=failed, look="warn") if failed else None,
            Exhibit("left-out", "Not everybody takes part.", items=warnings, look="warn") if warnings else None,
            Exhibit("absent", "Not there", items=absent, look="open") if absent else None,
        ]
    )


def _place(entry: Mapping[str, Any]) -> str:
    return ", ".join(filter(None, [called(entry["axes"]), f"seed {entry['seed']}", entry["method"]]))


def _answers(view: StudyView) -> PagePart | None:
    """What the numbers carry, and one picture."""
    sentences = answers_of(view)
    first = [Exhibit("answers", items=tuple(sentences), look="numbered")] if sentences else []
    return as_part("answers", "In short", [*first, *methods_picture(view)], *([_IN_SHORT] if first else []))


def _questions(view: StudyView, facts: Mapping[str, Any], cells: int) -> PagePart:
    count = len(facts["failed"])
    failed = f"; {many(count, 'cell')} failed" if count else ""
    rows = [
        *((axis, "; ".join(view.order[axis])) for axis in view.axes),
        ("seeds", ", ".join(map(str, view.seeds))),
        ("methods", "; ".join(map(title, view.methods))),
        ("cells with results", f"{cells:,}{failed}"),
    ]
    return PagePart("part-questions", "What was asked", (Exhibit("questions", table=pairs(rows)),))


def _author(facts: Mapping[str, Any]) -> PagePart | None:
    words = tuple(facts["findings"])
    return as_part("author", "In the author’s words", [Exhibit("author", items=words)] if words else [])


def _how(facts: Mapping[str, Any]) -> PagePart:
    command = Markup("<code>{}</code>").format(facts["command"])
    exhibits = [
        Exhibit("command", words=(command,)) if facts["command"] else None,
        Exhibit("made", table=pairs(_origin(facts))),
        Exhibit("files", words=("All figures: results.parquet, one row for each.",), look="small"),
    ]
    return PagePart("part-made", "How it was made", without_blanks(exhibits))


def _origin(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Name and text of what there is of it."""
    rows: dict[str, Any] = {
        "study": facts["spec_digest"],
        "results of": facts["created"],
        "cells": facts["cells"],
        "cells computed before": facts["found"],
        "seconds": facts["seconds"],
        "processes": facts["workers"],
        "held out at home": facts["home_share"],
        "measures": ", ".join(facts["measures"]),
    }
    rows |= {f"rows of {entry['set']} (SHA-256)": entry["sha256"] for entry in facts["data"]}
    rows |= facts["versions"]
    return [(key, f"{value:,}" if isinstance(value, int) else str(value)) for key, value in rows.items() if value]
