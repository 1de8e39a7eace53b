"""Commands of a party: go through a run without sending anything, and delete teachers."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from consilium.protocol.output import Format, FormatOption, error_table, show, tell_warnings
from consilium.report.warnings import RunWarning, listed

if TYPE_CHECKING:
    from consilium.party.dry_run import DryRun, FederationFile, PartyCheck
    from consilium.party.home import Home, PartyFile
    from consilium.protocol.messages import CollectionMode

app = typer.Typer(
    no_args_is_help=True, help="A data holder: its data, and a run tried locally.", pretty_exceptions_show_locals=False
)

LOCAL_ONLY = "LOCAL ONLY: what follows is computed from private rows and covered by no guarantee. Send it to nobody."
WOULD_SEND: dict[CollectionMode, str] = {
    "plaintext": "each teacher's class for each query",
    "secure": "counts for each query and class under masks, and the keys and shares of the session",
    "verified": "counts for each query and class in two parts: uniform numbers, and a part sealed for another node",
}

HomeArgument = Annotated[Path, typer.Argument(metavar="HOME", help="The party's folder, with party.toml.")]
FederationArgument = Annotated[Path, typer.Argument(metavar="FEDERATION.json", help="The coordinator's file.")]


@app.command("dry-run")
def dry_run_command(
    home: HomeArgument,
    federation: FederationArgument,
    data_only: Annotated[
        bool,
        typer.Option("--data-only", help="Hold the data against the schema: every problem of every column at once."),
    ] = False,
    output: FormatOption = Format.text,
) -> None:
    """Train the teachers and vote on made-up rows, on this machine only: nothing is sent, spent or kept."""
    from consilium.party.dry_run import check, dry_run, load_federation, usable
    from consilium.party.home import open_home
    from consilium.protocol.errors import ConsiliumError

    opened, asked = open_home(home), load_federation(federation)
    rows, findings = check(opened, asked)
    lines, table = _lines(findings, opened.file), _table(findings, opened.file)
    try:
        fitting = usable(rows, findings)
    except ConsiliumError as error:
        if output is Format.text:
            print("\n".join(lines))
            raise
        show(output, {"error": error_table(error), **table}, ())
        raise typer.Exit(error.exit_code) from None
    lines.append(f"The data fit federation {asked.name!r}.")
    if not data_only:
        run_lines, run_table = _of_run(dry_run(fitting, opened, asked), opened, asked)
        lines, table = [*lines, *run_lines], {**table, **run_table}
    warnings = listed(_warnings(opened))
    show(output, {**table, "federation": asked.name, "warnings": warnings}, lines)
    tell_warnings(warnings, output)


@app.command("forget")
def forget_command(home: HomeArgument, output: FormatOption = Format.text) -> None:
    """Delete all teachers. What the party has given stays written down: a coordinator that comes again has it train."""
    from consilium.party.home import open_home

    with closing(open_home(home).remembered()) as store:
        count = store.forget_teachers()
    show(output, {"deleted": count}, [f"teachers of {count} federation{'' if count == 1 else 's'} deleted"])


def _of_run(result: DryRun, home: Home, federation: FederationFile) -> tuple[list[str], dict[str, Any]]:
    """What a run came to, for people and for a program."""
    queries, count = len(result.reply.choices), federation.teachers_per_party
    own = home.file.teacher is not None
    kind, sent = (home.file.teacher or federation.teacher).title, WOULD_SEND[federation.collection]
    table: dict[str, Any] = {
        "queries": queries,
        "teachers": {"count": count, "kind": kind, "own": own},
        "seconds": {"train": result.train_seconds, "vote": result.vote_seconds},
        "would_send": sent,
        "same_votes_on_every_query": result.constant,
    }
    lines = [
        f"queries    {queries} made up from the schema",
        f"teachers   {count} x {kind}{' (your own [teacher])' if own else ''}",
        f"seconds    train {result.train_seconds:.2f}, vote {result.vote_seconds:.2f}",
        f"would send to the coordinator: name and number of teachers, and as votes {sent}",
    ]
    if result.constant:
        lines.append("NOTE: every query got the same votes: the teachers may have learnt nothing, or of hardly any row")
    if result.own_code is not None:
        table["own_code"] = result.own_code._asdict()
        lines += [f"NOTE: {line}" for line in result.own_code.lines(count)]
    lines.append("Nothing was sent, spent or kept. Epsilon is checked when the coordinator asks, with its terms.")
    return lines, table


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
