"""Commands of a party: go through a run without sending anything."""

from __future__ import annotations

import time
import zipfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from consilium.protocol.output import Format, FormatOption, error_table, show, tell_warnings
from consilium.report.warnings import RunWarning, listed

if TYPE_CHECKING:
    import numpy as np

    from consilium.data.private_rows import Rows
    from consilium.party.dry_run import FederationFile, PartyCheck
    from consilium.party.home import Home, PartyFile
    from consilium.protocol.schema import Schema

app = typer.Typer(
    no_args_is_help=True, help="A data holder: its data, and a run tried locally.", pretty_exceptions_show_locals=False
)

LOCAL_ONLY = "LOCAL ONLY: what follows is computed from private rows and covered by no guarantee. Send it to nobody."

HomeArgument = Annotated[Path, typer.Argument(metavar="HOME", help="The party's folder, with party.toml.")]
FederationArgument = Annotated[Path, typer.Argument(metavar="FEDERATION.json", help="The coordinator's file.")]


@app.command("dry-run")
def dry_run_command(
    home: HomeArgument,
    federation: FederationArgument,
    queries: Annotated[
        Path | None, typer.Option(help="The student's rows: .npz, .csv or .parquet; else rows are made up.")
    ] = None,
    data_only: Annotated[
        bool,
        typer.Option("--data-only", help="Hold the data against the schema: every problem of every column at once."),
    ] = False,
    output: FormatOption = Format.text,
) -> None:
    """Train the teachers and vote, on this machine only: nothing is sent, nothing is spent, nothing is kept."""
    from consilium.party.dry_run import check, dry_run, load_federation
    from consilium.party.home import open_home

    opened = open_home(home)
    settings, terms = opened.file, load_federation(federation)
    if data_only:
        return _check_data(opened, terms, output)
    public_rows = None if queries is None else _read_queries(queries, terms.rows)
    start = time.perf_counter()
    rows, findings = check(opened, terms)
    read_seconds = time.perf_counter() - start
    fitting = _usable(rows, findings, settings, output)
    if output is Format.text:
        print("\n".join(_lines(findings, settings)), flush=True)  # training may take long
    result = dry_run(fitting, opened, terms, public_rows)
    choices = result.reply.choices
    count, classes = len(choices), len(terms.rows.classes)
    kind = (settings.teacher or terms.teacher).title
    if output is Format.json:
        table = {
            "federation": terms.name,
            "queries": {"count": count, "made_up": queries is None},
            "teachers": {"count": terms.teachers_per_party, "kind": kind, "own": settings.teacher is not None},
            "seconds": {"read": read_seconds, "train": result.train_seconds, "vote": result.vote_seconds},
            "would_send": {"collection": terms.collection, **_form(choices, terms.collection == "plaintext", classes)},
            "same_votes_on_every_query": result.constant,
        }
        if result.own_code is not None:
            table["own_code"] = result.own_code._asdict()
        show(output, {**_table(findings, settings), **table}, ())
        return
    print(f"queries    {count} {'made up from the schema' if queries is None else f'of {queries}'}")
    whose = " (your own [teacher])" if settings.teacher else ""
    print(f"teachers   {terms.teachers_per_party} x {kind}{whose}")
    print(f"seconds    read {read_seconds:.2f}, train {result.train_seconds:.2f}, vote {result.vote_seconds:.2f}")
    print("would send to the coordinator")
    print("  hello    name, number of teachers")
    print("  train    name and number of teachers")
    print(f"  vote     {_WOULD_SEND[terms.collection](choices, count, classes, terms.teachers_per_party)}")
    if result.constant:
        print(
            "NOTE: every query got the same votes: the teachers may have learnt nothing, or hardly any row of a class."
        )
    for line in result.own_code.lines(terms.teachers_per_party) if result.own_code else ():
        print(f"NOTE: {line}")
    print("Nothing was sent, spent or kept. Epsilon is checked when the coordinator asks, with its terms.")


@app.command("forget")
def forget_command(home: HomeArgument) -> None:
    """Delete all teachers. What the party has given stays written down: a coordinator that comes again has it train."""
    from consilium.party.home import open_home

    with closing(open_home(home).remembered()) as store:
        print(f"{store.forget_teachers()} sets of teachers deleted")


def _check_data(home: Home, terms: FederationFile, output: Format) -> None:
    """Every problem of the data, by the federation's schema. Trains nothing."""
    from consilium.party.dry_run import check

    (rows, report), settings = check(home, terms), home.file
    _usable(rows, report, settings, output)
    lines = [*_lines(report, settings), f"The data fit federation {terms.name!r}."]
    warnings = listed(_warnings(home))
    values = {"federation": terms.name, "warnings": warnings}
    show(output, {**_table(report, settings), **values}, lines)
    tell_warnings(warnings, output)


def _form(choices: np.ndarray, clear: bool, classes: int) -> dict[str, Any]:
    """Shape and type of what would travel: choices, or a matrix under masks."""
    shape, dtype = (choices.shape, choices.dtype.name) if clear else ((len(choices), classes), "uint16")
    return {"shape": list(shape), "dtype": dtype}


