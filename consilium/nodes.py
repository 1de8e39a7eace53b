"""`consilium node`, `status` and `doctor`: a node on its own machine. What kind of node it is, its kit says."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from consilium.coordinator.provision.cli import NewKind, add
from consilium.party.cli import dry_run_command
from consilium.protocol.files import writing
from consilium.protocol.output import Format, FormatOption, KitHere, PrintOption, YesOption, show
from consilium.simulations.cli import audit_run
from consilium.student.cli import run as student_run

if TYPE_CHECKING:
    from consilium.node.checks import Check
    from consilium.node.kinds import MemberKind, NodeKind
    from consilium.node.kit import Kit
    from consilium.protocol.ledger_statement import LedgerStatement

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
    replaces: Annotated[
        Path | None, typer.Option(metavar="OLD", help="Folder with the node's keys until now, which sign the new ones.")
    ] = None,
    output: FormatOption = Format.text,
) -> None:
    """Make this node's own keys, and a small file for the operator. Nobody else ever has the private ones."""
    from consilium.node.keys import enrolment_file, make

    with writing(out):
        enrolment = make(kind.value, name, out, replaces)
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
    password_file: Annotated[
        Path | None, typer.Option(help="File with the password of a sealed kit; else it is asked for.")
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
        values, lines, kit = _unpack(path, into, password_file)
    if keys is not None:
        from consilium.node.kit import open_kit

        node = open_kit(kit)
        _kind_of(node).join(node, keys)
        values["next"] = f"consilium {'doctor' if node.kind == 'coordinator' else 'node fingerprint'} {kit}"
        lines.append(f"The kit lists these keys, and now holds them. Next: {values['next']}")
    show(output, values, lines)


def _unpack(file: Path, into: Path, password_file: Path | None) -> tuple[dict[str, Any], list[str], Path]:
    """What is told of it as values and as lines, and the kit's folder."""
    from consilium.node.sending import open_file

    def ask() -> str:
        return typer.prompt("password", hide_input=True, err=True)

    with writing(into):
        opened = open_file(file, into, ask if password_file is None else password_file)
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
    from consilium.node.log import load_monitor, log_of
    from consilium.node.supervisor import stop_on_signals
    from consilium.protocol.errors import ConfigError

    node = open_kit(kit)
    if go_on and node.kind != "coordinator":
        raise ConfigError(f"--go-on is a coordinator's, this is the kit of {node.kind} {node.name}", "Leave it out")
    start_of = partial(_kind_of(node).start, **({"go_on": True} if go_on else {}))
    with writing(kit), stop_on_signals() as stop:
        outcome = start_of(node, log_of(node, load_monitor(node).log), stop)
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


def status(
    kit: KitArgument,
    statement: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.json",
            help="Of a coordinator: also write here, for the parties, what its ledger was charged, signed. No votes, no"
            " labels and no evidence are in it. Replaced if it is there.",
        ),
    ] = None,
    output: FormatOption = Format.text,
) -> None:
    """Where a node stands: a coordinator's parties, stage, budget left and last errors; what another has given."""
    from consilium.node.kit import open_kit

    node = open_kit(kit, None if statement is None else "coordinator")
    values, lines = {}, []
    if statement is not None:
        values, lines = _state(node, statement)
    current = _kind_of(node).status(node)
    show(output, {**current.to_json(), **values}, [*current.lines(), *lines])


def _state(node: Kit, file: Path) -> tuple[dict[str, Any], list[str]]:
    """Write a coordinator's statement; what is told of it."""
    from consilium.coordinator.deploy.runs import write_statement

    with writing(file):
        written = write_statement(node, file)
    batches, queries = len(written.batches), sum(len(batch.queries) for batch in written.batches)
    lines = [
        f"statement    {file}: {batches} batches, {queries} queries",
        f"Whoever gets it checks it with: consilium audit KIT --statement {file.name}",
    ]
    return {"statement": str(file), "batches": batches, "queries": queries}, lines


def doctor(
    kit: Annotated[Path, typer.Argument(metavar="KIT", help="Any node's kit.")],
    pool: Annotated[
        Path | None, typer.Option("--public", "--pool", help="A student's public rows, to be checked too.")
    ] = None,
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
    path: Annotated[
        Path,
        typer.Argument(metavar="PATH", help="A run's folder, a coordinator's kit, or a run in it; or another's kit."),
    ],
    student: Annotated[
        list[Path] | None, typer.Option(metavar="DIR", help="A student's own folder, to be checked too; repeat.")
    ] = None,
    statement: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.json",
            help="Of another node's kit: what the coordinator's `status --statement` wrote, to be checked.",
        ),
    ] = None,
    output: FormatOption = Format.text,
) -> None:
    """Check a run against its ledger; or, from where one stands, the ledger. Exit code 1: something does not hold."""
    if statement is None:
        return audit_run(path, student or [], output)
    from consilium.node.checks import examine
    from consilium.node.kit import open_kit
    from consilium.protocol.ledger_statement import read_statement

    results = examine(_statement_checks(open_kit(path), read_statement(statement), student or []))
    holds = not any(result.level == "wrong" for result in results)
    conclusion = "the ledger is what this node was told" if holds else "THE LEDGER IS NOT WHAT THIS NODE WAS TOLD"
    values = {"kit": str(path), "statement": str(statement), "holds": holds}
    findings = {"findings": [asdict(result) for result in results]}
    show(output, {**values, **findings}, [*(result.line for result in results), conclusion])
    if not holds:
        raise typer.Exit(1)


