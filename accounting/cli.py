"""``consilium accounting``: what given votes cost, and which parameters keep a run below a target.

Errors are told, and turned into exit codes, by `consilium.edge`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table

from consilium.accounting.checks import check_count
from consilium.accounting.errors import UnitError
from consilium.accounting.guarantee import rounded_up
from consilium.accounting.units import MechanismName, Neighbouring, Noise, Unit

if TYPE_CHECKING:
    from consilium.accounting.aggregators import Aggregator

app = typer.Typer(
    name="accounting",
    help="Privacy accounting on vote histograms: what a release costs, and parameters that meet a target.",
    no_args_is_help=True,
    # Local variables in a traceback would be votes.
    pretty_exceptions_show_locals=False,
)
Format = Literal["text", "json"]
MechanismOption = Annotated[
    MechanismName, typer.Option(case_sensitive=False, help="What adds noise; with its numbers below.")
]
ThresholdOption = Annotated[float | None, typer.Option(help="Confident, Interactive: votes that a query has to reach.")]
SigmaOption = Annotated[
    float | None, typer.Option(help="GNMax, Histogram: standard deviation of the noise on a count.")
]
Sigma1Option = Annotated[float | None, typer.Option(help="Confident, Interactive: that of the check's noise.")]
Sigma2Option = Annotated[float | None, typer.Option(help="Confident, Interactive: that of the label's noise.")]
GammaOption = Annotated[float | None, typer.Option(help="LNMax: inverse scale of its noise.")]
NeighbouringOption = Annotated[
    Neighbouring, typer.Option(help="How it may change: of k > 1 teachers a record replaced moves 2 votes, else 1.")
]


def _console() -> Console:
    # A table that is cut off loses numbers; a narrow terminal wraps its lines instead.
    console = Console(file=sys.stdout, highlight=False, soft_wrap=True)
    return console if console.width >= 110 else Console(file=sys.stdout, highlight=False, soft_wrap=True, width=110)


def _unit(unit: Unit | None, teachers_per_party: int) -> Unit:
    if unit is None and teachers_per_party != 1:
        raise UnitError(
            "--teachers-per-party above 1 needs --unit record, patient or party: they are different guarantees."
        )
    return unit or Unit.RECORD


def _aggregator(name: MechanismName, **numbers: float | None) -> Aggregator:
    from consilium.accounting.aggregators import Aggregator

    return Aggregator(name, tuple((key, value) for key, value in numbers.items() if value is not None))


def _print_json(value: dict[str, Any]) -> None:
    typer.echo(json.dumps(value, allow_nan=False))


@app.command()
def epsilon(
    mechanism: MechanismOption,
    votes: Annotated[Path, typer.Option(help="Votes (queries, classes): .npz with key 'votes', or .npy.")],
    delta: Annotated[float, typer.Option(help="Probability that the guarantee may fail.")],
    threshold: ThresholdOption = None,
    sigma: SigmaOption = None,
    sigma1: Sigma1Option = None,
    sigma2: Sigma2Option = None,
    gamma: GammaOption = None,
    queries: Annotated[int | None, typer.Option(help="Use only the first N queries.")] = None,
    classes: Annotated[
        int | None, typer.Option(help="The file holds (teachers, queries): the class of each vote, of so many classes.")
    ] = None,
    answers: Annotated[
        int | None, typer.Option(help="Most labels that may leave, fixed before; left out: all queries.")
    ] = None,
    unit: Annotated[Unit | None, typer.Option(help="Whose data may change.")] = None,
    neighbouring: NeighbouringOption = Neighbouring.REPLACE,
    teachers_per_party: Annotated[int, typer.Option(help="k: votes that a party moves.")] = 1,
    noise: Annotated[Noise, typer.Option(help="discrete as deployed, continuous as in the papers.")] = Noise.DISCRETE,
    sanitised: Annotated[
        bool, typer.Option("--sanitised", help="Plan a sanitised epsilon, and release one where all are answered.")
    ] = False,
    public_votes: Annotated[
        Path | None,
        typer.Option(help="PUBLIC votes on which the sanitised release is planned; else a made-up profile."),
    ] = None,
    format: Annotated[Format, typer.Option(help="What goes to stdout; json: one object, errors too.")] = "text",
) -> None:
    """Cost of releasing labels for these votes: worst cases, the published bound, and the exact cost.

    The worst case is of what leaves; below it stands what the papers charge, for the whole noisy histogram. What the
    votes decide is marked as secret: keep it to yourself. With --sanitised each call is one more release.
    """
    from consilium.accounting import vote_costs as costs
    from consilium.accounting.vote_files import load_votes

    result = costs.epsilon(
        load_votes(votes, queries, classes),
        _aggregator(mechanism, threshold=threshold, sigma=sigma, sigma1=sigma1, sigma2=sigma2, gamma=gamma),
        delta,
        _unit(unit, teachers_per_party),
        teachers_per_party,
        neighbouring=neighbouring,
        noise=noise,
        answers=answers,
        sanitised=sanitised,
        public_votes=public_votes,
    )
    if format == "json":
        _print_json(result.to_json())
        return
    console = _console()
    console.print(
        f"{result.mechanism}, {result.queries} queries, {result.classes} classes, {result.teachers} teachers,"
        f" {noise} noise; expected answers {result.answered:.1f}"
    )
    table = Table(f"epsilon at delta {delta:g}", "value", "", box=None)
    for name, value, publishable in result.rows():
        shown = "none" if value is None else rounded_up(value)
        table.add_row(name, shown, "may be published" if publishable else "secret")
    console.print(table)
    if sanitised:
        console.print(result.sanitised_text())
    console.print(str(result.guarantee))


@app.command("calibrate")
def calibrate_command(
    mechanism: MechanismOption,
    epsilon: Annotated[float, typer.Option(help="Worst-case epsilon that the run must not pass.")],
    delta: Annotated[float, typer.Option(help="Probability that the guarantee may fail.")],
    queries: Annotated[int, typer.Option(help="Most queries that will be asked.")],
    threshold: ThresholdOption = None,
    sigma: SigmaOption = None,
    sigma1: Sigma1Option = None,
    sigma2: Sigma2Option = None,
    gamma: GammaOption = None,
    answers: Annotated[int | None, typer.Option(help="Most labels that may leave; left out: all queries.")] = None,
    unit: Annotated[Unit | None, typer.Option(help="Whose data may change.")] = None,
    neighbouring: NeighbouringOption = Neighbouring.REPLACE,
    teachers_per_party: Annotated[int, typer.Option(help="k: votes that a party moves.")] = 1,
    noise: Annotated[Noise, typer.Option(help="discrete as deployed, continuous as in the papers.")] = Noise.DISCRETE,
    format: Annotated[Format, typer.Option(help="What goes to stdout; json: one object, errors too.")] = "text",
) -> None:
    """The least noise whose worst-case epsilon meets a target; a threshold and the ratio of two noises stay as given.

    The mechanism is given with any noise.
    It reads no votes, and must not: parameters that are tuned on private votes leak about them, and no epsilon covers
    that.
    """
    from consilium.accounting import vote_costs as costs
    from consilium.accounting.label_costs import worst_case

    counts = check_count(queries, "--queries", 1), answers
    claim: dict[str, Any] = {"unit": _unit(unit, teachers_per_party), "teachers_per_party": teachers_per_party}
    claim |= {"neighbouring": neighbouring, "noise": noise}
    given = _aggregator(mechanism, threshold=threshold, sigma=sigma, sigma1=sigma1, sigma2=sigma2, gamma=gamma)
    result = costs.calibrate(given, epsilon, delta, asked=counts[0], answered=answers, **claim)
    guarantee = worst_case(result.event(*counts, **claim), delta)
    if format == "json":
        _print_json({"mechanism": str(result), **dict(result.parameters), "guarantee": guarantee.to_json()})
        return
    console = _console()
    console.print(str(result))
    console.print(str(guarantee))