def _warnings(home: Home) -> list[RunWarning]:
    """What the terms that the party pins promise; none where it pins none, or has accepted nothing yet. Raises
    ConfigError."""
    from consilium.party.expectation import party_warnings
    from consilium.protocol.refusals import Refused

    pinned = None if home.file.policy is None else home.pinned_terms()
    try:
        return [] if pinned is None else party_warnings(pinned, home.policy)
    except Refused:
        return []  # why the terms are refused is said by doctor, and by the party itself when it is asked


def _lines(findings: PartyCheck, settings: PartyFile) -> list[str]:
    """What was found, for the party's own eyes."""
    report = findings.report
    used = "" if report.problems else f", {report.used} used, {report.rows - report.used} dropped"
    lines = [LOCAL_ONLY, f"data       {settings.data}: {report.rows} rows{used}"]
    if report.filled:
        keeps_missing = settings.teacher is not None and settings.teacher.keeps_missing
        heading = "missing    " if keeps_missing else "mean for   "
        lines.append(heading + ", ".join(f"{name} {count}" for name, count in report.filled.items()))
    if report.classes:
        lines.append("classes    " + ", ".join(f"{name} {count}" for name, count in report.classes.items()))
    if findings.unused:
        lines.append(f"not asked  {', '.join(findings.unused)}: in [columns], no feature of this federation")
    lines += [f"DOUBT      {line}" for line in report.remarks]
    return [*lines, *(f"PROBLEM    {line}" for line in (*findings.faults, *findings.refusals))]


def _table(findings: PartyCheck, settings: PartyFile) -> dict[str, Any]:
    """The same for a program of the party's own."""
    report = findings.report
    return {
        "local_only": LOCAL_ONLY,
        "data": {
            "file": settings.data,
            "rows": report.rows,
            "used": None if report.problems else report.used,
            "filled": dict(report.filled),
            "classes": dict(report.classes),
        },
        "not_asked": list(findings.unused),
        "doubts": [str(line) for line in report.remarks],
        "problems": [str(line) for line in (*findings.faults, *findings.refusals)],
    }


def _usable(rows: Rows | None, findings: PartyCheck, settings: PartyFile, output: Format) -> Rows:
    """The rows; or the end of the command, with all that was found and the error that it amounts to."""
    from consilium.party.dry_run import usable
    from consilium.protocol.errors import ConsiliumError

    try:
        return usable(rows, findings)
    except ConsiliumError as error:
        if output is Format.text:
            print("\n".join(_lines(findings, settings)))
            raise
        show(output, {"error": error_table(error), **_table(findings, settings)}, ())
        raise typer.Exit(error.exit_code) from None


def _read_queries(path: Path, schema: Schema) -> np.ndarray:
    import numpy as np

    from consilium.data.files import CsvRule, in_file
    from consilium.data.schema_rows import Reading, read_schema_rows
    from consilium.protocol.errors import DataError
    from consilium.protocol.files import unreadable
    from consilium.protocol.queries import canonical_queries

    if path.suffix.lower() in (".csv", ".parquet"):
        how = Reading(CsvRule(), in_file("csv"), "the federation's", public=True)
        return canonical_queries(read_schema_rows(path, schema, how).x, len(schema.features))
    action = "Give an .npz with `features` and `queries`, or a .csv or .parquet"
    try:
        with np.load(path, allow_pickle=False) as file:
            names, rows = [str(name) for name in file["features"]], file["queries"]
    except FileNotFoundError as error:
        raise unreadable(path, error, action) from None
    except (OSError, KeyError, ValueError, TypeError, AttributeError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(f"cannot read queries {path}: {type(error).__name__}", action) from None
    if rows.ndim != 2 or rows.shape[1] != len(names):
        raise DataError(f"queries {path} have shape {rows.shape} for {len(names)} features", action)
    if tuple(names) != schema.features:
        raise DataError(f"the features of {path} are not the federation's, in its order", "Ask for its public rows")
    return canonical_queries(rows, len(names))


def _clear(choices: Any, count: int, classes: int, teachers: int) -> str:
    return f"{choices.dtype} {choices.shape}, {choices.nbytes} bytes: each teacher's class for each query"


def _masked(choices: Any, count: int, classes: int, teachers: int) -> str:
    most = 4 * count * classes
    return f"({count}, {classes}) under masks, at most {most} bytes, and the keys and shares of the session"


def _in_parts(choices: Any, count: int, classes: int, teachers: int) -> str:
    from consilium.sums.aggregators.proof import VoteGrid
    from consilium.sums.aggregators.uploads import upload_bytes
    from consilium.sums.field import FIELD_16, FIELD_21

    usual, larger = (upload_bytes(VoteGrid(count, classes, teachers, numbers)) for numbers in (FIELD_16, FIELD_21))
    size = f"{usual} bytes ({larger} where counts reach beyond {FIELD_16.most_reach})"
    return f"({count}, {classes}) in two parts, {size}: uniform numbers, and a part sealed for another node"


_WOULD_SEND = {"plaintext": _clear, "secure": _masked, "verified": _in_parts}
