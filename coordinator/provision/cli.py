"""`consilium provision`: kits for all nodes, and later changes."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from consilium.protocol.files import writing
from consilium.protocol.output import Format, FormatOption, show, tell_warnings
from consilium.report.disclosure import epsilon_text
from consilium.report.warnings import listed

if TYPE_CHECKING:
    from consilium.coordinator.provision.kits import Made

app = typer.Typer(no_args_is_help=True, help="Make kits for all nodes (`provision FEDERATION.toml --out KITS`).")

Kits = Annotated[Path, typer.Argument(metavar="KITS", help="The folder that `consilium provision` made.")]


@app.command()
def make(
    federation: Annotated[Path, typer.Argument(metavar="FEDERATION.toml", help="What the operator decides.")],
    out: Annotated[Path, typer.Option(help="New folder for the authority and the kits.")],
    output: FormatOption = Format.text,
) -> None:
    """Keys, certificates and settings of a new federation: one kit for each node."""
    from consilium.coordinator.provision import kits

    with writing(out):
        made = kits.make(federation, out)
    _tell(made, output)
    print(f"keep to yourself, and back up: {out / 'operator'}", file=sys.stderr)


class NewKind(StrEnum):
    """Nodes that can come later."""

    party = "party"
    aggregator = "aggregator"
    student = "student"


@app.command()
def add(
    kits: Kits,
    name: str,
    kind: Annotated[NewKind, typer.Option(help="What the node will be.")] = NewKind.party,
    port: Annotated[int, typer.Option(help="Loopback port of its SuperNode.", min=1, max=65535)] = 9094,
    keys: Annotated[
        Path | None, typer.Option(help="NAME.enrol.json of a node that made its own keys; else they are made here.")
    ] = None,
    succeeds: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Of a party: one that left, whose patients and whose account it takes over."),
    ] = None,
    new_patients: Annotated[
        bool, typer.Option("--new-patients", help="Of a party: none of its patients was another's that left.")
    ] = False,
    output: FormatOption = Format.text,
) -> None:
    """A kit for one more party or student, or another second aggregator; kits that are deployed stay as they are."""
    from consilium.coordinator.provision import kits as make_kits
    from consilium.protocol.errors import ConfigError

    of_parties = {"--succeeds": bool(succeeds), "--new-patients": new_patients}
    unfit = [option for option, there in of_parties.items() if there and kind is not NewKind.party]
    unfit += ["--keys"] if kind is NewKind.student and keys is not None else []
    if unfit:
        option = unfit[-1]
        raise ConfigError(f"{option} is not for a node of kind {kind.value}", "Leave it out")
    with writing(kits):
        if kind is NewKind.party:
            made = make_kits.add_party(kits, name, port, keys, succeeds or (), new_patients)
        elif kind is NewKind.aggregator:
            made = make_kits.add_aggregator(kits, name, port, keys)
        else:
            made = make_kits.add_student(kits, name)
    _tell(made, output)


@app.command()
def revoke(kits: Kits, name: str, output: FormatOption = Format.text) -> None:
    """Shut a party, a student or the second aggregator out."""
    from consilium.coordinator.provision import kits as make_kits

    with writing(kits):
        made = make_kits.revoke(kits, name)
    _tell(made, output)


def _tell(made: Made, output: Format) -> None:
    lines = []
    if made.promised is not None:
        lines.append(f"federation         {made.federation}, as status, logs and the page to sign have it")
        lines.append(f"federation_digest  {made.federation_digest}, as a simulation of the same has it")
        lines.append(f"epsilon promised   {epsilon_text(made.promised.epsilon)} at delta {made.promised.delta:g}")
        lines.append(f"nodes              {made.towards_nodes}")
        lines.append(f"in plain words     {made.in_plain_words}")
        lines.append(f"parties needed     {made.least}: with fewer, no query is answered; more are waited for")
    if made.authority:
        lines.append(f"authority          {made.authority}")
    lines += [f"kit     {kit}.tar.gz" for kit in made.kits]
    lines += [f"update  {update}  (at the node: consilium node join FILE --into KIT)" for update in made.updates]
    for name, fingerprint in made.enrolled.items():
        lines.append(f"keys    {name} made its own; have it read this out over the telephone: {fingerprint}")
    values = {
        "federation": made.federation,
        "federation_digest": made.federation_digest,
        "guarantee": None if made.promised is None else made.promised.to_json(),
        "in_plain_words": made.in_plain_words,
        "towards_nodes": made.towards_nodes,
        "authority": made.authority,
        "kits": [f"{kit}.tar.gz" for kit in made.kits],
        "updates": [str(update) for update in made.updates],
        "enrolled": dict(made.enrolled),
        "least_parties": made.least,
        "note": made.note,
        "warnings": listed(made.warnings),
    }
    show(output, values, lines)
    tell_warnings(values["warnings"], output)
    if made.note:
        print(f"note    {made.note}", file=sys.stderr)
