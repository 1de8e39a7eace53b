"""`consilium data check`: all that the reader finds wrong with a table at once, and the scenario that reads it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from consilium.data.remedy import Faults, TableFault, TableFaults, cured
from consilium.protocol.errors import ConsiliumError, DataError
from consilium.protocol.output import Format, FormatOption, show
from consilium.report.words import many

if TYPE_CHECKING:
    from consilium.simulations.datasets.table import TableSource

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
    label: Annotated[str, typer.Option(metavar="COLUMN", help="What is voted on.")],
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
    Values are quoted: the rows are yours. A party checks its own with `consilium party rows`."""
    from consilium.protocol.errors import OutputExists
    from consilium.protocol.files import replace_text, writing

    if out is not None and out.exists():
        raise OutputExists(f"{out} is already there", "Choose another file")
    named = {"label": label, "owner": owner, "patient": patient, "time": moment}
    checked = check_files(file, {role: name.strip() for role, name in named.items() if name.strip()}, drop or ())
    if out is not None:
        with writing(out):
            replace_text(out, checked.scenario_text(out.parent))
    show(output, checked.to_json(), checked.lines(out))
    if checked.in_file or checked.refused:
        raise typer.Exit(1)


MOST_READINGS = 10  # each reading has the keys that cure what the one before found; the second mostly finds nothing


def check_files(pattern: str, roles: Mapping[str, str], drop: list[str] | tuple[str, ...] = ()) -> CheckedFiles:
    """Read and divide the rows as a run does, again with the keys that cure what was found, until they do no more.
    roles: names of columns, of label, owner, patient, time. drop: columns that are no features. Raises PathError,
    DataError: there is no such file; it is no table, or has no such column."""
    from consilium.data.encoding import infer
    from consilium.protocol.config_files import validate
    from consilium.simulations.datasets.source import open_tables
    from consilium.simulations.population.specs import DataSpec

    data = {"set": "table", "path": pattern, **roles, **({"drop": list(drop)} if drop else {})}
    if "owner" not in roles:
        data |= {"partition": "iid", "parties": 20}
    checked, seen = CheckedFiles(pattern, data), {}
    for _ in range(MOST_READINGS):
        noted, checked.refused = Faults(), "see above"
        with noted.noting():
            checked.source = source = open_tables(validate(checked.data, DataSpec, "the table"), noted)
            infer(source.frame, source.declared, source.places, noted)
            checked.divide(source)
        new = {str(fault): fault for fault in (*noted, *noted.doubts) if str(fault) not in seen}
        for fault in new.values():
            if isinstance(fault, TableFault) and fault.column in roles.values():
                fault.keys.pop("drop", None)  # it is what the others are read for
        seen |= new
        checked.faults += [fault for fault in new.values() if fault not in noted.doubts]
        checked.doubts += [fault for fault in new.values() if fault in noted.doubts]
        if not any(isinstance(fault, TableFault) and fault.keys for fault in new.values()):
            break
        checked.data = cured(checked.data, new.values())
    if checked.source is None and checked.in_file == checked.faults:
        raise noted.error(pattern)
    return checked


_NOTE = """\
# privacy.unit: whose data the promise is about, a record, a patient or a whole party. Yours to choose.
# student.trainer: a model of numbers alone. Others may hold public rows, of patients of yours.
"""
_REAL_NOISE = """\
# Without these two lines the noise follows a seed, so that a run can be repeated: it protects nobody.
# [simulation]
# noise = "system"
"""


