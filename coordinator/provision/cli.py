"""`consilium provision`: kits for all nodes, and later changes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from consilium.coordinator.provision.kits import Made

app = typer.Typer(no_args_is_help=True, help="Make kits for all nodes (`provision FEDERATION.toml --out KITS`).")

Kits = Annotated[Path, typer.Argument(metavar="KITS", help="The folder that `consilium provision` made.")]


@app.command()
def make(
    federation: Annotated[Path, typer.Argument(metavar="FEDERATION.toml", help="What the operator decides.")],
    out: Annotated[Path, typer.Option(help="New folder for the authority and the kits.")],
) -> None:
    """Keys, certificates and settings of a new federation: one kit for each node."""
    from consilium.coordinator.provision import kits

    _tell(kits.make(federation, out))
    print(f"keep to yourself, and back up: {out / 'operator'}", file=sys.stderr)


@app.command("add-party")
def add_party(
    kits: Kits,
    name: str,
    port: Annotated[int, typer.Option(help="Loopback port of its SuperNode.", min=1, max=65535)] = 9094,
    keys: Annotated[
        Path | None, typer.Option(help="NAME.enrol.json of a party that made its own keys; else they are made here.")
    ] = None,
) -> None:
    """A kit for one more party; kits that are deployed stay as they are."""
    from consilium.coordinator.provision import kits as make_kits

    _tell(make_kits.add_party(kits, name, port, keys))


@app.command("add-student")
def add_student(kits: Kits, name: str) -> None:
    """A kit for one more student."""
    from consilium.coordinator.provision import kits as make_kits

    _tell(make_kits.add_student(kits, name))


@app.command()
def revoke(kits: Kits, name: str) -> None:
    """Shut a party or a student out."""
    from consilium.coordinator.provision import kits as make_kits

    _tell(make_kits.revoke(kits, name))


@app.command()
def renew(kits: Kits, name: str) -> None:
    """A new certificate, for the same key, of `coordinator` or of a student."""
    from consilium.coordinator.provision import kits as make_kits

    _tell(make_kits.renew(kits, name))


def _tell(made: Made) -> None:
    if made.promised is not None:
        print(f"federation_digest  {made.federation_digest}")
        print(f"epsilon promised   {made.promised.epsilon:.4g} at delta {made.promised.delta:g}")
    for kit in made.kits:
        print(f"kit     {kit}.tar.gz")
    for update in made.updates:
        print(f"update  {update}  (at the node: tar -xzf FILE -C KIT)")
    for name, fingerprint in made.enrolled.items():
        print(f"keys    {name} made its own; have it read this out over the telephone: {fingerprint}")
    if made.note:
        print(f"note    {made.note}", file=sys.stderr)
