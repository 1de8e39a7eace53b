"""``consilium audit``: checks of claims. `mechanism` plays the distinguishing game against a mechanism."""

from __future__ import annotations

import secrets
import sys
from typing import Annotated

import typer
from rich.console import Console

from consilium.accounting.units import Neighbouring, Unit
from consilium.protocol.errors import ConfigError
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


def _console() -> Console:
    # A table that is cut off loses numbers; a narrow terminal wraps its lines instead.
    console = Console(file=sys.stdout, highlight=False, soft_wrap=True, markup=False)
    wide = Console(file=sys.stdout, highlight=False, soft_wrap=True, markup=False, width=140)
    return console if console.width >= 140 else wide


@audit_app.command("mechanism")
def audit_mechanism_command(
    name: Annotated[str, typer.Argument(help="lnmax, gnmax, confident, interactive, histogram, immutable, ...")],
    settings: Annotated[list[str] | None, typer.Option("--set", help="A parameter, key=value; repeat.")] = None,
    queries: Annotated[int, typer.Option(help="Queries in one run.")] = 100,
    runs: Annotated[int, typer.Option(help="Runs of each of the two databases, for each pair measured.")] = 20_000,
    delta: Annotated[float, typer.Option(help="Delta of the claim.")] = 1e-5,
    confidence: Annotated[float, typer.Option(help="Of all bounds together.")] = 0.999,
    claim: Annotated[
        float | None, typer.Option(help="Epsilon claimed at delta; else the worst case of the mechanism's own event.")
    ] = None,
    unit: Annotated[Unit, typer.Option(help="Whose data may change.")] = Unit.RECORD,
    neighbouring: Annotated[Neighbouring, typer.Option(help="How it may change.")] = Neighbouring.REPLACE,
    teachers_per_party: Annotated[int, typer.Option(help="k: votes that a party moves.")] = 1,
    classes: Annotated[int, typer.Option(help="Classes to vote for.")] = 3,
    answered_cap: Annotated[int | None, typer.Option(help="Most answers in one run; else several are tried.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Of the noise; else a fresh one each time.")] = None,
    system_noise: Annotated[bool, typer.Option("--system-noise", help="The noise of a deployment; slow.")] = False,
    one_call: Annotated[
        bool, typer.Option("--one-call", help="Draw all runs at once: faster, cannot see noise reused in a call.")
    ] = False,
    output: FormatOption = Format.text,
    quiet: QuietOption = False,
) -> None:
    """A lower bound on epsilon from draws on worst-case neighbouring votes, against what is claimed.

    Exit code 0: the claim holds up (no proof). 1: the lower bound exceeds the claim. 2: usage.
    """
    # Imported here, so that `consilium --help` does not wait for them.
    from consilium.coordinator.distinguish import GameSetup, UserClaims, audit_mechanism, build_mechanism
    from consilium.coordinator.distinguish.audit import audit_to_json, print_audit
    from consilium.node.progress import GAME, progress_on, showing, stage
    from consilium.protocol.noise import SeededNoise, SystemNoise

    if seed is not None and system_noise:
        raise ConfigError("--seed and --system-noise exclude each other", "The system's noise has no seed; give one.")
    if claim is not None and not claim >= 0:
        raise ConfigError(f"--claim is {claim}, it must be at least 0", "Give the epsilon that is claimed.")
    mechanism = build_mechanism(name, settings or [])
    setup = GameSetup(
        queries=queries,
        runs=runs,
        delta=delta,
        confidence=confidence,
        unit=unit,
        neighbouring=neighbouring,
        teachers_per_party=teachers_per_party,
        classes=classes,
        answered_cap=answered_cap,
        one_call=one_call,
    )
    chosen = secrets.randbits(32) if seed is None else seed
    noise, words = (SystemNoise(), "the system's noise") if system_noise else (SeededNoise(chosen), f"--seed {chosen}")
    with showing(quiet) as display, stage(progress_on(display), GAME):
        audit = audit_mechanism(mechanism, noise, setup, None if claim is None else UserClaims(claim, delta))
    if output is Format.json:
        show(output, audit_to_json(audit, words), ())
    elif not quiet:
        print_audit(audit, _console(), words)
    if audit.violated:
        raise typer.Exit(1)
