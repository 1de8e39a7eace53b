"""`consilium aggregator`: keys, join, fingerprint, accept, check, status and start of a second aggregator."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from consilium.protocol.files import writing
from consilium.protocol.output import Format, FormatOption, KitHere, PrintOption, YesOption, show

app = typer.Typer(
    no_args_is_help=True,
    help="The second aggregator of verified votes: its keys, its policy tried, its node.",
    pretty_exceptions_show_locals=False,
)

KitArgument = Annotated[Path, typer.Argument(metavar="KIT", help="The second aggregator's kit.")]
KIND = "aggregator"


@app.command()
def keys(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name in the federation.")],
    out: Annotated[Path, typer.Option(help="New folder for the keys.")],
    output: FormatOption = Format.text,
) -> None:
    """Make its own keys, and a small file for the operator. Nobody else ever has the private ones."""
    from consilium.aggregator.deploy.keys import make
    from consilium.node.keys import enrolment_file

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


@app.command()
def join(
    kit: KitArgument,
    keys: Annotated[Path, typer.Option(help="The folder that `consilium aggregator keys` made.")],
    output: FormatOption = Format.text,
) -> None:
    """Put its own keys into the kit that the operator made for them."""
    from consilium.aggregator.deploy.keys import join as put
    from consilium.node.kit import open_kit

    put(open_kit(kit, KIND), keys)
    following = f"consilium aggregator fingerprint {kit}"
    told = f"The kit lists these keys, and now holds them. Next: {following}"
    show(output, {"kit": str(kit), "next": following}, [told])


@app.command()
def fingerprint(kit: KitArgument, output: FormatOption = Format.text) -> None:
    """What to read out to every party over the telephone: one's own keys in the roster, and the roster."""
    from consilium.aggregator.deploy.keys import fingerprints
    from consilium.node.kit import open_kit

    found = fingerprints(open_kit(kit, KIND))
    lines = [
        f"aggregator   {found.name}, keys made by {'this aggregator' if found.made_here else 'the operator'}",
        f"own keys     {found.own}",
        f"in rosters   {found.second}",
        f"roster       {found.roster}",
        f"parties      {len(found.parties)}: {', '.join(found.parties)}",
        "Every party must see the same two last fingerprints: consilium party fingerprint.",
    ]
    show(output, asdict(found), lines)


@app.command()
def accept(
    kit: KitHere = Path(),
    yes: YesOption = None,
    only_print: PrintOption = False,
    output: FormatOption = Format.text,
) -> None:
    """See what the operator asks beside defaults and earlier federations, and allow it: a yes for each looser line."""
    from consilium.aggregator.acceptance import policy_request, terms_of
    from consilium.aggregator.home import open_home
    from consilium.node.acceptance import run
    from consilium.node.kit import open_kit

    node = open_kit(kit, KIND)
    home = open_home(node.folder)
    with writing(kit):
        run(node, policy_request(home, terms_of(home)), yes, only_print, output)


@app.command()
def check(kit: KitArgument, output: FormatOption = Format.text) -> None:
    """Hold its own policy and state against the federation of the kit. Exit code 1 if it would refuse."""
    from consilium.aggregator.deploy.doctor import set_up, terms_checks
    from consilium.node.checks import examine
    from consilium.node.kit import open_kit

    node = open_kit(kit, KIND)
    findings = examine([*set_up(node), *terms_checks(node)])
    wrong = any(found.level == "wrong" for found in findings)
    show(
        output,
        {"kit": str(kit), "sound": not wrong, "findings": [asdict(found) for found in findings]},
        (
            f"{found.level:6} {found.name:15} {found.what}{f'. {found.action}' if found.action else ''}"
            for found in findings
        ),
    )
    if wrong:
        raise typer.Exit(1)


@app.command()
def status(kit: KitArgument, output: FormatOption = Format.text) -> None:
    """Where it stands: connection, federation, and what it has given."""
    from consilium.aggregator.deploy.standing import status as read
    from consilium.node.kit import open_kit

    found = read(open_kit(kit, KIND))
    lines = [
        f"aggregator   {found.aggregator}, federation {found.federation}",
        f"connection   {found.connection}",
        f"standing     {found.standing}",
        f"queries      {found.queries} ever in sums, of {found.most_queries} that its policy allows",
        f"epsilon      its policy allows {found.most_epsilon:g} over all federations",
        *([f"problem      {found.problem}"] if found.problem else []),
    ]
    show(output, found.to_json(), lines)


@app.command()
def start(kit: KitArgument, output: FormatOption = Format.text) -> None:
    """Serve the federation of the kit until SIGTERM."""
    from consilium.aggregator.deploy.start import start as serve
    from consilium.node.kit import open_kit
    from consilium.node.log import load_monitor, log_of
    from consilium.node.supervisor import stop_on_signals

    node = open_kit(kit, KIND)
    tell = log_of(node, load_monitor(node).log)
    with writing(kit), stop_on_signals() as stop:
        serve(node, tell, stop)
    show(output, {"kit": str(kit), "stopped": True}, ())
