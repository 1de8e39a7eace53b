"""`consilium data check`: all that is wrong with a table at once, and the scenario that reads it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from consilium.protocol.errors import ConsiliumError, DataError
from consilium.protocol.output import Format, FormatOption, show
from consilium.report.words import many

if TYPE_CHECKING:
    from consilium.data.check import Roles
    from consilium.data.loose import LooseTable
    from consilium.data.remedy import TableCheck

app = typer.Typer(
    no_args_is_help=True, help="Rows of your own: what is wrong with them.", pretty_exceptions_show_locals=False
)


@app.callback()
def _group() -> None:
    """Rows of your own: what is wrong with them."""


@app.command("check")
def check_command(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help='CSV or Parquet, or several by a pattern ("2024-*.csv").')
    ],
    label: Annotated[str, typer.Option(metavar="COLUMN", help="What is voted on.")] = "",
    owner: Annotated[str, typer.Option(metavar="COLUMN", help="Hospital, site or school: whose a row is.")] = "",
    patient: Annotated[str, typer.Option(metavar="COLUMN", help="Of which patient a row is.")] = "",
    moment: Annotated[str, typer.Option("--time", metavar="COLUMN", help="When a row was.")] = "",
    drop: Annotated[list[str] | None, typer.Option(metavar="COLUMN", help="No feature; repeat.")] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE.toml", help="New file for the scenario; else it is printed.")
    ] = None,
    output: FormatOption = Format.text,
) -> None:
    """Say all that is wrong with a table at once, and write the scenario that reads it. Exit code 1: mend the file.

    Values are quoted: the rows are yours. A party checks its own with `consilium party dry-run --data-only`.
    """
    from consilium.data.check import Roles
    from consilium.protocol.errors import OutputExists
    from consilium.protocol.files import replace_text, writing

    if out is not None and out.exists():
        raise OutputExists(f"{out} is already there", "Choose another file")
    roles = Roles(label.strip(), owner.strip(), patient.strip(), moment.strip(), tuple(drop or ()))
    checked = check_files(file, roles)
    if out is not None and checked.scenario:
        with writing(out):
            replace_text(out, checked.scenario_text(out.parent))
    show(output, checked.to_json(), checked.lines(out))
    if checked.in_file or (checked.scenario and "refused" in checked.outcome):
        raise typer.Exit(1)


def check_files(pattern: str, roles: Roles) -> CheckedFiles:
    """All of it.

    Raises
    ------
    PathError : there is no such file. DataError : it is empty, binary or has no such column.
    """
    from consilium.data.check import check_table
    from consilium.data.files import files_of
    from consilium.data.loose import heading_below, read_loosely
    from consilium.data.remedy import Grade
    from consilium.simulations.datasets.table import meant

    paths = files_of(pattern, Path())
    names = {*roles.named.values()}
    if names and (line := heading_below(paths[0], names)):
        what = f"{paths[0]}: the heading is line {line}, and other lines stand before it"
        raise DataError(what, f"Remove lines 1 to {line - 1}")
    table = read_loosely(paths)
    for role, name in (*roles.named.items(), *(("drop", name) for name in roles.drop)):
        if name not in table.frame.columns:
            raise DataError(f"{pattern} has no column {name!r}, which --{role} names", meant(name, table.frame.columns))
    check = check_table(table.frame, table.lines, roles)
    findings = [*table.findings, *check.findings]
    findings.sort(key=lambda finding: list(Grade).index(finding.grade))
    return CheckedFiles(pattern, roles, table, replace(check, findings=tuple(findings)))


_TRAINER = "logistic_regression"
"""Its file holds no rows, as that of `graph` does."""
_REAL_NOISE = """\
# Without these two lines the noise follows a seed, so that a run can be repeated: it protects nobody.
# [simulation]
# noise = "system"
"""
_NOTE = """\
# privacy.unit: whose data the promise is about, a record, a patient or a whole party. Yours to choose.
# student.trainer: a model of numbers alone. Others may hold public rows, of patients of yours.
"""
_IN_FILE = {
    "lines-torn": "mend the torn lines", "lines-header": "leave out repeated headers",
    "name-twice": "rename columns that have one name", "name-broken": "rename columns with line breaks in their names",
    "files-differ": "export all files in one way",
}  # fmt: skip
"""What no key mends, by the finding's code."""


