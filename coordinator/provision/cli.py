"""`consilium provision`: the signed folder for all nodes, and who takes part later."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from consilium.protocol.files import writing
from consilium.protocol.output import Format, FormatOption, show, tell_warnings

if TYPE_CHECKING:
    from consilium.coordinator.provision.folder import Made

app = typer.Typer(
    no_args_is_help=True, help="Make the signed folder for all nodes (`provision FEDERATION.toml --out OUT`)."
)

Out = Annotated[Path, typer.Argument(metavar="OUT", help="The folder that `consilium provision` made.")]


@app.command()
def make(
    federation: Annotated[Path, typer.Argument(metavar="FEDERATION.toml", help="What the operator decides.")],
    out: Annotated[Path, typer.Option(help="New folder; or the one made before, for another coordinator's address.")],
    output: FormatOption = Format.text,
) -> None:
    """An authority, and the signed folder of a new federation; the same again: a new certificate of the coordinator."""
    from consilium.coordinator.privacy import expected, promise_in_words, promised, towards_nodes
    from consilium.coordinator.provision.folder import OPERATOR, provision
    from consilium.coordinator.rosters import least_parties
    from consilium.node.signed import authority_fingerprint
    from consilium.report.before_run import before_run
    from consilium.report.disclosure import epsilon_text
    from consilium.report.warnings import listed

    with writing(out):
        made = provision(federation, out)
    file, config = made.file, made.file.config
    guarantee, least = promised(config), least_parties(config, file.sum_roster())
    nodes = towards_nodes(config) + "; a party charges itself the larger" * config.noise_in_sums
    words, warnings = promise_in_words(config), listed(before_run(expected(config, len(file.parties))))
    told = _fingerprints(made, [*file.nodes])
    lines = {
        "federation": f"{config.name}, {config.digest()[:12]}, until {file.ends}",
        "epsilon": f"{epsilon_text(guarantee.epsilon)} at delta {guarantee.delta:g}. {words}",
        "nodes": nodes,
        "parties": f"{least} of {len(file.parties)} are needed: with fewer no query is answered",
        "secret": f"{out / OPERATOR}: keep it offline, and a backup of it",
        "compare": "each line below, with the node's people over the telephone; the first with all of them",
        "authority": authority_fingerprint(made.authority.certificate),
    }
    values = {
        "federation_digest": config.federation_digest(),
        "ends": file.ends,
        "guarantee": guarantee.to_json(),
        "in_plain_words": words,
        "towards_nodes": nodes,
        "least_parties": least,
        "fingerprints": {"authority": lines["authority"], **told},
        "warnings": warnings,
    }
    _tell(made, {**lines, **told}, values, output)
    tell_warnings(warnings, output)


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
    name = next(reversed(made.file.nodes))
    told, former = _fingerprints(made, [name]), ", ".join(made.file.former)
    lines = dict(told)
    if former and succeeds is None and name in made.file.parties:
        lines["patients"] = f"has {name} any of {former}, which left? Then revoke it, and add it anew with --succeeds"
    _tell(made, lines, {"added": name, "fingerprints": told}, output)


@app.command()
def revoke(out: Out, name: str, output: FormatOption = Format.text) -> None:
    """Shut a party, a student or the second aggregator out."""
    from consilium.coordinator.provision import folder

    with writing(out):
        made = folder.revoke(out, name)
    told = _fingerprints(made, [])
    _tell(made, told, {"revoked": name, "fingerprints": told}, output)


def _fingerprints(made: Made, names: Iterable[str]) -> dict[str, str]:
    """Of these nodes and, where it is a new one, of the roster: what is compared over the telephone."""
    from consilium.node.keys import grouped

    file, roster = made.file, made.file.sum_roster()
    told = {} if roster is None or made.same_federation else {"roster": grouped(roster.digest)}
    return {**told, **{name: file.nodes[name].fingerprint(name) for name in names}}


def _tell(made: Made, lines: Mapping[str, str], values: dict[str, Any], output: Format) -> None:
    """What to do next, first; then the rest."""
    digest, folder = made.file.terms.federation, str(made.path)
    first = {"next": f"send {folder} to {made.who_joins}; there: consilium node join {made.path.name}"}
    if made.note:
        first["note"] = made.note
    if made.before is not None and not made.same_federation:
        first["federation"] = f"a new one, {digest[:12]}: what the one before spent stays spent"
    values = {"folder": folder, "version": made.file.version, "federation": digest, "join": made.who_joins, **values}
    show(output, {**values, "note": made.note}, [f"{what:<11} {text}" for what, text in {**first, **lines}.items()])
