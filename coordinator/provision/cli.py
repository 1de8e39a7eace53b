"""`consilium provision`: kits for all nodes, and later changes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
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
    from consilium.coordinator.provision.outlook import Asked

app = typer.Typer(no_args_is_help=True, help="Make kits for all nodes (`provision FEDERATION.toml --out KITS`).")

Kits = Annotated[Path, typer.Argument(metavar="KITS", help="The folder that `consilium provision` made.")]

SealOption = Annotated[
    Path | None,
    typer.Option(
        metavar="PASSWORDS",
        help="Seal each kit with a new password, for a way that others read. File that the passwords are added to, for"
        " you alone: each is told by telephone.",
    ),
]

AskedOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FEDERATION:ROWS",
        help="What was asked, as `consilium status` at the coordinator prints it: for each federation, so that those"
        " without questions do not count; or one number over all.",
    ),
]


@app.command()
def make(
    federation: Annotated[Path, typer.Argument(metavar="FEDERATION.toml", help="What the operator decides.")],
    out: Annotated[Path, typer.Option(help="New folder for the authority and the kits.")],
    seal: SealOption = None,
    output: FormatOption = Format.text,
) -> None:
    """Keys, certificates and settings of a new federation: one kit for each node."""
    from consilium.coordinator.provision import kits

    with writing(out):
        made = kits.make(federation, out)
        sealed = _sealed(made, seal)
    _tell(made, output, sealed)
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
    asked: AskedOption = None,
    succeeds: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Of a party: one that left, whose patients and whose account it takes over."),
    ] = None,
    new_patients: Annotated[
        bool, typer.Option("--new-patients", help="Of a party: none of its patients was another's that left.")
    ] = False,
    seal: SealOption = None,
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
            so_far = _asked(asked)
            made = make_kits.add_party(kits, name, port, keys, succeeds or (), new_patients, so_far)
        elif kind is NewKind.aggregator:
            made = make_kits.add_aggregator(kits, name, port, keys, _asked(asked))
        else:
            made = make_kits.add_student(kits, name)
        sealed = _sealed(made, seal)
    _tell(made, output, sealed)


@app.command()
def revoke(kits: Kits, name: str, asked: AskedOption = None, output: FormatOption = Format.text) -> None:
    """Shut a party, a student or the second aggregator out."""
    from consilium.coordinator.provision import kits as make_kits

    with writing(kits):
        made = make_kits.revoke(kits, name, _asked(asked))
    _tell(made, output)


@app.command()
def plan(
    kits: Kits,
    add: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A party that would be added; may be repeated.")
    ] = None,
    revoke: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A party that would be shut out; may be repeated.")
    ] = None,
    asked: AskedOption = None,
    output: FormatOption = Format.text,
) -> None:
    """What a change of the parties would mean for each of them. Changes nothing."""
    from consilium.coordinator.provision.outlook import outlook_of

    shown = outlook_of(kits, add or [], revoke or [], _asked(asked))
    show(output, shown.to_json(), shown.lines())


def _asked(texts: Sequence[str] | None) -> Asked:
    from consilium.protocol.errors import ConfigError

    if not texts:
        return None
    found: dict[str, int] = {}
    for text in texts:
        federation, _, rows = text.rpartition(":")
        if not (rows.isascii() and rows.isdigit()) or (not federation and len(texts) > 1):
            raise ConfigError(
                f"--asked {text!r} is no FEDERATION:ROWS", "Give each as consilium status at the coordinator prints it"
            )
        found[federation] = int(rows)
    return found.get("", found)


@app.command()
def renew(
    kits: Kits,
    name: str,
    keys: Annotated[
        Path | None, typer.Option(help="NAME.enrol.json of new keys, which take the place of the old.")
    ] = None,
    lost: Annotated[
        str,
        typer.Option(
            metavar="FINGERPRINT",
            help="Where the old keys are lost, and of the coordinator always: that of the new ones, as they were read"
            " out in a call you made.",
        ),
    ] = "",
    asked: AskedOption = None,
    output: FormatOption = Format.text,
) -> None:
    """A new certificate, for the same key, of `coordinator` or of a student; new keys of a party, the
    second aggregator or the coordinator, for its old name."""
    from consilium.coordinator.provision import kits as make_kits

    with writing(kits):
        made = make_kits.renew(kits, name, keys, lost, _asked(asked))
    _tell(made, output)


@app.command()
def handover(
    kits: Kits,
    finish: Annotated[
        bool, typer.Option("--finish", help="End it: from now on nothing of the former authority holds.")
    ] = False,
    output: FormatOption = Format.text,
) -> None:
    """A new authority in place of the former one, whose key others may have; both hold until --finish."""
    from consilium.coordinator.provision import kits as make_kits

    with writing(kits):
        made = make_kits.end_handover(kits) if finish else make_kits.hand_over(kits)
    _tell(made, output)


@app.command()
def escrow(
    kits: Kits,
    holders: Annotated[list[str], typer.Argument(metavar="HOLDER...", help="Whoever keeps a share, by name.")],
    threshold: Annotated[int, typer.Option(help="How many of them bring the operator's folder back.", min=2)],
    output: FormatOption = Format.text,
) -> None:
    """Share the operator's folder among holders: enough of them together bring it back, fewer learn nothing."""
    from consilium.coordinator.provision.escrow import put_in_escrow

    with writing(kits):
        made = put_in_escrow(kits, holders, threshold)
    lines = [
        *(
            f"share   {path}  (for {path.name.removesuffix('.share.json')} alone; delete it here when it is there)"
            for path in made.shares
        ),
        f"sealed  {made.sealed}  (anybody may keep it; each change writes it anew)",
    ]
    show(output, {"shares": [str(path) for path in made.shares], "sealed": str(made.sealed)}, lines)


