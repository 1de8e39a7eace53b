"""``consilium audit``: checks of claims. `mechanism` plays the distinguishing game against a mechanism."""

from __future__ import annotations

import secrets
from typing import Annotated

import typer

from consilium.protocol.output import Format, FormatOption, QuietOption, show

audit_app = typer.Typer(
    name="audit",
    help="Checks of privacy claims: a mechanism against its epsilon.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
)


@audit_app.callback()
def _audit() -> None:
    """Checks of privacy claims."""


@audit_app.command("mechanism")
def audit_mechanism_command(
    name: Annotated[
        str, typer.Argument(help="gnmax, difference, lnmax, confident, interactive, histogram, immutable, ...")
    ],
    settings: Annotated[list[str] | None, typer.Option("--set", help="A parameter, key=value; repeat.")] = None,
    queries: Annotated[int, typer.Option(min=1, help="Queries in one run.")] = 100,
    runs: Annotated[
        int, typer.Option(min=200, help="Runs of each of the two databases, for each pair of votes.")
    ] = 20_000,
    delta: Annotated[float, typer.Option(min=1e-12, max=0.5, help="Delta of the claim.")] = 1e-5,
    confidence: Annotated[float, typer.Option(min=0.5, max=0.999999, help="Of all bounds together.")] = 0.999,
    claim: Annotated[
        float | None,
        typer.Option(min=0, help="Epsilon claimed at delta; else the worst case of the mechanism's own event."),
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Of the noise; else a fresh one each time.")] = None,
    output: FormatOption = Format.text,
    quiet: QuietOption = False,
) -> None:
    """A lower bound on epsilon from draws on worst-case neighbouring votes, against what is claimed.

    Exit code 0: the claim holds up (no proof). 1: the lower bound exceeds the claim. 2: usage.
    """
    # Imported here, so that `consilium --help` does not wait for them.
    from consilium.coordinator.distinguish import GameSetup, audit_mechanism, build_mechanism
    from consilium.protocol.noise import SeededNoise
    from consilium.report.progress import GAME, showing, stage

    mechanism = build_mechanism(name, settings or [])
    setup = GameSetup(queries=queries, runs=runs, delta=delta, confidence=confidence)
    chosen = secrets.randbits(32) if seed is None else seed
    with showing(quiet) as display, stage(display.update, GAME):
        audit = audit_mechanism(mechanism, SeededNoise(chosen), setup, claim)
    lines = [] if quiet else [*audit.lines(), f"Again: --seed {chosen}"]
    show(output, {**audit.to_json(), "seed": chosen}, lines)
    if audit.violated:
        raise typer.Exit(1)
