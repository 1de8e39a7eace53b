"""Commands of a party: go through a run without sending anything, and delete teachers."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from consilium.protocol.output import Format, FormatOption, show, tell_warnings

if TYPE_CHECKING:
    from consilium.party.dry_run import DryRun
    from consilium.party.home import PartyHome
    from consilium.protocol.messages import CollectionMode

app = typer.Typer(
    no_args_is_help=True, help="A data holder: its data, and a run tried locally.", pretty_exceptions_show_locals=False
)

WOULD_SEND: dict[CollectionMode, str] = {
    "plaintext": "each teacher's class for each query",
    "secure": "counts for each query and class under masks, and the keys and shares of the session",
    "verified": "counts for each query and class in two parts: uniform numbers, and a part sealed for another node",
}

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The party's folder.")]


@app.command("dry-run")
def dry_run_command(
    folder: Folder,
    data_only: Annotated[
        bool,
        typer.Option("--data-only", help="Hold the data against the schema: every problem of every column at once."),
    ] = False,
    output: FormatOption = Format.text,
) -> None:
    """Train the teachers and vote on made-up rows, on this machine only: nothing is sent, spent or kept."""
    from consilium.node.kinds import NodeOutcome
    from consilium.party.dry_run import check, dry_run
    from consilium.party.home import open_home
    from consilium.protocol.errors import ConsiliumError

    home = open_home(folder)
    found = check(home)
    lines, values, name = found.lines, found.table, home.federation.config.name
    try:
        rows = found.usable()
    except ConsiliumError as error:
        return NodeOutcome(values, lines, error).show(output)
    lines.append(f"The data fit federation {name!r}.")
    if not data_only:
        run_lines, run_values = _of_run(dry_run(rows, home), home)
        lines, values = [*lines, *run_lines], {**values, **run_values}
    warnings = home.warnings()
    show(output, {**values, "federation": name, "warnings": warnings}, lines)
    tell_warnings(warnings, output)


@app.command("forget")
def forget_command(folder: Folder, output: FormatOption = Format.text) -> None:
    """Delete all teachers. What the party has given stays written down: a coordinator that comes again has it train."""
    from consilium.party.home import open_home

    with closing(open_home(folder).remembered()) as store:
        count = store.forget_teachers()
    show(output, {"deleted": count}, [f"teachers of {count} federation{'' if count == 1 else 's'} deleted"])


def _of_run(result: DryRun, home: PartyHome) -> tuple[list[str], dict[str, Any]]:
    """What a run came to, for people and for a program."""
    config, own = home.federation.config, home.file.teacher
    queries, count = len(result.choices), config.teachers_per_party
    constant = bool((result.choices == result.choices[0]).all())
    kind, sent = (own or config.teacher).title, WOULD_SEND[home.terms.collection]
    lines = [
        f"queries    {queries} made up from the schema",
        f"teachers   {count} x {kind}{' (your own [teacher])' if own else ''}",
        f"would send to the coordinator: name and number of teachers, and as votes {sent}",
    ]
    if constant:
        lines.append("NOTE: every query got the same votes: the teachers may have learnt nothing, or of hardly any row")
    if result.not_fitted:
        lines.append(
            f"NOTE: your estimator could not be fitted to {result.not_fitted} of {count} shards (too few rows of a"
            " class, say): these teachers always say their most frequent class."
        )
    lines.append("Nothing was sent, spent or kept. Epsilon is checked when the coordinator asks, with its terms.")
    return lines, {
        "queries": queries,
        "teachers": {"count": count, "kind": kind, "own": own is not None, "not_fitted": result.not_fitted},
        "would_send": sent,
        "same_votes_on_every_query": constant,
    }
