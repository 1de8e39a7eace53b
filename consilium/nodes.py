"""`consilium node`, `status` and `doctor`: a node on its own machine. What kind of node it is, its kit says."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from consilium.protocol.files import writing
from consilium.protocol.output import Format, FormatOption, KitHere, PrintOption, YesOption, show

if TYPE_CHECKING:
    from consilium.node.kinds import NodeKind, NodeStatus
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


def _kind(name: str) -> NodeKind:
    if name == Kind.aggregator:
        from consilium.aggregator.deployed import AGGREGATOR

        return AGGREGATOR
    from consilium.party.deployed import PARTY

    return PARTY


def _enrolled(folder: Path) -> tuple[NodeKind, Kit]:
    """A party's or an aggregator's kit. Raises ConfigError for another."""
    from consilium.node.kit import a_node, open_kit
    from consilium.protocol.errors import ConfigError

    kit = open_kit(folder)
    if kit.kind not in list(Kind):
        raise ConfigError(
            f"{folder} is the kit of {a_node(kit.kind)}: the operator made its keys, and it accepts no terms",
            f"Give a party's or an aggregator's; see: consilium doctor {folder}",
        )
    return _kind(kit.kind), kit


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
    kit: KitArgument,
    keys: Annotated[Path, typer.Option(help="The folder that `consilium node keys` made.")],
    output: FormatOption = Format.text,
) -> None:
    """Put the node's own keys into the kit that the operator made for them."""
    kind, node = _enrolled(kit)
    kind.join(node, keys)
    following = f"consilium node fingerprint {kit}"
    line = f"The kit lists these keys, and now holds them. Next: {following}"
    show(output, {"kit": str(kit), "next": following}, [line])


@app.command()
def fingerprint(kit: KitArgument, output: FormatOption = Format.text) -> None:
    """What to compare with the others over the telephone: one roster for all, and one's own key in it."""
    kind, node = _enrolled(kit)
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
    kit: KitHere = Path(),
    yes: YesOption = None,
    only_print: PrintOption = False,
    output: FormatOption = Format.text,
) -> None:
    """See what the operator asks beside defaults and earlier federations, and allow it: a yes for each looser line."""
    from consilium.node.acceptance import run

    kind, node = _enrolled(kit)
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
    from consilium.node.log import load_monitor, log_of
    from consilium.node.supervisor import stop_on_signals
    from consilium.protocol.errors import ConfigError

    node = open_kit(kit)
    if node.kind == "coordinator":
        import consilium.coordinator.deploy.cli

        return consilium.coordinator.deploy.cli.start(node, go_on, output)
    if go_on:
        raise ConfigError(f"--go-on is a coordinator's, this is the kit of {node.kind} {node.name}", "Leave it out")
    if node.kind == "student":
        raise ConfigError(f"{kit} is a student's kit: it serves nobody", f"Run: consilium student start {kit}")
    tell = log_of(node, load_monitor(node).log)
    with writing(kit), stop_on_signals() as stop:
        _kind(node.kind).start(node, tell, stop)
    show(output, {"kit": str(kit), "stopped": True}, ())


def status(kit: KitArgument, output: FormatOption = Format.text) -> None:
    """Where a node stands: a coordinator's parties, stage, budget left and last errors; what another has given."""
    from consilium.node.kit import open_kit

    node = open_kit(kit)
    if node.kind == "coordinator":
        import consilium.coordinator.deploy.cli

        return consilium.coordinator.deploy.cli.show_status(node, output)
    kind, node = _enrolled(kit)
    current = kind.status(node)
    show(output, current.to_json(), _status_lines(kind, current))


