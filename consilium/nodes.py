"""`consilium node`, `status` and `doctor`: a node on its own machine. What kind of node it is, its folder says."""

from __future__ import annotations

from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from consilium.protocol.files import writing
from consilium.protocol.output import Format, FormatOption, show

if TYPE_CHECKING:
    from consilium.node.folder import NodeFolder
    from consilium.node.kinds import NodeKind

app = typer.Typer(
    no_args_is_help=True,
    help="A node on its own machine: its keys, the federation that it joins, its start.",
    pretty_exceptions_show_locals=False,
)

DirArgument = Annotated[Path, typer.Argument(metavar="DIR", help="The node's folder.")]


def _kind_of(folder: NodeFolder) -> NodeKind:
    """In capitals in the module `deployed` of its room. A node imports its own alone."""
    room = "coordinator.deploy" if folder.kind == "coordinator" else folder.kind
    return getattr(import_module(f"consilium.{room}.deployed"), folder.kind.upper())


def _opened(path: Path) -> tuple[NodeFolder, NodeKind]:
    from consilium.node.folder import open_folder

    folder = open_folder(path)
    return folder, _kind_of(folder)


@app.command()
def keys(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The node's name; \"coordinator\" is the coordinator's.")],
    kind: Annotated[Literal["party", "aggregator", "student"], typer.Option(help="What the node will be.")] = "party",
    path: Annotated[Path | None, typer.Option("--folder", help="New folder; ./NAME where it is left out.")] = None,
    output: FormatOption = Format.text,
) -> None:
    """Make this node's own keys, and a small file for the operator. Nobody else ever has the private ones."""
    from consilium.node.folder import THE_COORDINATOR
    from consilium.node.keys import enrolment_file, make

    path = path or Path(name)
    with writing(path):
        folder, enrolment = make(THE_COORDINATOR if name == THE_COORDINATOR else kind, name, path)
    values = {"folder": str(path), "send": str(enrolment_file(folder)), "fingerprint": enrolment.fingerprint}
    lines = [
        f"keys         {path / 'keys'}: send nothing of it to anybody",
        f"send         {values['send']}",
        f"fingerprint  {enrolment.fingerprint}",
        "Read the fingerprint to the operator over the telephone.",
    ]
    show(output, values, lines)


@app.command()
def join(
    sent: Annotated[Path, typer.Argument(metavar="FOLDER", help="The signed folder that the operator sent.")],
    node: Annotated[Path | None, typer.Option(help="The node's folder; else the one here.", metavar="DIR")] = None,
    data: Annotated[Path | None, typer.Option(help="Of a party: the file of its rows.", metavar="FILE")] = None,
    output: FormatOption = Format.text,
) -> None:
    """Take part in the federation of a signed folder, or take over its newest version; and check a party's rows."""
    from consilium.node.folder import open_folder
    from consilium.node.keys import grouped
    from consilium.node.kinds import NodeOutcome
    from consilium.node.signed import find_folder
    from consilium.node.signed import join as take_over

    folder = open_folder(node) if node else find_folder(Path())
    with writing(folder.path):
        if data is not None:
            from consilium.party.deployed import name_data

            name_data(open_folder(folder.path, "party"), data)
        joined = take_over(sent, folder)
        outcome = _kind_of(folder).joined(folder)
    file = joined.file
    roster = file.sum_roster()
    compare = {  # every node of the federation has the same authority and roster
        "authority": joined.authority,
        "own keys": file.nodes[folder.name].fingerprint(folder.name),
        **({"roster": grouped(roster.digest)} if roster else {}),
        "parties": f"{len(file.parties)}: {', '.join(file.parties)}",
    }
    values = {"folder": str(folder.path), "version": file.version, **compare, **outcome.values}
    lines = [
        f"joined      {file.config.name!r}, version {file.version}, in {folder.path}",
        *(f"{what:11} {words}" for what, words in compare.items()),
        "Compare each line with the operator and the parties over the telephone, once.",
        *outcome.lines,
    ]
    NodeOutcome(values, lines, outcome.error).show(output)


@app.command()
def start(path: DirArgument, output: FormatOption = Format.text) -> None:
    """Serve the federation that was joined, until SIGTERM. The first time it shows what is promised and asked."""
    from consilium.node.supervisor import stop_on_signals, tell_time

    folder, kind = _opened(path)
    with writing(path), stop_on_signals() as stop:
        outcome = kind.start(folder, tell_time, stop)
    outcome.show(output)


@app.command()
def close(
    path: DirArgument,
    wait: Annotated[float, typer.Option(min=0, help="Seconds to wait for it.")] = 60,
    output: FormatOption = Format.text,
) -> None:
    """End the federation that a coordinator serves: no student is answered any more, and the summary is written."""
    from consilium.coordinator.deploy.deployed import close as end
    from consilium.coordinator.deploy.deployed import closed
    from consilium.node.folder import open_folder

    with writing(path):
        outcome = closed(end(open_folder(path, "coordinator"), wait))
    outcome.show(output)


def status(path: DirArgument, output: FormatOption = Format.text) -> None:
    """Where a node stands, now: whether it runs, what the coordinator says of it, what it gave, what is wrong."""
    folder, kind = _opened(path)
    kind.status(folder).show(output)


def doctor(path: DirArgument, output: FormatOption = Format.text) -> None:
    """Check a node: signature, keys, certificates, clock, ports, policy, data. Exit code 1 if something is wrong."""
    from consilium.node.checks import examine
    from consilium.protocol.files import is_held

    folder, kind = _opened(path)
    results = examine(kind.checks(folder, is_held(folder.lock)))
    sound = all(result.level != "wrong" for result in results)
    values = {"folder": str(path), "kind": folder.kind, "sound": sound, "findings": [*map(asdict, results)]}
    show(output, values, (result.line for result in results))
    if not sound:
        raise typer.Exit(1)