@dataclass
class CheckedFiles:
    """A table with what was found. data: `[data]` of the scenario that reads it. source: its rows, where they are read.
    read: what the scenario makes of the rows; refused: why it makes nothing of them. warnings: what a run would say."""

    pattern: str
    data: dict[str, Any]
    source: TableSource | None = field(default=None, repr=False)
    faults: list[DataError] = field(default_factory=list)
    doubts: list[DataError] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    read: dict[str, Any] = field(default_factory=dict)
    refused: str = "see above"

    def divide(self, source: TableSource) -> None:
        """Divide the rows, and make numbers of them. Raises TableFault, TableFaults."""
        from consilium.report.warnings import warnings_of
        from consilium.simulations.population.public import look
        from consilium.simulations.scenario import divided_data, without_mechanism

        scenario = without_mechanism(self.scenario, "the scenario")
        try:
            dataset, partition = divided_data(scenario, 0, replace(source, classes=source.values))
        except (TableFault, TableFaults):
            raise
        except ConsiliumError as error:
            self.refused = str(error)
            return
        self.refused = ""
        self.warnings = [warning["text"] for warning in warnings_of(look(scenario.data, 1, dataset, partition))]
        counts = {"rows": dataset.y, "columns": dataset.columns, "features": dataset.features}
        owners = {"owners": len(dataset.owner_names or ()) or None}
        self.read = {**{name: len(of) for name, of in counts.items()}, **owners, "classes": list(dataset.classes)}

    @property
    def in_file(self) -> list[DataError]:
        """What no key mends."""
        return [fault for fault in self.faults if not (isinstance(fault, TableFault) and fault.keys)]

    @property
    def fine(self) -> list[str]:
        """Features of which there is nothing to say."""
        named = {getattr(fault, "column", "") for fault in (*self.faults, *self.doubts)}
        return [name for name in self.source.frame.columns if name not in named] if self.source else []

    @property
    def scenario(self) -> dict[str, Any]:
        """The tables of the scenario."""
        unit = "patient" if "patient" in self.data else "record"
        classes = {"classes": list(self.source.values)} if self.source else {}
        return {
            "data": {**self.data, **classes},
            "federation": {
                "name": Path(self.pattern).stem.strip("*-_ ") or "own table",
                "minimum_parties": 2,
                "collection": "plaintext",
                "mechanism": {"name": "gnmax"},
                "query_budget": {"queries": 300, "answers": 300},
                "privacy": {"unit": unit, "neighbouring": "add_or_remove", "delta": 1e-5, "epsilon": 2.0},
            },
            "student": {"trainer": {"name": "logistic_regression"}},
        }

    def scenario_text(self, folder: Path = Path()) -> str:
        """The scenario as a file in `folder`, to which its path is relative where it is below it."""
        import tomli_w

        path, base = Path(self.pattern).absolute(), folder.absolute()
        scenario = self.scenario
        scenario["data"]["path"] = str(path.relative_to(base) if path.is_relative_to(base) else path)
        return f"{_NOTE}{tomli_w.dumps(scenario)}\n{_REAL_NOISE}"

    def lines(self, out: Path | None = None) -> Iterator[str]:
        """For people."""
        mended = [fault for fault in self.faults if fault not in self.in_file]
        look_at = [*map(str, self.doubts), *self.warnings]
        for title, faults in (
            ("in the file first", self.in_file), ("the scenario mends it", mended), ("look at it", look_at),
        ):  # fmt: skip
            if faults:
                yield "\n".join([f"{title.upper()} ({len(faults)})", *(f"  {fault}" for fault in faults), ""])
        if self.fine:
            yield f"FINE ({len(self.fine)})\n  {', '.join(self.fine)}\n"
        if self.in_file:
            yield "Mend the file first. Then check it again."
        if self.refused:
            yield f"It cannot be used yet: {self.refused}"
        else:
            of = f" of {many(self.read['owners'], 'owner')}" if self.read["owners"] else ""
            columns, features = many(self.read["columns"], "column"), many(self.read["features"], "feature")
            read = f"The scenario reads {many(self.read['rows'], 'row')}{of}, {columns} as {features}"
            yield f"{read} (as public rows show them), classes {', '.join(self.read['classes'])}."
        first = ", once the file is mended" if self.in_file else ""
        written = f"\nA scenario (--out FILE.toml writes it):\n\n{self.scenario_text().rstrip()}"
        yield written if out is None else f"The scenario is in {out}{first}: consilium run {out}"

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        findings = [
            {"code": code, "fault": fault.what, "action": fault.action}
            | {"column": getattr(fault, "column", ""), "keys": getattr(fault, "keys", {})}
            for code, faults in (("fault", self.faults), ("doubt", self.doubts))
            for fault in faults
        ]
        return {
            "file": self.pattern,
            "must_be_mended": len(self.faults),
            "findings": findings,
            "warnings": self.warnings,
            "fine": self.fine,
            "in_file": [str(fault) for fault in self.in_file],
            "would_read": {"refused": self.refused} if self.refused else self.read,
            "scenario": self.scenario_text(),
        }