@dataclass(frozen=True)
class CheckedFiles:
    """A table with what was seen of it. scenario: the tables of one that reads it; empty where no label is named.

    outcome: what the scenario makes of the rows, rows, owners, features, classes; or why it is refused.
    """

    pattern: str
    roles: Roles
    table: LooseTable = field(repr=False)
    check: TableCheck = field(repr=False)

    @property
    def in_file(self) -> list[str]:
        """What no key mends."""
        codes = dict.fromkeys(finding.code for finding in self.check.findings)
        return [*(_IN_FILE[code] for code in codes if code in _IN_FILE), *dict.fromkeys(self.check.remedy.in_file)]

    @cached_property
    def scenario(self) -> dict[str, Any]:
        remedy, roles = self.check.remedy, self.roles
        if not roles.label:
            return {}
        data = {
            "set": "table", "path": str(self.pattern), **roles.named, "classes": list(remedy.classes),
            "unlabelled": "drop" if remedy.unlabelled else "", "duplicates": "drop" if remedy.duplicates else "",
            "drop": [*roles.drop, *remedy.drop], "missing": remedy.missing,
            "csv": self.table.csv,
            "cells": remedy.cells, "columns": remedy.columns,
            **({} if roles.owner else {"partition": "iid", "parties": 20}),
        }  # fmt: skip
        unit = "patient" if roles.patient else "record"
        return {
            "data": {key: value for key, value in data.items() if value},
            "federation": {
                "name": Path(self.pattern).stem.strip("*-_ ") or "own table",
                "minimum_parties": 2,
                "collection": "plaintext",
                "mechanism": {"name": "gnmax"},
                "query_budget": {"queries": 300, "answers": 300},
                "privacy": {"unit": unit, "neighbouring": "add_or_remove", "delta": 1e-5, "epsilon": 2.0},
            },
            "student": {"trainer": {"name": _TRAINER}},
        }

    @cached_property
    def outcome(self) -> dict[str, Any]:
        import numpy as np

        from consilium.protocol.config_files import validate
        from consilium.simulations.datasets.own import frame_read
        from consilium.simulations.datasets.roles import Piece
        from consilium.simulations.datasets.table import TableSource
        from consilium.simulations.population.specs import DataSpec

        if not self.scenario:
            return {"refused": "no label is named. Name it with --label COLUMN"}
        try:
            spec = validate(self.scenario["data"], DataSpec, "the scenario")
            frame = frame_read(self.table.frame, self.table.lines, spec)
            mask = np.ones(frame.height, dtype=bool)
            for name in filter(None, (self.roles.owner, self.roles.patient)):
                mask &= frame[name].is_not_null().to_numpy()
            source = TableSource.of_pieces([Piece(frame.filter(mask), self.table.lines.left(mask))], spec)
            dataset = source.dataset(np.arange(len(source.y)))
        except ConsiliumError as error:
            return {"refused": str(error)}
        return {
            "rows": len(source.y), "of": self.check.rows,
            "owners": len(np.unique(source.owner)) if self.roles.owner else None,
            "columns": len(dataset.columns), "features": len(dataset.features), "classes": list(dataset.classes),
        }  # fmt: skip

    def scenario_text(self, folder: Path = Path()) -> str:
        """The scenario as a file in `folder`, to which its path is relative where it is below it."""
        import tomli_w

        path, base = Path(self.pattern).absolute(), folder.absolute()
        data = self.scenario["data"] | {"path": str(path.relative_to(base) if path.is_relative_to(base) else path)}
        return f"{_NOTE}{tomli_w.dumps(self.scenario | {'data': data})}\n{_REAL_NOISE}"

    def council_text(self) -> str:
        """The same in Python."""
        remedy, label, data = self.check.remedy, self.roles.label, self.scenario["data"]
        options = "".join(f", {key}={value!r}" for key, value in self.table.csv.items())
        parquet = self.pattern.lower().endswith(".parquet")
        reader = (
            f"read_parquet({self.pattern!r})" if parquet else f"read_csv({self.pattern!r}, infer_schema=False{options})"
        )
        lines = [f"import polars as pl\nfrom consilium import Council\n\nframe = pl.{reader}"]
        if remedy.duplicates:
            lines.append("frame = frame.unique(maintain_order=True)")
        if remedy.unlabelled:
            absent = f" & ~pl.col({label!r}).str.strip_chars().is_in({['', *remedy.missing]!r})"
            lines.append(f"frame = frame.filter(pl.col({label!r}).is_not_null(){absent})")
        if dropped := [*data.get("drop", ()), *filter(None, [self.roles.time])]:
            lines.append(f"frame = frame.drop({dropped!r})")
        privacy = self.scenario["federation"]["privacy"]
        parameters = {key: privacy[key] for key in ("epsilon", "delta", "unit", "neighbouring")} | {"student": _TRAINER}
        keys = ("parties", "classes", "missing", "cells", "columns")
        parameters |= {key: data[key] for key in keys if key in data}
        text = "".join(f"\n    {key}={value!r}," for key, value in parameters.items())
        others = "".join(
            f", {role}s={name!r}" for role, name in self.roles.named.items() if role in ("owner", "patient")
        )
        return "\n".join([*lines, f"council = Council({text}\n)", f"council.fit(frame, {label!r}{others})"])

    def lines(self, out: Path | None = None) -> Iterator[str]:
        """For people."""
        from consilium.data.remedy import Grade

        check, result = self.check, self.outcome
        owners = "" if check.owners is None else f", {many(check.owners.n_unique(), 'owner')}"
        yield f"{self.pattern}: {many(check.rows, 'row')}, {many(self.table.frame.width, 'column')}{owners}"
        for grade in Grade:
            some = [f"  {finding}" for finding in check.findings if finding.grade is grade]
            if some:
                yield "\n".join([f"\n{grade.value.upper()} ({len(some)})", *some])
        if check.plain:
            yield f"\nFINE ({len(check.plain)})\n  {', '.join(check.plain)}"
        yield ""
        if self.in_file:
            yield f"In the file first: {'; '.join(self.in_file)}. Then check it again."
        if "refused" in result:
            yield f"It cannot be used yet: {result['refused']}"
        else:
            of = f" of {many(result['owners'], 'owner')}" if result["owners"] else ""
            columns, features = many(result["columns"], "column"), many(result["features"], "feature")
            read = f"The scenario reads {result['rows']} of {result['of']} rows{of}, {columns} as {features}"
            yield f"{read} (as public rows show them), classes {', '.join(result['classes'])}."
        if self.scenario:
            first = ", once the file is mended" if self.in_file else ""
            written = f"\nA scenario (--out FILE.toml writes it):\n\n{self.scenario_text().rstrip()}"
            yield written if out is None else f"The scenario is in {out}{first}: consilium run {out}"
            yield f"\nOr in Python:\n\n{self.council_text()}"

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "file": self.pattern,
            "rows": self.check.rows,
            "columns": self.table.frame.width,
            "must_be_mended": len(self.check.to_mend),
            "findings": [finding.to_json() for finding in self.check.findings],
            "fine": list(self.check.plain),
            "in_file": self.in_file,
            "would_read": self.outcome,
            "scenario": self.scenario_text() if self.scenario else None,
            "python": self.council_text() if self.scenario else None,
        }
