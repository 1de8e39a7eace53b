"""``consilium accounting``: what given votes cost, what may be promised, and the least noise for a target.

Errors are told, and turned into exit codes, by `consilium.edge`.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

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
_MostQueries = Annotated[int, typer.Option(min=1, help="Most queries that will be asked.")]


class _Given(NamedTuple):
    """What every command is given; ``claim``: whose data may change, and how, and which noise is drawn."""

    mechanism: Mechanism
    delta: float
    answers: int | None
    claim: dict[str, Any]
    as_json: bool

    def print_json(self, value: dict[str, Any]) -> None:
        typer.echo(json.dumps(value, allow_nan=False))

    def print_promise(self, mechanism: Mechanism, guarantee: Guarantee) -> None:
        if self.as_json:
            self.print_json({"mechanism": str(mechanism), **mechanism.parameters(), "guarantee": guarantee.to_json()})
        else:
            console = _console()
            console.print(str(mechanism))
            console.print(str(guarantee))


def _given(
    mechanism: Annotated[
        MechanismName, typer.Option(case_sensitive=False, help="What adds noise; with its numbers below.")
    ],
    delta: Annotated[float, typer.Option(help="Probability that the guarantee may fail.")],
    threshold: Annotated[
        float | None, typer.Option(help="Confident, Interactive: votes that a query has to reach.")
    ] = None,
    sigma: Annotated[
        float | None,
        typer.Option(help="GNMax, Histogram: standard deviation of the noise on a count; Difference: on it."),
    ] = None,
    sigma1: Annotated[float | None, typer.Option(help="Confident, Interactive: that of the check's noise.")] = None,
    sigma2: Annotated[float | None, typer.Option(help="Confident, Interactive: that of the label's noise.")] = None,
    gamma: Annotated[float | None, typer.Option(help="LNMax: inverse scale of its noise.")] = None,
    answers: Annotated[
        int | None, typer.Option(help="Most labels that may leave, fixed before; left out: all queries.")
    ] = None,
    unit: Annotated[Unit, typer.Option(help="Whose data may change.")] = Unit.PARTY,
    neighbouring: Annotated[
        Neighbouring, typer.Option(help="How it may change: of k > 1 teachers a record replaced moves 2 votes, else 1.")
    ] = Neighbouring.REPLACE,
    teachers_per_party: Annotated[int, typer.Option(help="k: votes that a party moves.")] = 1,
    noise: Annotated[Noise, typer.Option(help="discrete as deployed, continuous as in the papers.")] = Noise.DISCRETE,
    format: Annotated[
        Literal["text", "json"], typer.Option(help="What goes to stdout; json: one object, errors too.")
    ] = "text",
) -> _Given:
    from consilium.accounting.mechanisms import mechanism_of

    numbers = {"threshold": threshold, "sigma": sigma, "sigma1": sigma1, "sigma2": sigma2, "gamma": gamma}
    claim = {"unit": unit, "neighbouring": neighbouring, "teachers_per_party": teachers_per_party, "noise": noise}
    made = mechanism_of(mechanism, {key: value for key, value in numbers.items() if value is not None})
    return _Given(made, delta, answers, claim, format == "json")


def _command(name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command with the options of `_given`, whose result it gets, and its own."""

    def added(function: Callable[..., None]) -> Callable[..., None]:
        shared = inspect.signature(_given, eval_str=True).parameters
        _, *own = inspect.signature(function, eval_str=True).parameters.values()

        def command(**options: Any) -> None:
            function(_given(**{key: options.pop(key) for key in shared}), **options)

        every = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in (*shared.values(), *own)]
        command.__signature__ = inspect.Signature(every)  # pyright: ignore[reportFunctionMemberAccess]
        command.__annotations__ = {each.name: each.annotation for each in every}
        command.__doc__ = function.__doc__
        app.command(name)(command)
        return function

    return added


def _console() -> Console:
    # A table that is cut off loses numbers; a narrow terminal wraps its lines instead.
    console = Console(file=sys.stdout, highlight=False, soft_wrap=True)
    return console if console.width >= 110 else Console(file=sys.stdout, highlight=False, soft_wrap=True, width=110)


@_command("epsilon")
def epsilon(
    given: _Given,
    votes: Annotated[Path, typer.Option(help="Votes (queries, classes): .npz with key 'votes', or .npy.")],
    sanitised: Annotated[
        bool, typer.Option("--sanitised", help="Plan a sanitised epsilon, and release one where all are answered.")
    ] = False,
    public_votes: Annotated[
        Path | None, typer.Option(help="PUBLIC votes on which it is planned; else a made-up profile.")
    ] = None,
) -> None:
    """Cost of releasing labels for these votes: worst cases, the published bound, and the exact cost.

    The worst case is of all that leaves; below it stands what the papers charge, for the whole noisy histogram. What
    the votes decide is marked as secret: keep it to yourself. With --sanitised or --public-votes each call is one more
    release.
    """
    from consilium.accounting import vote_costs as costs

    result = costs.epsilon(
        votes, given.mechanism, given.delta,
        answers=given.answers, sanitised=sanitised, public_votes=public_votes, **given.claim,
    )  # fmt: skip
    if given.as_json:
        given.print_json(result.to_json())
        return
    console = _console()
    drawn = f"{given.claim['noise']} noise; expected answers {result.answered:.1f}"
    console.print(f"{result.mechanism}, {result.shape}, {drawn}")
    table = Table(f"epsilon at delta {given.delta:g}", "value", "", box=None)
    for name, value, publishable in result.rows():
        shown = "not computed" if value is None else rounded_up(value)
        table.add_row(name, shown, "may be published" if publishable else "secret")
    console.print(table)
    if sanitised or public_votes is not None:
        console.print(result.sanitised_text())
    console.print(str(result.guarantee))


@_command("guarantee")
def guarantee_command(given: _Given, queries: _MostQueries) -> None:
    """What may be promised for so many queries before there are any votes."""
    from consilium.accounting import vote_costs as costs

    promised = costs.guarantee(given.mechanism, queries, given.answers, given.delta, **given.claim)
    given.print_promise(given.mechanism, promised)


@_command("calibrate")
def calibrate_command(
    given: _Given,
    epsilon: Annotated[float, typer.Option(help="Worst-case epsilon that the run must not pass.")],
    queries: _MostQueries,
) -> None:
    """The least noise whose worst-case epsilon meets a target; a threshold and the ratio of two noises stay as given.

    The mechanism is given with any noise.
    It reads no votes, and must not: parameters that are tuned on private votes leak about them, and no epsilon covers
    that.
    """
    from consilium.accounting import vote_costs as costs

    counts, delta, claim = {"asked": queries, "answered": given.answers}, given.delta, given.claim
    found = costs.calibrate(given.mechanism, epsilon, delta, **counts, **claim)
    given.print_promise(found, costs.guarantee(found, **counts, delta=delta, **claim))
