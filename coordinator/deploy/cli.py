"""`consilium coordinator`, and what `consilium node start` and `consilium status` do with its kit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from consilium.protocol.files import writing
from consilium.protocol.output import Format, FormatOption, show

if TYPE_CHECKING:
    from consilium.coordinator.deploy.status import Status
    from consilium.node.kit import Kit

app = typer.Typer(no_args_is_help=True, help="The coordinator node, from its kit.")

Folder = Annotated[Path, typer.Argument(metavar="KIT", help="The node's kit.")]


def start(node: Kit, go_on: bool, output: Format) -> None:
    """`consilium node start` of a coordinator."""
    from consilium.coordinator.deploy.console.node import watched
    from consilium.coordinator.deploy.start import start as serve
    from consilium.node.log import Heard, load_monitor, log_of
    from consilium.node.monitor import monitored
    from consilium.node.supervisor import stop_on_signals

    settings = load_monitor(node)
    heard = Heard(log_of(node, settings.log))
    with writing(node.folder), stop_on_signals() as stop:
        summary = serve(node, heard.tell, stop, go_on, monitored(settings, watched(node, heard)))
    if summary is None:
        show(output, {"closed": False}, ())
    else:
        _show_closed(summary, output)


@app.command()
def close(
    kit: Folder,
    wait: Annotated[float, typer.Option(min=0, help="Seconds to wait for it.")] = 60,
    output: FormatOption = Format.text,
) -> None:
    """End the federation that is open: no student is answered any more, and the summary is written."""
    from consilium.coordinator.deploy.start import close as ask
    from consilium.node.kit import open_kit

    with writing(kit):
        summary = ask(open_kit(kit, "coordinator"), wait)
    _show_closed(summary, output)


@app.command()
def statement(
    kit: Folder,
    file: Annotated[Path, typer.Argument(metavar="FILE.json", help="For the parties; replaced if it is there.")],
    output: FormatOption = Format.text,
) -> None:
    """Write what the ledger was charged, signed, for parties to check. No votes, no labels, no evidence are in it."""
    from consilium.coordinator.deploy.statement import write_statement
    from consilium.node.kit import open_kit

    with writing(file):
        written = write_statement(open_kit(kit, "coordinator"), file)
    batches, queries = len(written.batches), sum(len(batch.queries) for batch in written.batches)
    show(
        output,
        {"statement": str(file), "batches": batches, "queries": queries},
        [
            f"statement    {file}: {batches} batches, {queries} queries",
            f"Each party checks it with: consilium party audit KIT {file.name}",
        ],
    )


def _show_closed(summary: dict[str, Any], output: Format) -> None:
    told = {"closed": True, **{key: summary[key] for key in ("asked", "answered", "parties", "collection")}}
    parties = ", ".join(told["parties"]) or "nobody"
    show(
        output,
        told,
        [
            f"closed: {told['asked']} queries asked, {told['answered']} answered, {told['collection']} votes of"
            f" {parties}"
        ],
    )


def show_status(node: Kit, output: Format) -> None:
    """`consilium status` of a coordinator."""
    from rich.console import Console
    from rich.table import Table

    from consilium.coordinator.deploy.status import status as read

    found = read(node)
    if output is Format.json:
        show(output, found.to_json(), ())
        return
    table = Table(show_header=False, box=None)
    rows = [
        ("federation", f"{found.federation} ({found.run})"),
        *([("next", f"the kit holds another federation, {found.next}: close this one first")] if found.next else []),
        ("coordinator", "running" if found.running else "not running"),
        ("stage", f"{found.stage}{f', since {found.since}' if found.since else ''}"),
        ("left", f"{found.queries_left} queries, {found.answers_left} answers"),
        *([("public rows", _pool_words(found))] if found.rows_open is not None else []),
        ("guarantee", f"{found.towards_student}, the whole query budget used up, at delta {found.delta:g}"),
        ("", found.towards_nodes),
        *((f"phase {of['phase']}", _of_phase(of)) for of in found.phases),
        *(("party", f"{name}: {state}") for name, state in found.parties.items()),
        *(("aggregator", f"{name}: {state}") for name, state in found.aggregators.items()),
        *(("error", text) for text in found.errors),
    ]
    for row in rows:
        table.add_row(*row)
    Console(markup=False, highlight=False, soft_wrap=True).print(table)


def _pool_words(found: Status) -> str:
    spent = f"; {found.rows_spent} were answered in earlier federations" if found.rows_spent else ""
    return f"{found.rows_open} rows can still be asked{spent}"


def _of_phase(of: dict[str, Any]) -> str:
    """What `status` says of one phase of a schedule."""
    if of["over"]:
        return f"over: {of['asked']} queries asked, {of['answered']} answered"
    return f"{of['queries_left']} queries, {of['answers_left']} answers left"
