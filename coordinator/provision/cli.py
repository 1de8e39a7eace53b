"""`consilium provision`: the signed folder for all nodes, and who takes part later."""

from __future__ import annotations

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
    from consilium.coordinator.served import least_parties
    from consilium.node.signed import authority_fingerprint
    from consilium.report.disclosure import epsilon_text
    from consilium.report.warnings import warnings_of

    with writing(out):
        made = provision(federation, out)
    file, config = made.file, made.file.config
    guarantee, least = promised(config), least_parties(config, file.sum_roster())
    nodes = towards_nodes(config) + "; a party charges itself the larger" * config.noise_in_sums
    words, warnings = promise_in_words(config), warnings_of(expected(config, len(file.parties)))
    authority = authority_fingerprint(made.authority.certificate)
    lines = [
        ("federation", f"{config.name}, {config.digest()[:12]}, until {file.ends}"),
        ("epsilon", f"{epsilon_text(guarantee.epsilon)} at delta {guarantee.delta:g}. {words}"),
        ("nodes", nodes),
        ("parties", f"{least} of {len(file.parties)} are needed: with fewer no query is answered"),
        ("secret", f"{out / OPERATOR}: keep it offline, and a backup of it"),
        ("authority", f"{authority}: compare by telephone"),
    ]
    values = {
        "federation_digest": config.federation_digest(),
        "ends": file.ends,
        "guarantee": guarantee.to_json(),
        "in_plain_words": words,
        "towards_nodes": nodes,
        "least_parties": least,
        "authority": authority,
        "warnings": warnings,
    }
    _tell(made, lines, [*file.nodes], values, output)
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
    former, lines = ", ".join(made.file.former), []
    if former and succeeds is None and name in made.file.parties:
        asked = f"has {name} any of {former}, which left? Then revoke it, and add it anew with --succeeds"
        lines.append(("patients", asked))
    _tell(made, lines, [name], {"added": name}, output)


@app.command()
def revoke(out: Out, name: str, output: FormatOption = Format.text) -> None:
    """Shut a party, a student or the second aggregator out."""
    from consilium.coordinator.provision import folder

    with writing(out):
        made = folder.revoke(out, name)
    _tell(made, [], [], {"revoked": name}, output)


def _tell(made: Made, lines: list[tuple[str, str]], nodes: list[str], values: dict[str, Any], output: Format) -> None:
    """What to do next, first; last the fingerprints of these nodes, and of the roster where it is a new one."""
    from consilium.node.keys import grouped

    file, folder = made.file, str(made.path)
    digest, roster = file.terms.federation, file.sum_roster()
    fingerprints = {name: file.nodes[name].fingerprint(name) for name in nodes}
    shown = [("next", f"send {folder} to {made.who_joins}; there: consilium node join {made.path.name}")]
    if made.note:
        shown.append(("note", made.note))
    if made.before is not None and not made.same_federation:
        shown.append(("federation", f"a new one, {digest[:12]}: what the one before spent stays spent"))
    shown += lines
    if roster is not None and not made.same_federation:
        shown.append(("roster", f"{grouped(roster.digest)}: compare by telephone"))
    shown += [(name, f"{fingerprint}: compare by telephone") for name, fingerprint in fingerprints.items()]
    values = {"folder": folder, "version": file.version, "federation": digest, "join": made.who_joins, **values}
    values |= {"note": made.note, "roster": roster and grouped(roster.digest), "fingerprints": fingerprints}
    show(output, values, [f"{what:<11} {text}" for what, text in shown])
