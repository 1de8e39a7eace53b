"""`consilium provision`: the signed folder for all nodes, and who takes part later."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from consilium.protocol.files import writing
from consilium.protocol.output import Format, FormatOption, show, tell_warnings

if TYPE_CHECKING:
    from consilium.coordinator.provision.folder import Made

app = typer.Typer(
    no_args_is_help=True, help="Make the signed folder for all nodes (`provision FEDERATION.toml --out OUT`)."
)

COMPARE = ": compare by telephone"  # for people: a program is given what stands before it
Out = Annotated[Path, typer.Argument(metavar="OUT", help="The folder that `consilium provision` made.")]


@app.command()
def make(
    federation: Annotated[Path, typer.Argument(metavar="FEDERATION.toml", help="What the operator decides.")],
    out: Annotated[Path, typer.Option(help="New folder; or the one made before, for another coordinator's address.")],
    output: FormatOption = Format.text,
) -> None:
    """An authority, and the signed folder of a new federation; the same again: a new certificate of the coordinator."""
    from consilium.coordinator.privacy import expected, promise_in_words, promised, towards_coordinator, towards_nodes
    from consilium.coordinator.provision.folder import OPERATOR, provision
    from consilium.coordinator.served import least_parties
    from consilium.node.signed import authority_fingerprint
    from consilium.report.disclosure import epsilon_text
    from consilium.report.warnings import warnings_of

    with writing(out):
        made = provision(federation, out)
    file, config = made.file, made.file.config
    guarantee, least = promised(config), least_parties(config, file.sum_roster())
    authority = authority_fingerprint(made.authority.certificate)
    lines = {
        "federation": f"{config.name}, {config.digest()[:12]}, until {file.ends}",
        "epsilon": f"{epsilon_text(guarantee.epsilon)} at delta {guarantee.delta:g}. {promise_in_words(config)}",
        "nodes": towards_nodes(config) + "; a party charges itself the larger" * config.noise_in_sums,
        "parties": f"{least} of {len(file.parties)} are needed: with fewer no query is answered",
        "secret": f"{out / OPERATOR}: keep it offline, and a backup of it",
        "authority": authority + COMPARE,
    }
    seen = towards_coordinator(config)
    _tell(
        made, lines, file.nodes, output, warnings_of(expected(config, len(file.parties))),
        epsilon_student=guarantee.epsilon, epsilon_nodes=seen and seen.epsilon, delta=guarantee.delta,
    )  # fmt: skip


@app.command()
def add(
    out: Out,
    enrolment: Annotated[Path, typer.Argument(metavar="NAME.enrol.json", help="What the new node's people sent.")],
    succeeds: Annotated[
        str | None,
        typer.Option(metavar="OLD", help="Of a party: one that left, whose patients and whose account it takes over."),
    ] = None,
    output: FormatOption = Format.text,
) -> None:
    """One more party or student, or another second aggregator."""
    from consilium.coordinator.provision import folder

    with writing(out):
        made = folder.add(out, enrolment, succeeds)
    name, former, lines = next(reversed(made.file.nodes)), ", ".join(made.file.former), {}
    if former and succeeds is None and name in made.file.parties:
        lines["patients"] = f"has {name} any of {former}, which left? Then revoke it, and add it anew with --succeeds"
    _tell(made, lines, [name], output)


@app.command()
def revoke(out: Out, name: str, output: FormatOption = Format.text) -> None:
    """Shut a party, a student or the second aggregator out."""
    from consilium.coordinator.provision import folder

    with writing(out):
        made = folder.revoke(out, name)
    _tell(made, {}, [], output)


def _tell(
    made: Made,
    lines: dict[str, str],
    nodes: Iterable[str],
    output: Format,
    warnings: Sequence[dict[str, str]] = (),
    **numbers: float | None,
) -> None:
    """What to do next, first; last the fingerprints of these nodes, and of a new roster. numbers: for programs."""
    from consilium.node.keys import grouped

    file, roster = made.file, made.file.sum_roster()
    shown = {"next": f"send {made.path} to {made.who_joins}; there: consilium node join {made.path.name}"}
    if made.note:
        shown["note"] = made.note
    if made.before is not None and not made.same_federation:
        shown["federation"] = f"a new one, {file.terms.federation[:12]}: what the one before spent stays spent"
    shown |= lines
    if roster is not None and not made.same_federation:
        shown["roster"] = grouped(roster.digest) + COMPARE
    prints = {name: file.nodes[name].fingerprint(name) for name in nodes}
    values = {"folder": str(made.path), "version": file.version, "digest": file.terms.federation, **numbers}
    values |= {what: text.removesuffix(COMPARE) for what, text in shown.items()}
    pairs = [*shown.items(), *((name, text + COMPARE) for name, text in prints.items())]
    show(
        output, {**values, "fingerprints": prints, "warnings": warnings}, [f"{what:<11} {text}" for what, text in pairs]
    )
    tell_warnings(warnings, output)