@app.command("recover")
def recover_command(
    sealed: Annotated[Path, typer.Argument(metavar="SEALED", help="The newest operator.escrow.")],
    share: Annotated[list[Path], typer.Option(metavar="HOLDER.share.json", help="One for each holder.")],
    out: Annotated[Path, typer.Option(help="New folder for KITS, with the operator's folder in it.")],
    output: FormatOption = Format.text,
) -> None:
    """Bring the operator's folder back from shares, on whatever machine."""
    from consilium.coordinator.provision.escrow import recover

    with writing(out):
        found = recover(sealed, share, out)
    lines = [
        f"federation  {found.federation}, version {found.version} of its kits",
        f"authority   {found.authority}",
        f"operator    {found.kits / 'operator'}: keep it to yourself",
        *(f"WARNING     the share of {holder} does not fit the others: ask why" for holder in found.unfit),
    ]
    values = {"federation": found.federation, "version": found.version, "authority": found.authority}
    show(output, {**values, "kits": str(found.kits), "unfit": list(found.unfit)}, lines)


def _sealed(made: Made, passwords: Path | None) -> list[Path]:
    from consilium.node.sending import seal_all

    return [] if passwords is None else seal_all([kit.with_name(f"{kit.name}.tar.gz") for kit in made.kits], passwords)


def _tell(made: Made, output: Format, sealed: Sequence[Path] = ()) -> None:
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
    lines += [f"sealed  {path}" for path in sealed]
    lines += [f"update  {update}  (at the node: consilium node join FILE --into KIT)" for update in made.updates]
    lines += made.outlook.lines() if made.outlook is not None else []
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
        "sealed": [str(path) for path in sealed],
        "updates": [str(update) for update in made.updates],
        "enrolled": dict(made.enrolled),
        "least_parties": made.least,
        "outlook": None if made.outlook is None else made.outlook.to_json(),
        "note": made.note,
        "warnings": listed(made.warnings),
    }
    show(output, values, lines)
    tell_warnings(values["warnings"], output)
    if made.note:
        print(f"note    {made.note}", file=sys.stderr)
