"""The report of a study as one HTML file that needs no network, no scripts and no other file."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import polars as pl
from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from consilium.protocol.files import replacing, writing
from consilium.simulations.artifact import Arrays
from consilium.simulations.report.wording import many
from consilium.simulations.study.report.exhibits import PictureExhibit, Section
from consilium.simulations.study.report.folder import StudyFolder, open_folder
from consilium.simulations.study.report.sections.across import across_section
from consilium.simulations.study.report.sections.contrasts import contrasts_section
from consilium.simulations.study.report.sections.division import division_section
from consilium.simulations.study.report.sections.fairness import fairness_section
from consilium.simulations.study.report.sections.lines import lines_section
from consilium.simulations.study.report.sections.methods import methods_section
from consilium.simulations.study.report.sections.votes import influence_section, privacy_section, votes_section
from consilium.simulations.study.report.told import Told, read_told
from consilium.simulations.study.summaries.sentences import findings
from consilium.simulations.study.summaries.tidy import MEASURED, axis_names, title
from consilium.simulations.study.summaries.view import Point, StudyView, study_view

TEMPLATE = "study.html.j2"
_PICTURED = 24
"""Cases whose matrices are looked at, the first seed of each point."""


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


def render_study(found: StudyFolder, name: str) -> str:
    """The report as HTML; `name`: its title where study.json gives none.

    Raises
    ------
    DataError : a column of the results is missing, or a file of matrices is damaged.
    """
    told = read_told(found.told, name)
    view = study_view(found.results, told.order, logarithmic=told.logarithmic, row_scores=found.row_scores)
    return page_template().render(
        told=told,
        view=view,
        summary=_summary(view),
        sections=_sections(view, _matrices(found, told, view)),
        findings=findings(found.results, told.order, found.row_scores),
        cells=_cells(found.results),
        is_picture=lambda exhibit: isinstance(exhibit, PictureExhibit),
    )


def _cells(results: pl.DataFrame) -> int:
    """Points, seeds and methods that have a figure; gains have rows of their own beside those of their method."""
    judged = results.filter(~pl.col("method").is_in(MEASURED))
    return judged.select([*axis_names(results), "seed", "method"]).n_unique()


def _sections(view: StudyView, matrices: dict[Point, Arrays]) -> list[Section]:
    found = (
        methods_section(view),
        lines_section(view),
        contrasts_section(view),
        division_section(view, matrices),
        fairness_section(view),
        votes_section(view, matrices),
        privacy_section(view),
        influence_section(view),
        across_section(view),
    )
    return [section for section in found if section is not None]


def _matrices(found: StudyFolder, told: Told, view: StudyView) -> dict[Point, Arrays]:
    """Of the first seed of each point that has any, in the order of the points."""
    first: dict[Point, tuple[int, str]] = {}
    for case, (axes, seed) in told.cases.items():
        at = tuple(axes.get(axis, "") for axis in view.axes)
        if case in found.matrices and (at not in first or seed < first[at][0]):
            first[at] = (seed, case)
    return {at: found.arrays(first[at][1]) for at in [at for at in view.points if at in first][:_PICTURED]}


def _summary(view: StudyView) -> str:
    """What was asked, in a sentence."""
    axes = ", ".join(f"{axis} ({len(view.order[axis])} values)" for axis in view.axes if view.axes)
    varied = f" over {axes}" if axes else ""
    return f"{many(len(view.methods), 'method')}{varied}, with {many(len(view.seeds), 'seed')} each."


@cache
def page_template() -> Template:
    """What the page is drawn with."""
    here = Path(__file__).parent
    environment = Environment(
        loader=FileSystemLoader([here, here.parents[1] / "report"]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(many=many)
    environment.filters.update(title_of=title)
    return environment.get_template(TEMPLATE)
