"""`consilium node`, `status` and `doctor`: a node on its own machine. What kind of node it is, its kit says."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from consilium.protocol.files import writing
from consilium.protocol.output import Format, FormatOption, KitHere, PrintOption, YesOption, show
from consilium.simulations.cli import audit_run

if TYPE_CHECKING:
    from consilium.node.kinds import MemberKind, NodeKind
    from consilium.node.kit import Kit

app = typer.Typer(
    no_args_is_help=True,
    help="A node on its own machine: its keys, what it allows, its start.",
    pretty_exceptions_show_locals=False,
)

KitArgument = Annotated[Path, typer.Argument(metavar="KIT", help="The node's kit.")]


ASK_OTHERS = frozenset({"coordinator", "gateway", "label service", "terms"})
"""Checks of `doctor` that connect to another node."""


class Kind(StrEnum):
    """Nodes that make their own keys."""

    party = "party"
    aggregator = "aggregator"
    coordinator = "coordinator"


def _kind_of(kit: Kit) -> NodeKind:
    match kit.kind:
        case "party":
            from consilium.party.deployed import PARTY

            return PARTY
        case "aggregator":
            from consilium.aggregator.deployed import AGGREGATOR

            return AGGREGATOR
        case "coordinator":
            from consilium.coordinator.deploy.deployed import COORDINATOR

            return COORDINATOR
        case "student":
            from consilium.student.deployed import StudentKind

            return StudentKind()


def _member(folder: Path) -> tuple[MemberKind, Kit]:
    """A party's or an aggregator's kit. Raises ConfigError for another."""
    from consilium.node.kinds import MemberKind
    from consilium.node.kit import a_node, open_kit
    from consilium.protocol.errors import ConfigError

    kit = open_kit(folder)
    kind = _kind_of(kit)
    if not isinstance(kind, MemberKind):
        raise ConfigError(
            f"{folder} is the kit of {a_node(kit.kind)}: it accepts no terms, and no roster is compared at it",
            f"Give a party's or an aggregator's; see: consilium doctor {folder}",
        )
    return kind, kit


@app.command()
def keys(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The node's name in the federation.")],
    out: Annotated[Path, typer.Option(help="New folder for the keys.")],
    kind: Annotated[Kind, typer.Option(help="What the node will be.")] = Kind.party,
    output: FormatOption = Format.text,
) -> None:
    """Make this node's own keys, and a small file for the operator. Nobody else ever has the private ones."""
    from consilium.node.keys import enrolment_file, make

    with writing(out):
        enrolment = make(kind.value, name, out)
    send = enrolment_file(name, out)
    show(
        output,
        {"keys": str(out), "send": str(send), "fingerprint": enrolment.fingerprint},
        [
            f"keys         {out}: keep a backup, send nothing of it but the next file",
            f"send         {send}",
            f"fingerprint  {enrolment.fingerprint}",
            "Write the fingerprint down, and read it to the operator over the telephone.",
        ],
    )


@app.command()
def join(
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="What the operator sent: a kit or an update; or the folder of a kit.")
    ],
    into: Annotated[
        Path | None,
        typer.Option(help="Of a file: the kit that an update is for; else the folder in which the kit's own is made."),
    ] = None,
    keys: Annotated[
        Path | None, typer.Option(help="The folder that `consilium node keys` made, to be put into the kit.")
    ] = None,
    output: FormatOption = Format.text,
) -> None:
    """Unpack a kit, or an update over one, held against the authority's signature; and put the node's own keys in."""
    from consilium.protocol.errors import ConfigError

    if path.is_dir():
        if keys is None or into is not None:
            raise ConfigError(
                f"{path} is unpacked already", "Give --keys for the node's own, or the file that was sent"
            )
        values, lines, kit = {"kit": str(path)}, [], path
    elif not path.exists():
        raise ConfigError(f"{path} is not there", "Correct the path: a kit's folder, or the file that was sent")
    elif into is None:
        raise ConfigError(f"{path} is a file: where it is to be unpacked is not given", "Give --into")
    else:
        values, lines, kit = _unpack(path, into)
    if keys is not None:
        from consilium.node.kit import open_kit

        node = open_kit(kit)
        _kind_of(node).join(node, keys)
        values["next"] = f"consilium {'doctor' if node.kind == 'coordinator' else 'node fingerprint'} {kit}"
        lines.append(f"The kit lists these keys, and now holds them. Next: {values['next']}")
    show(output, values, lines)


def _unpack(file: Path, into: Path) -> tuple[dict[str, Any], list[str], Path]:
    """What is told of it as values and as lines, and the kit's folder."""
    from consilium.node.sending import open_file

    with writing(into):
        opened = open_file(file, into)
    values = {**asdict(opened), "files": list(opened.files)}
    values = {"kit": str(values.pop("folder")), **values}
    lines = [
        f"{'updated' if opened.update else 'kit':10} {opened.folder}: {opened.node}, version {opened.version}",
        f"files      {', '.join(opened.files)}",
        f"authority  {opened.authority}",
    ]
    if not opened.update:
        lines.append("Have the operator read the authority's fingerprint out over the telephone.")
    return values, lines, opened.folder


