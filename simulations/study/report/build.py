"""The report of a study as one HTML file that needs no network, no scripts and no other file."""

from __future__ import annotations

import os
from pathlib import Path

import polars as pl
from markupsafe import Markup

from consilium.protocol.files import replacing, writing
from consilium.report.exhibits import Exhibit, PagePart, pairs, without_blanks
from consilium.report.page import METHOD, Page, as_html
from consilium.report.words import many
from consilium.simulations.artifact import Arrays
from consilium.simulations.study.report.folder import StudyFolder, StudyNotes, open_folder, read_notes
from consilium.simulations.study.report.methods import contrasts_part, lines_part, methods_part
from consilium.simulations.study.report.parties import division_part, fairness_part
from consilium.simulations.study.report.votes import across_part, influence_part, privacy_part, votes_part
from consilium.simulations.study.summaries.sentences import findings
from consilium.simulations.study.summaries.tidy import MEASURED, axis_names, title
from consilium.simulations.study.summaries.view import Point, StudyView, study_view

_PICTURED = 24
"""Cases whose matrices are looked at, the first seed of each point."""
_SECRET = (
    "Functions of private rows without noise: not for publication unless the data are public. That holds for every"
    " table, picture and download here but those of what a method with a guarantee released."
)
_FINDINGS = (
    "Computed from the table of results by fixed rules; what did not show is told too. Significant: p below 0.05 after"
    " Holm’s correction over the comparisons of one question. Methods are tested against each other where their"
    " guarantees are equal. Costs and gaps are shown with their intervals and not tested."
)


def write_study_report(folder: Path, out: Path) -> None:
    """Draw the report of the study in `folder` (results.parquet, study.json, matrices) into the file `out`.

    A reader sees the old file or the whole new one. It holds functions of private rows without any noise, so that its
    owner alone may read it.

    Raises
    ------
    PathError, StorageError : a file is missing, or `out` cannot be written. DataError : a file is none of a study.
    """
    content = render_study(open_folder(folder), folder.name).encode()
    with writing(out), replacing(out, mode=0o600, part=f".{out.name}.{os.getpid()}.part") as file:
        file.write(content)


def render_study(folder: StudyFolder, name: str) -> str:
    """The report as HTML; `name`: its title where study.json gives none.

    Raises
    ------
    DataError : a column of the results is missing, or a file of matrices is damaged.
    """
    notes = read_notes(folder.notes, name)
    view = study_view(folder.results, notes.order, logarithmic=notes.logarithmic, row_scores=folder.row_scores)
    matrices = _matrices(folder, notes, view)
    parts = (
        _questions(view, notes, _cells(folder.results)),
        methods_part(view),
        lines_part(view),
        contrasts_part(view),
        division_part(view, matrices),
        fairness_part(view),
        votes_part(view, matrices),
        privacy_part(view),
        influence_part(view),
        across_part(view),
        _findings(findings(folder.results, notes.order, folder.row_scores), notes),
        _how(notes),
    )
    data = [Markup("<strong>Data.</strong> {}").format(" ".join(notes.data))] if notes.data else []
    return as_html(
        Page(
            "Consilium · a study",
            notes.title,
            [part for part in parts if part is not None],
            summary=(_summary(view), *([notes.description] if notes.description else [])),
            top=_top(notes),
            footer=(*data, METHOD),
            window=f"{notes.title} – Consilium, a study",
            contents=True,
            badges=False,
        )
    )


def _cells(results: pl.DataFrame) -> int:
    """Points, seeds and methods that have a figure; gains have rows of their own beside those of their method."""
    judged = results.filter(~pl.col("method").is_in(MEASURED))
    return judged.select([*axis_names(results), "seed", "method"]).n_unique()


def _matrices(folder: StudyFolder, notes: StudyNotes, view: StudyView) -> dict[Point, Arrays]:
    """Of the first seed of each point that has any, in the order of the points."""
    first: dict[Point, tuple[int, str]] = {}
    for case, (axes, seed) in notes.cases.items():
        point = tuple(axes.get(axis, "") for axis in view.axes)
        if case in folder.matrices and (point not in first or seed < first[point][0]):
            first[point] = (seed, case)
    points = [point for point in view.points if point in first][:_PICTURED]
    return {point: folder.arrays(first[point][1]) for point in points}


def _summary(view: StudyView) -> str:
    """What was asked, in a sentence."""
    axes = ", ".join(f"{axis} ({len(view.order[axis])} values)" for axis in view.axes if view.axes)
    varied = f" over {axes}" if axes else ""
    return f"{many(len(view.methods), 'method')}{varied}, with {many(len(view.seeds), 'seed')} each."


def _top(notes: StudyNotes) -> tuple[Exhibit, ...]:
    """What has to be known before anything else: who may see it, what failed, what is not there."""
    failed = tuple(f"{place}: {why}" for place, why in notes.failed)
    absent = tuple(f"{title(method)} in {many(count, 'cell')}: {why}" for method, why, count in notes.absent)
    heading = f"{many(len(failed), 'cell')} could not be computed."
    return without_blanks(
        [
            Exhibit("secret", words=(_SECRET,), look="secret"),
            Exhibit("failed", heading, items=failed, look="warn") if failed else None,
            Exhibit("left-out", "Not everybody takes part.", items=tuple(notes.warnings), look="warn")
            if notes.warnings
            else None,
            Exhibit("absent", "Not there", items=absent, look="open") if absent else None,
        ]
    )


def _questions(view: StudyView, notes: StudyNotes, cells: int) -> PagePart:
    failed = f"; {many(len(notes.failed), 'cell')} failed" if notes.failed else ""
    rows = [
        *((axis, "; ".join(view.order[axis])) for axis in view.axes),
        ("seeds", ", ".join(map(str, view.seeds))),
        ("methods", "; ".join(map(title, view.methods))),
        ("cells with results", f"{cells:,}{failed}"),
    ]
    return PagePart("part-questions", "What was asked", (Exhibit("questions", table=pairs(rows)),))


def _findings(sentences: list[str], notes: StudyNotes) -> PagePart:
    nothing = ("The results carry none: there is too little to compare.",)
    exhibits = [
        Exhibit(
            "findings", words=(_FINDINGS, *(nothing if not sentences else ())), items=tuple(sentences), look="numbered"
        )
    ]
    if notes.sentences:
        exhibits.append(Exhibit("author", "In the author’s words", items=tuple(notes.sentences)))
    return PagePart("part-findings", "Findings", tuple(exhibits))


def _how(notes: StudyNotes) -> PagePart:
    cite = Markup(
        "All figures: <code>results.parquet</code>, one row for each. To cite it: <code>consilium study cite</code>"
        " prints versions, seeds and hashes."
    )
    command = Markup("<code>{}</code>").format(notes.command)
    exhibits = [
        Exhibit("command", words=(command,)) if notes.command else None,
        Exhibit("made", table=pairs(list(notes.made))) if notes.made else None,
        Exhibit("cite", words=(cite,), look="small"),
    ]
    return PagePart("part-made", "How it was made", without_blanks(exhibits))
