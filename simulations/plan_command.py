"""`consilium plan FILE`: mechanism, noise, queries and student from public facts, and what to expect of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from consilium.protocol.errors import ConfigError, OutputExists
from consilium.protocol.files import replace_text, writing
from consilium.protocol.output import Format, FormatOption, QuietOption, show
from consilium.simulations.shipped import Shipped, completing

UNFIT = 1
"""Exit code of --strict where there is a warning."""


def plan_command(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="A scenario, by name or .toml file, or a provisioning file.",
            autocompletion=completing(Shipped.SCENARIO),
        ),
    ],
    epsilon: Annotated[
        float | None,
        typer.Option(
            help="Plan to this epsilon, whatever mechanism and query budget the file has; else what the file says."
        ),
    ] = None,
    labelled: Annotated[
        Path | None,
        typer.Option(metavar="NPZ", help="Public rows with labels (features, x, y): real teachers on made-up parties."),
    ] = None,
    rows_per_party: Annotated[
        int, typer.Option(min=2, help="Of a made-up party, with --labelled; what is known of the parties' sizes.")
    ] = 50,
    seed: Annotated[int, typer.Option(min=0, help="Of a scenario: which rows are public.")] = 0,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Override one key, e.g. federation.minimum_parties=20."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="New file: FILE with the plan in it, to be run or provisioned as it stands.")
    ] = None,
    units: Annotated[
        bool,
        typer.Option("--units", help="Plan for a record, a patient and a party in turn, and say what each protects."),
    ] = False,
    cost: Annotated[bool, typer.Option("--cost", hidden=True, help="Gone: see docs/scale.md.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit code 1 where there is a warning.")] = False,
    output: FormatOption = Format.text,
    quiet: QuietOption = False,
) -> None:
    """Choose mechanism, noise, queries and student before a run, and forecast what it will be worth.

    Only public facts are looked at: numbers of parties and classes, the public rows, epsilon. Where the file has a
    mechanism, that one is forecast.
    """
    import tomli_w

    from consilium.node.progress import progress_on, showing
    from consilium.simulations.plan_subject import subject_of

    if epsilon is not None and not 0 < epsilon < float("inf"):
        raise ConfigError(f"--epsilon is {epsilon}, it must be a number above 0", "Give, for example, --epsilon 1")
    if out is not None and out.exists():
        raise OutputExists(f"{out} is already there", "Choose another file")
    if cost:
        raise ConfigError(
            "--cost is no option any more: what votes cost each node stands in docs/scale.md, by size and way to"
            " collect them",
            "In a checkout, python -m benchmarks.cost.plans FILE computes it for a file",
        )
    if units:
        _for_every_unit(file, overrides or [], seed, epsilon, labelled is not None or out is not None, output, quiet)
        return
    subject = subject_of(file, overrides or [], seed, epsilon)
    with showing(quiet) as display:
        planned = subject.planned(labelled, rows_per_party, progress_on(display))
    if out is not None:
        with writing(out):
            replace_text(out, tomli_w.dumps(subject.resolved(planned)))
    lines = [] if quiet else [*planned.lines(), *subject.to_write(planned)]
    show(output, {"file": file, **planned.to_json()}, lines)
    if strict and planned.cautions:
        raise typer.Exit(UNFIT)


def _for_every_unit(
    file: str, overrides: list[str], seed: int, epsilon: float | None, more: bool, output: Format, quiet: bool
) -> None:
    from consilium.node.progress import progress_on, showing
    from consilium.simulations.plan_subject import for_every_unit

    if more:
        raise ConfigError("--units compares plans, and writes none", "Leave --labelled and --out out, or --units")
    lines, plans = list[str](), list[dict[str, object]]()
    with showing(quiet) as display:
        for unit, planned in for_every_unit(file, overrides, seed, epsilon, progress_on(display)):
            lines += ["", f"{unit.value:10} protects {unit.protects}"]
            table: dict[str, object] = {"unit": unit.value, "protects": unit.protects}
            if isinstance(planned, str):
                lines.append(f"{'':10} no plan: {planned}")
                plans.append({**table, "no_plan": planned})
                continue
            facts = planned.facts
            teachers = f"{facts.teachers_per_party} teacher{'s' * (facts.teachers_per_party > 1)} a party"
            lines += [f"{'':10} {line}" for line in (teachers, *planned.forecast.lines()[:2])]
            lines += [f"{'':10} WARNING {caution.text}" for caution in planned.cautions]
            plans.append({**table, **planned.to_json()})
    show(output, {"file": file, "units": plans}, [] if quiet else lines[1:])