def _status_lines(kind: NodeKind, current: NodeStatus) -> list[str]:
    epsilon = "not allowed" if current.epsilon is None else f"at most {current.epsilon:.3f} in this federation"
    own = f"{epsilon}; " if kind.name == Kind.party else ""
    queries = "answered ever" if kind.name == Kind.party else "ever in sums"
    return [
        f"{kind.name:12} {current.name}, federation {current.federation}",
        f"connection   {current.connection}",
        f"standing     {current.standing}{f' (since {current.since})' if current.since else ''}",
        f"queries      {current.queries} {queries}, of {current.most_queries} that its policy allows",
        f"epsilon      {own}its policy allows {current.most_epsilon:g} over all federations",
        *([f"towards      {current.towards}"] if current.towards else []),
        *([f"problem      {current.problem}"] if current.problem else []),
    ]


def doctor(
    kit: Annotated[Path, typer.Argument(metavar="KIT", help="Any node's kit.")],
    pool: Annotated[
        Path | None, typer.Option("--public", "--pool", help="A student's public rows, to be checked too.")
    ] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Leave out what asks another node.")] = False,
    output: FormatOption = Format.text,
) -> None:
    """Check a kit: keys, certificates, clock, ports, roster, policy and data. Exit code 1 if something is wrong."""
    import consilium.coordinator.deploy.doctor
    import consilium.student.deploy
    from consilium.node.checks import examine
    from consilium.node.kit import open_kit
    from consilium.protocol.files import is_held

    node = open_kit(kit)
    running = is_held(node.folder / "state" / "lock")
    match node.kind:
        case "coordinator":
            checks = consilium.coordinator.deploy.doctor.checks(node, running)
        case "student":
            checks = consilium.student.deploy.checks(node, pool)
        case kind:
            checks = _kind(kind).checks(node, running)
    results = examine(check for check in checks if not (offline and check[0] in ASK_OTHERS))
    wrong = any(result.level == "wrong" for result in results)
    show(
        output,
        {"kit": str(kit), "kind": node.kind, "sound": not wrong, "findings": [asdict(result) for result in results]},
        (result.line for result in results),
    )
    if wrong:
        raise typer.Exit(1)


@dataclass(frozen=True)
class Renamed:
    """A command that had another name. given: options that the old name stood for."""

    command: Callable[..., None]
    name: str
    given: Mapping[str, object] = field(default_factory=dict)


def old_names(group: typer.Typer, kind: str, commands: Mapping[str, Renamed]) -> None:
    """Names of version 0.9, in kits and service files: they work, say the new one, and stand in no help.

    commands: by old name.
    """
    for old, renamed in commands.items():
        group.command(old, hidden=True)(_under_old_name(renamed, f"consilium {kind} {old}"))


def _under_old_name(renamed: Renamed, old: str) -> Callable[..., None]:
    command = renamed.command
    signature = inspect.signature(command, eval_str=True)
    options = {name: option for name, option in signature.parameters.items() if name not in renamed.given}

    @wraps(command)
    def run(**values: Any) -> None:
        print(f"consilium: `{old}` is now `{renamed.name}`", file=sys.stderr)
        command(**values, **renamed.given)

    run.__signature__ = signature.replace(parameters=list(options.values()))  # type: ignore[attr-defined]
    run.__annotations__ = {name: option.annotation for name, option in options.items()}
    del run.__wrapped__  # type: ignore[attr-defined]
    return run


_COMMON = {
    "join": Renamed(join, "consilium node join"),
    "fingerprint": Renamed(fingerprint, "consilium node fingerprint"),
    "accept": Renamed(accept, "consilium node accept"),
    "status": Renamed(status, "consilium status"),
    "start": Renamed(start, "consilium node start", {"go_on": False}),
}
OLD_OF_PARTY = {"keys": Renamed(keys, "consilium node keys", {"kind": Kind.party}), **_COMMON}
OLD_OF_AGGREGATOR = {
    "keys": Renamed(keys, "consilium node keys --kind aggregator", {"kind": Kind.aggregator}),
    "check": Renamed(doctor, "consilium doctor --offline", {"pool": None, "offline": True}),
    **_COMMON,
}
OLD_OF_COORDINATOR = {"start": Renamed(start, "consilium node start")}
