"""`consilium party keys`, `join`, `fingerprint`, `accept`, `status`, `audit` and `start`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from consilium.protocol.files import writing
from consilium.protocol.output import Format, FormatOption, KitHere, PrintOption, YesOption, show

KitArgument = Annotated[Path, typer.Argument(metavar="KIT", help="The node's kit.")]


def keys(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The party's name in the federation.")],
    out: Annotated[Path, typer.Option(help="New folder for the keys.")],
    output: FormatOption = Format.text,
) -> None:
    """Make this party's own keys, and a small file for the operator. Nobody else ever has the private ones."""
    from consilium.node.keys import enrolment_file
    from consilium.party.deploy.keys import make

    with writing(out):
        enrolment = make(name, out)
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


def join(
    kit: KitArgument,
    keys: Annotated[Path, typer.Option(help="The folder that `consilium party keys` made.")],
    output: FormatOption = Format.text,
) -> None:
    """Put this party's own keys into the kit that the operator made for them."""
    from consilium.node.kit import open_kit
    from consilium.party.deploy.keys import join as put

    put(open_kit(kit, "party"), keys)
    following = f"consilium party fingerprint {kit}"
    told = f"The kit lists these keys, and now holds them. Next: {following}"
    show(output, {"kit": str(kit), "next": following}, [told])


def fingerprint(kit: KitArgument, output: FormatOption = Format.text) -> None:
    """What to compare with the other parties over the telephone: one roster for all, and one's own key in it."""
    from consilium.node.kit import open_kit
    from consilium.party.deploy.keys import fingerprints

    found = fingerprints(open_kit(kit, "party"))
    lines = [
        f"party        {found.name}, keys made by {'this party' if found.made_here else 'the operator'}",
        f"own keys     {found.own}",
    ]
    if found.roster:
        lines += [
            f"roster       {found.roster}",
            f"parties      {len(found.parties)}: {', '.join(found.parties)}",
            *([f"aggregator   {found.second}"] if found.second else []),
            "Every party of this list must read out the same roster. One that nobody can reach may be invented.",
        ]
    else:
        lines.append("roster       none: votes are clear")
    show(output, asdict(found), lines)


def accept(
    kit: KitHere = Path(),
    yes: YesOption = None,
    only_print: PrintOption = False,
    output: FormatOption = Format.text,
) -> None:
    """See what the operator asks beside defaults and earlier federations, and allow it: a yes for each looser line."""
    from consilium.node.acceptance import run
    from consilium.node.kit import open_kit
    from consilium.party.acceptance import policy_request
    from consilium.party.deploy.status import terms_of
    from consilium.party.home import open_home

    node = open_kit(kit, "party")
    home = open_home(node.folder)
    with writing(kit):
        run(node, policy_request(home, terms_of(home)), yes, only_print, output)


def status(kit: KitArgument, output: FormatOption = Format.text) -> None:
    """Where this party stands: connection, enrolment, what it was asked last, and what it has given."""
    from consilium.node.kit import open_kit
    from consilium.party.deploy.status import status as read

    found = read(open_kit(kit, "party"))
    epsilon = "not allowed" if found.epsilon is None else f"at most {found.epsilon:.3f} in this federation"
    lines = [
        f"party        {found.party}, federation {found.federation}",
        f"connection   {found.connection}",
        f"standing     {found.standing}{f' (since {found.since})' if found.since else ''}",
        f"queries      {found.queries} answered ever, of {found.most_queries} that its policy allows",
        f"epsilon      {epsilon}; its policy allows {found.most_epsilon:g} over all federations",
        *([f"towards      {found.towards}"] if found.towards else []),
        *([f"problem      {found.problem}"] if found.problem else []),
    ]
    show(output, found.to_json(), lines)


def audit(
    kit: KitArgument,
    statement: Annotated[
        Path, typer.Argument(metavar="STATEMENT.json", help="What `consilium coordinator statement` wrote.")
    ],
    output: FormatOption = Format.text,
) -> None:
    """Check the coordinator's ledger against this party's own account. Exit code 1: something does not hold."""
    from consilium.node.checks import examine
    from consilium.node.kit import open_kit
    from consilium.party.home import open_home
    from consilium.party.statement import StatementCheck
    from consilium.protocol.ledger_statement import read_statement

    node = open_kit(kit, "party")
    findings = examine(StatementCheck(open_home(node.folder), read_statement(statement)).checks)
    holds = not any(found.level == "wrong" for found in findings)
    told = {"kit": str(kit), "statement": str(statement), "holds": holds}
    conclusion = "the ledger is what this party was told" if holds else "THE LEDGER IS NOT WHAT THIS PARTY WAS TOLD"
    show(
        output,
        {**told, "findings": [asdict(found) for found in findings]},
        [*(found.line for found in findings), conclusion],
    )
    if not holds:
        raise typer.Exit(1)


def start(kit: KitArgument, output: FormatOption = Format.text) -> None:
    """Serve the federation with this party's own rows until SIGTERM."""
    from consilium.node.kit import open_kit
    from consilium.node.log import load_monitor, log_of
    from consilium.node.supervisor import stop_on_signals
    from consilium.party.deploy.start import start as serve

    node = open_kit(kit, "party")
    tell = log_of(node, load_monitor(node).log)
    with writing(kit), stop_on_signals() as stop:
        serve(node, tell, stop)
    show(output, {"kit": str(kit), "stopped": True}, ())