def _statement_checks(node: Kit, statement: LedgerStatement, students: list[Path]) -> list[Check]:
    """By the kind of node. Raises ConfigError."""
    from consilium.protocol.errors import ConfigError

    if node.kind == "student" and len(students) != 1:
        raise ConfigError("a student's labels are in the folder that it wrote", "Give that one folder: --student DIR")
    if node.kind != "student" and students:
        raise ConfigError(f"{node.folder} is no student's kit", "Leave --student out")
    match node.kind:
        case "party":
            from consilium.party.home import open_home
            from consilium.party.statement import StatementCheck

            return StatementCheck(open_home(node.folder), statement).checks
        case "aggregator":
            from consilium.aggregator.home import open_home as open_second
            from consilium.aggregator.statement import StatementAtAggregator

            return StatementAtAggregator(open_second(node.folder), statement).checks
        case "student":
            from consilium.student.statement import StatementAtStudent

            return StatementAtStudent(node, statement, students[0]).checks
        case "coordinator":
            raise ConfigError(f"{node.folder} holds the ledger itself", f"Run: consilium audit {node.folder}")


def _statement(
    kit: KitArgument,
    file: Annotated[Path, typer.Argument(metavar="FILE.json", help="For the parties; replaced if it is there.")],
    output: FormatOption = Format.text,
) -> None:
    """Write what the ledger was charged, signed, for parties to check."""
    status(kit, file, output)


def _party_audit(
    kit: Annotated[Path, typer.Argument(metavar="KIT", help="The party's kit.")],
    file: Annotated[Path, typer.Argument(metavar="STATEMENT.json", help="What the coordinator wrote.")],
    output: FormatOption = Format.text,
) -> None:
    """Check the coordinator's ledger against this party's own account. Exit code 1: something does not hold."""
    audit(kit, None, file, output)


def _seal(
    archives: Annotated[list[Path], typer.Argument(metavar="KIT.tar.gz...", help="Kits as `provision` packed them.")],
    passwords: Annotated[Path, typer.Option(help="File that the new passwords are added to, for you alone.")],
    output: FormatOption = Format.text,
) -> None:
    """Seal kits with a password each, so that they can be sent over a way that others read."""
    from consilium.node.sending import seal_all

    with writing(passwords):
        sealed = [str(path) for path in seal_all(archives, passwords)]
    show(output, {"sealed": sealed, "passwords": str(passwords)}, [f"sealed     {path}" for path in sealed])


@dataclass(frozen=True)
class Renamed:
    """A command that had another name. options: those that the old name stood for."""

    command: Callable[..., None]
    name: str
    options: Mapping[str, object] = field(default_factory=dict)


def old_names(group: typer.Typer, kind: str, commands: Mapping[str, Renamed]) -> None:
    """Names of version 0.9, in kits and service files: they work, say the new one, and stand in no help.

    commands: by old name.
    """
    for old, renamed in commands.items():
        group.command(old, hidden=True)(_under_old_name(renamed, f"consilium {kind} {old}"))


def _under_old_name(renamed: Renamed, old: str) -> Callable[..., None]:
    command = renamed.command
    signature = inspect.signature(command, eval_str=True)
    options = {name: option for name, option in signature.parameters.items() if name not in renamed.options}

    @wraps(command)
    def run(**values: Any) -> None:
        print(f"consilium: `{old}` is now `{renamed.name}`", file=sys.stderr)
        command(**values, **renamed.options)

    run.__signature__ = signature.replace(parameters=list(options.values()))  # type: ignore[attr-defined]
    run.__annotations__ = {name: option.annotation for name, option in options.items()}
    del run.__wrapped__  # type: ignore[attr-defined]
    return run


_COMMON = {
    "join": Renamed(join, "consilium node join", {"into": None, "password_file": None}),
    "fingerprint": Renamed(fingerprint, "consilium node fingerprint"),
    "accept": Renamed(accept, "consilium node accept"),
    "status": Renamed(status, "consilium status", {"statement": None}),
    "start": Renamed(start, "consilium node start", {"go_on": False}),
}
OLD_OF_PARTY = {
    "keys": Renamed(keys, "consilium node keys", {"kind": Kind.party, "replaces": None}),
    "check": Renamed(dry_run_command, "consilium party dry-run --data-only", {"queries": None, "data_only": True}),
    "audit": Renamed(_party_audit, "consilium audit KIT --statement FILE.json"),
    **_COMMON,
}
OLD_OF_STUDENT = {"start": Renamed(student_run, "consilium student run", {"coordinator": None})}
OLD_OF_PROVISION = {
    f"add-{kind}": Renamed(add, f"consilium provision add --kind {kind}", {"kind": kind, **left_out})
    for kind, left_out in (
        (NewKind.party, {}),
        (NewKind.aggregator, {"succeeds": None, "new_patients": False}),
        (NewKind.student, {"port": 9094, "keys": None, "succeeds": None, "new_patients": False}),
    )
}
OLD_OF_AGGREGATOR = {
    "keys": Renamed(keys, "consilium node keys --kind aggregator", {"kind": Kind.aggregator, "replaces": None}),
    "check": Renamed(doctor, "consilium doctor --offline", {"pool": None, "offline": True}),
    **_COMMON,
}
OLD_OF_COORDINATOR = {
    "start": Renamed(start, "consilium node start"),
    "close": Renamed(close, "consilium node close"),
    "statement": Renamed(_statement, "consilium status KIT --statement FILE.json"),
}
OLD_OF_KIT = {
    "open": Renamed(join, "consilium node join", {"keys": None}),
    "seal": Renamed(_seal, "consilium provision ... --seal PASSWORDS"),
}
OLD_GROUPS = {"aggregator": OLD_OF_AGGREGATOR, "coordinator": OLD_OF_COORDINATOR, "kit": OLD_OF_KIT}
"""Groups that are no more."""
