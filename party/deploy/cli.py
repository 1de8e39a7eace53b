"""`consilium party keys`, `join`, `fingerprint` and `start`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

KitArgument = Annotated[Path, typer.Argument(metavar="KIT", help="The node's kit.")]


def keys(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The party's name in the federation.")],
    out: Annotated[Path, typer.Option(help="New folder for the keys.")],
) -> None:
    """Make this party's own keys, and a small file for the operator. Nobody else ever has the private ones."""
    from consilium.party.deploy.keys import enrolment_file, make

    enrolment = make(name, out)
    print(f"keys         {out}: keep a backup, send nothing of it but the next file")
    print(f"send         {enrolment_file(name, out)}")
    print(f"fingerprint  {enrolment.fingerprint}")
    print("Write the fingerprint down, and read it to the operator over the telephone.")


def join(
    kit: KitArgument,
    keys: Annotated[Path, typer.Option(help="The folder that `consilium party keys` made.")],
) -> None:
    """Put this party's own keys into the kit that the operator made for them."""
    from consilium.party.deploy.keys import join as put
    from consilium.protocol.node.kit import open_kit

    put(open_kit(kit, "party"), keys)
    print(f"The kit lists these keys, and now holds them. Next: consilium party fingerprint {kit}")


def fingerprint(kit: KitArgument) -> None:
    """What to compare with the other parties over the telephone: one roster for all, and one's own key in it."""
    from consilium.party.deploy.keys import fingerprints
    from consilium.protocol.node.kit import open_kit

    found = fingerprints(open_kit(kit, "party"))
    print(f"party        {found.name}, keys made by {'this party' if found.made_here else 'the operator'}")
    print(f"own keys     {found.own}")
    if not found.roster:
        print("roster       none: votes are clear")
        return
    print(f"roster       {found.roster}")
    print(f"parties      {len(found.parties)}: {', '.join(found.parties)}")
    print("Every party of this list must read out the same roster. One that nobody can reach may be invented.")


def start(kit: KitArgument) -> None:
    """Serve the federation with this party's own rows until SIGTERM."""
    from consilium.party.deploy.start import start as serve
    from consilium.protocol.node.kit import open_kit
    from consilium.protocol.node.supervisor import stop_on_signals, tell_time

    with stop_on_signals() as stop:
        serve(open_kit(kit, "party"), tell_time, stop)