@app.command()
def fingerprint(kit: KitArgument, output: FormatOption = Format.text) -> None:
    """What to compare with the others over the telephone: one roster for all, and one's own key in it."""
    kind, node = _member(kit)
    prints = kind.fingerprints(node)
    lines = [
        f"{kind.name:12} {prints.name}, keys made by {f'this {kind.name}' if prints.made_here else 'the operator'}",
        f"own keys     {prints.own}",
    ]
    if kind.name == Kind.aggregator:
        lines.append(f"in rosters   {prints.second}")
    if prints.roster:
        lines += [f"roster       {prints.roster}", f"parties      {len(prints.parties)}: {', '.join(prints.parties)}"]
    if kind.name == Kind.aggregator:
        lines.append("Every party must see the same fingerprints of roster and aggregator: consilium node fingerprint.")
    elif prints.roster:
        lines += [
            *([f"aggregator   {prints.second}"] if prints.second else []),
            "Every party of this list must read out the same roster. One that nobody can reach may be invented.",
        ]
    else:
        lines.append("roster       none: votes are clear")
    show(output, asdict(prints), lines)


@app.command()
def accept(
    kit: KitHere = Path(), yes: YesOption = None, only_print: PrintOption = False, output: FormatOption = Format.text
) -> None:
    """See what the operator asks beside defaults and earlier federations, and allow it: a yes for each looser line."""
    from consilium.node.acceptance import run

    kind, node = _member(kit)
    home = kind.open_home(node.folder)
    with writing(kit):
        run(node, kind.request(home, kind.terms_of(home)), yes, only_print, output)


@app.command()
def start(
    kit: KitArgument,
    go_on: Annotated[
        bool,
        typer.Option(
            "--go-on",
            help="Of a coordinator: serve the federation that is open, though an update for the next was unpacked.",
        ),
    ] = False,
    output: FormatOption = Format.text,
) -> None:
    """Serve the federation of the kit until SIGTERM; a coordinator until it is closed. A later start goes on."""
    from consilium.node.kit import open_kit
    from consilium.node.supervisor import stop_on_signals, tell_time
    from consilium.protocol.errors import ConfigError

    node = open_kit(kit)
    if go_on and node.kind != "coordinator":
        raise ConfigError(f"--go-on is a coordinator's, this is the kit of {node.kind} {node.name}", "Leave it out")
    start_of = partial(_kind_of(node).start, **({"go_on": True} if go_on else {}))
    with writing(kit), stop_on_signals() as stop:
        outcome = start_of(node, tell_time, stop)
    show(output, dict(outcome.values), outcome.lines)


@app.command()
def close(
    kit: Annotated[Path, typer.Argument(metavar="KIT", help="The coordinator's kit.")],
    wait: Annotated[float, typer.Option(min=0, help="Seconds to wait for it.")] = 60,
    output: FormatOption = Format.text,
) -> None:
    """End the federation that a coordinator serves: no student is answered any more, and the summary is written."""
    from consilium.coordinator.deploy.deployed import closed
    from consilium.coordinator.deploy.start import close as end
    from consilium.node.kit import open_kit

    with writing(kit):
        outcome = closed(end(open_kit(kit, "coordinator"), wait))
    show(output, dict(outcome.values), outcome.lines)


def status(kit: KitArgument, output: FormatOption = Format.text) -> None:
    """Where a node stands: a coordinator's parties, stage, budget left and last errors; what another has given."""
    from consilium.node.kit import open_kit

    node = open_kit(kit)
    current = _kind_of(node).status(node)
    show(output, current.to_json(), current.lines())


def doctor(
    kit: Annotated[Path, typer.Argument(metavar="KIT", help="Any node's kit.")],
    pool: Annotated[Path | None, typer.Option("--public", help="A student's public rows, to be checked too.")] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Leave out what asks another node.")] = False,
    output: FormatOption = Format.text,
) -> None:
    """Check a kit: keys, certificates, clock, ports, roster, policy and data. Exit code 1 if something is wrong."""
    from consilium.node.checks import examine
    from consilium.node.kit import open_kit
    from consilium.protocol.files import is_held
    from consilium.student.deployed import StudentKind

    node = open_kit(kit)
    kind = StudentKind(pool) if node.kind == "student" else _kind_of(node)
    checks = kind.checks(node, is_held(node.folder / "state" / "lock"))
    results = examine(check for check in checks if not (offline and check[0] in ASK_OTHERS))
    wrong = any(result.level == "wrong" for result in results)
    show(
        output,
        {"kit": str(kit), "kind": node.kind, "sound": not wrong, "findings": [asdict(result) for result in results]},
        (result.line for result in results),
    )
    if wrong:
        raise typer.Exit(1)


def audit(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A run's folder, a coordinator's kit, or a run in it.")],
    student: Annotated[
        list[Path] | None, typer.Option(metavar="DIR", help="A student's own folder, to be checked too; repeat.")
    ] = None,
    output: FormatOption = Format.text,
) -> None:
    """Check a run against its ledger. Exit code 1: something does not hold."""
    audit_run(path, student or [], output)
