"""``consilium accounting``: what given votes cost, what may be promised, and the least noise for a target.

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

from consilium.accounting.guarantees import rounded_up
from consilium.accounting.units import MechanismName, Neighbouring, Noise, Unit

if TYPE_CHECKING:
    from consilium.accounting.events import Mechanism
    from consilium.accounting.guarantees import Guarantee

app = typer.Typer(
    name="accounting",
    help="Privacy accounting on vote histograms: what a release costs, and parameters that meet a target.",
    no_args_is_help=True,
    # Local variables in a traceback would be votes.
    pretty_exceptions_show_locals=False,
)
Format = Annotated[Literal["text", "json"], typer.Option(help="What goes to stdout; json: one object, errors too.")]
MechanismOption = Annotated[
    MechanismName, typer.Option("--mechanism", case_sensitive=False, help="What adds noise; with its numbers below.")
]
ThresholdOption = Annotated[float | None, typer.Option(help="Confident, Interactive: votes that a query has to reach.")]
SigmaOption = Annotated[
    float | None, typer.Option(help="GNMax, Histogram: standard deviation of the noise on a count; Difference: on it.")
]
Sigma1Option = Annotated[float | None, typer.Option(help="Confident, Interactive: that of the check's noise.")]
Sigma2Option = Annotated[float | None, typer.Option(help="Confident, Interactive: that of the label's noise.")]
GammaOption = Annotated[float | None, typer.Option(help="LNMax: inverse scale of its noise.")]
DeltaOption = Annotated[float, typer.Option(help="Probability that the guarantee may fail.")]
QueriesOption = Annotated[int, typer.Option(min=1, help="Most queries that will be asked.")]
AnswersOption = Annotated[
    int | None, typer.Option(help="Most labels that may leave, fixed before; left out: all queries.")
]
UnitOption = Annotated[Unit, typer.Option(help="Whose data may change.")]
NeighbouringOption = Annotated[
    Neighbouring, typer.Option(help="How it may change: of k > 1 teachers a record replaced moves 2 votes, else 1.")
]
TeachersOption = Annotated[int, typer.Option(help="k: votes that a party moves.")]
NoiseOption = Annotated[Noise, typer.Option(help="discrete as deployed, continuous as in the papers.")]


def _console() -> Console:
    # A table that is cut off loses numbers; a narrow terminal wraps its lines instead.
    console = Console(file=sys.stdout, highlight=False, soft_wrap=True)
    return console if console.width >= 110 else Console(file=sys.stdout, highlight=False, soft_wrap=True, width=110)


def _mechanism(name: MechanismName, **numbers: float | None) -> Mechanism:
    from consilium.accounting.mechanisms import mechanism_of

    return mechanism_of(name, {key: value for key, value in numbers.items() if value is not None})


def _print_json(value: dict[str, Any]) -> None:
    typer.echo(json.dumps(value, allow_nan=False))


@app.command()
def epsilon(
    mechanism: MechanismOption,
    votes: Annotated[Path, typer.Option(help="Votes (queries, classes): .npz with key 'votes', or .npy.")],
    delta: DeltaOption,
    threshold: ThresholdOption = None,
    sigma: SigmaOption = None,
    sigma1: Sigma1Option = None,
    sigma2: Sigma2Option = None,
    gamma: GammaOption = None,
    classes: Annotated[
        int | None, typer.Option(help="The file holds (teachers, queries): the class of each vote, of so many classes.")
    ] = None,
    answers: AnswersOption = None,
    unit: UnitOption = Unit.PARTY,
    neighbouring: NeighbouringOption = Neighbouring.REPLACE,
    teachers_per_party: TeachersOption = 1,
    noise: NoiseOption = Noise.DISCRETE,
    sanitised: Annotated[
        bool, typer.Option("--sanitised", help="Plan a sanitised epsilon, and release one where all are answered.")
    ] = False,
    public_votes: Annotated[
        Path | None, typer.Option(help="PUBLIC votes on which it is planned; else a made-up profile.")
    ] = None,
    format: Format = "text",
) -> None:
    """Cost of releasing labels for these votes: worst cases, the published bound, and the exact cost.

    The worst case is of all that leaves; below it stands what the papers charge, for the whole noisy histogram. What
    the votes decide is marked as secret: keep it to yourself. With --sanitised or --public-votes each call is one more
    release.
    """
    from consilium.accounting import vote_costs as costs

    result = costs.epsilon(
        votes,
        _mechanism(mechanism, threshold=threshold, sigma=sigma, sigma1=sigma1, sigma2=sigma2, gamma=gamma),
        delta,
        unit,
        teachers_per_party,
        neighbouring=neighbouring,
        noise=noise,
        answers=answers,
        classes=classes,
        sanitised=sanitised,
        public_votes=public_votes,
    )
    if format == "json":
        _print_json(result.to_json())
        return
    console = _console()
    console.print(f"{result.mechanism}, {result.shape}, {noise} noise; expected answers {result.answered:.1f}")
    table = Table(f"epsilon at delta {delta:g}", "value", "", box=None)
    for name, value, publishable in result.rows():
        shown = "not computed" if value is None else rounded_up(value)
        table.add_row(name, shown, "may be published" if publishable else "secret")
    console.print(table)
    if sanitised or public_votes is not None:
        console.print(result.sanitised_text())
    console.print(str(result.guarantee))


def _print_promise(mechanism: Mechanism, guarantee: Guarantee, format: str) -> None:
    if format == "json":
        _print_json({"mechanism": str(mechanism), **mechanism.parameters(), "guarantee": guarantee.to_json()})
    else:
        console = _console()
        console.print(str(mechanism))
        console.print(str(guarantee))


@app.command("guarantee")
def guarantee_command(
    mechanism: MechanismOption,
    delta: DeltaOption,
    queries: QueriesOption,
    threshold: ThresholdOption = None,
    sigma: SigmaOption = None,
    sigma1: Sigma1Option = None,
    sigma2: Sigma2Option = None,
    gamma: GammaOption = None,
    answers: AnswersOption = None,
    unit: UnitOption = Unit.PARTY,
    neighbouring: NeighbouringOption = Neighbouring.REPLACE,
    teachers_per_party: TeachersOption = 1,
    noise: NoiseOption = Noise.DISCRETE,
    format: Format = "text",
) -> None:
    """What may be promised for so many queries before there are any votes."""
    from consilium.accounting import vote_costs as costs

    given = _mechanism(mechanism, threshold=threshold, sigma=sigma, sigma1=sigma1, sigma2=sigma2, gamma=gamma)
    promised = costs.guarantee(
        given, queries, answers, delta,
        unit=unit, teachers_per_party=teachers_per_party, neighbouring=neighbouring, noise=noise,
    )  # fmt: skip
    _print_promise(given, promised, format)


@app.command("calibrate")
def calibrate_command(
    mechanism: MechanismOption,
    epsilon: Annotated[float, typer.Option(help="Worst-case epsilon that the run must not pass.")],
    delta: DeltaOption,
    queries: QueriesOption,
    threshold: ThresholdOption = None,
    sigma: SigmaOption = None,
    sigma1: Sigma1Option = None,
    sigma2: Sigma2Option = None,
    gamma: GammaOption = None,
    answers: AnswersOption = None,
    unit: UnitOption = Unit.PARTY,
    neighbouring: NeighbouringOption = Neighbouring.REPLACE,
    teachers_per_party: TeachersOption = 1,
    noise: NoiseOption = Noise.DISCRETE,
    format: Format = "text",
) -> None:
    """The least noise whose worst-case epsilon meets a target; a threshold and the ratio of two noises stay as given.

    The mechanism is given with any noise.
    It reads no votes, and must not: parameters that are tuned on private votes leak about them, and no epsilon covers
    that.
    """
    from consilium.accounting import vote_costs as costs

    given = _mechanism(mechanism, threshold=threshold, sigma=sigma, sigma1=sigma1, sigma2=sigma2, gamma=gamma)
    claim: dict[str, Any] = {
        "unit": unit, "teachers_per_party": teachers_per_party, "neighbouring": neighbouring, "noise": noise,
    }  # fmt: skip
    found = costs.calibrate(given, epsilon, delta, asked=queries, answered=answers, **claim)
    _print_promise(found, costs.guarantee(found, queries, answers, delta, **claim), format)
