"""Commands of the simulations: run, scenarios, report; and the audit of any run."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from consilium.models.devices import Device
from consilium.protocol.errors import ConfigError
from consilium.protocol.files import check_new, writing
from consilium.protocol.output import Format, FormatOption, QuietOption, show, tell_warnings, terminal_width, wrapped
from consilium.simulations.attack.command import attack_command
from consilium.simulations.data_check import app as data_app
from consilium.simulations.shipped import DEFAULT, Shipped, completing, menu, menu_lines

SIMULATE = "On one machine"  # above the commands of a simulation, in the list of all commands
_EXAMPLES = (
    "Examples: `consilium run`; `consilium run stroke-secure --seed 1`;"
    " `consilium run stroke --set federation.mechanism.sigma=60`; `consilium run my.toml --out results`"
)


SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override one key, e.g. federation.mechanism.sigma1=300."),
]
SeedOption = Annotated[int, typer.Option(min=0, help="Split, teachers, student and, where seeded, noise.")]


def run(
    context: typer.Context,
    scenario: Annotated[
        str,
        typer.Argument(
            help="Name of a shipped scenario or of a paper, or path of a scenario's .toml file.",
            autocompletion=completing(Shipped.SCENARIO, Shipped.PAPER),
        ),
    ] = DEFAULT,
    engine: Annotated[
        Literal["local", "ray"], typer.Option(help="local: this machine, no server. ray: `flwr run`.")
    ] = "local",
    seed: SeedOption = 0,
    device: Annotated[
        Device, typer.Option(help="Where networks are trained. auto: an NVIDIA GPU if there is one.")
    ] = "auto",
    out: Annotated[Path | None, typer.Option(help="New folder for the results; default runs/SCENARIO-TIME.")] = None,
    overrides: SetOption = None,
    output: FormatOption = Format.text,
    quiet: QuietOption = False,
) -> None:
    """Run a federation and write its report. Progress goes to stderr, as lines if it is no terminal. pate-2017,
    pate-2018 and near-zero are papers: a table of their figures beside ours. Keys of --set are then rows, seeds,
    workers, fast and data.path."""
    from consilium.report.progress import LOAD, showing

    if scenario in Shipped.PAPER.files():
        given = {
            name
            for name in ("engine", "seed")
            if (source := context.get_parameter_source(name)) is not None and source.name == "COMMANDLINE"
        }
        if "engine" in given:
            raise ConfigError("--engine is of no use for a paper", "Leave it out")
        seeds = [f"seeds=[{seed}]"] if "seed" in given else []
        run_paper(scenario, out, [*(overrides or []), *seeds], device, output, quiet)
        return
    Shipped.SCENARIO.path(scenario)  # this and the next are said before seconds of loading
    if out is not None:
        check_new(out)
    name = Path(scenario).stem
    with showing(quiet) as display, ExitStack() as stack:
        display.say(f"run of {name}, engine {engine}, seed {seed}")  # before libraries load
        started = None
        if engine != "ray":
            from consilium.simulations.engines.process import running_workers

            started = stack.enter_context(running_workers())
        display.update(LOAD, 0, 1)
        from consilium.simulations.progress import Showing, following
        from consilium.simulations.run import run_scenario
        from consilium.simulations.scenario import load_scenario

        def watch(events: Path) -> AbstractContextManager[None]:
            display.update(LOAD, 1, 1)
            return following(events, Showing(display))

        loaded = load_scenario(scenario, overrides or [], seed)
        folder = out or Path("runs") / f"{name}-{datetime.now():%Y%m%d-%H%M%S}"
        display.say(loaded.federation.name)
        with writing(folder):
            summary = run_scenario(name, loaded, engine, seed, folder, watch, device, started=started)
    _print_summary(summary, output, quiet)


def run_paper(name: str, out: Path | None, overrides: list[str], device: Device, output: Format, quiet: bool) -> None:
    """Run a paper, and show its table. A folder that has rows of it already keeps them."""
    from consilium.models.devices import using_device
    from consilium.report.progress import showing
    from consilium.simulations.papers.description import choice_of
    from consilium.simulations.papers.run import PaperRun, as_lines

    folder = out or Path("runs") / f"{name}-{datetime.now():%Y%m%d-%H%M%S}"
    with showing(quiet) as display, writing(folder), using_device(device):
        results = PaperRun(Shipped.PAPER.path(name), choice_of(overrides), folder).run(display)
    show(output, results, () if quiet else as_lines(results))


def plan(
    scenario: Annotated[
        str,
        typer.Argument(
            help="Name of a shipped scenario, or path of a .toml file.", autocompletion=completing(Shipped.SCENARIO)
        ),
    ] = DEFAULT,
    seed: SeedOption = 0,
    overrides: SetOption = None,
    output: FormatOption = Format.text,
) -> None:
    """What each epsilon costs in noise, and whether the votes stand out of it: a rule, known before anything is run."""
    from consilium.simulations.plan import lines_of, plan_of

    found = plan_of(scenario, overrides or [], seed)
    show(output, found, lines_of(found))


def scenarios(output: FormatOption = Format.text) -> None:
    """List what `consilium run` can run: what happens, how long it takes, and what it needs."""
    entries = menu()
    show(output, entries, menu_lines(**entries))


def show_run(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a finished run.")],
    output: FormatOption = Format.text,
) -> None:
    """Print the summary of a finished run again."""
    from consilium.simulations.folder import read_summary

    _print_summary({**read_summary(run), "out": str(run.resolve())}, output)


def report(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A run's folder, or a coordinator's folder.")],
    out: Annotated[
        Path | None, typer.Option(help="File to write; else report.html or report-public.html in the run's folder.")
    ] = None,
    public: Annotated[bool, typer.Option(help="Leave out whatever the guarantee does not cover.")] = False,
    student: Annotated[
        Path | None, typer.Option(metavar="DIR", help="A student's folder, for its results; deployed runs only.")
    ] = None,
    output: FormatOption = Format.text,
) -> None:
    """Draw the report of a run, simulated or deployed; with --public, the version that may be shown to anybody."""
    from consilium.simulations.audit import report_of
    from consilium.simulations.folder import renew_sum
    from consilium.simulations.report.build import write_report

    data, run_dir = report_of(path, student)
    name = "report-public.html" if public else "report.html"
    write_report(data, out or run_dir / name, public=public)
    if out is None:
        renew_sum(run_dir, name)
    show(output, {"report": str(out or run_dir / name), "public": public}, [f"{out or run_dir / name}"])


def audit_run(
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="A run's folder, a coordinator's folder, or a run in it.")
    ],
    student: Annotated[
        list[Path] | None, typer.Option(metavar="DIR", help="A student's own folder, to be checked too; repeat.")
    ] = None,
    output: FormatOption = Format.text,
) -> None:
    """Check a run against its ledger. Exit code 1: something does not hold."""
    from consilium.coordinator.verify import holds
    from consilium.simulations.audit import audit_path, is_simulated

    run = audit_path(path, student or [])
    sound, kind = holds(run.findings), "simulation" if is_simulated(path) else "deployed"
    lines = [f"{finding.verdict:21}  {finding.check}: {finding.found}" for finding in run.findings]
    conclusion = "the run is what it claims to be"
    if not sound:
        conclusion = "THE RUN IS NOT WHAT IT CLAIMS TO BE"
    elif not run.finished:
        conclusion = "the run is not finished; its ledger so far holds"
    told = {"path": str(path), "kind": kind, "finished": run.finished, "holds": sound}
    show(output, {**told, "findings": [asdict(finding) for finding in run.findings]}, [*lines, conclusion])
    if not sound:
        raise typer.Exit(1)


def register(app: typer.Typer) -> None:
    """Add the commands to the command line's root."""
    app.command(rich_help_panel=SIMULATE, epilog=_EXAMPLES)(run)
    app.command(rich_help_panel=SIMULATE)(plan)
    app.command(rich_help_panel=SIMULATE)(scenarios)
    app.add_typer(data_app, name="data", rich_help_panel=SIMULATE)
    app.command("attack", rich_help_panel=SIMULATE)(attack_command)
    app.command("show", rich_help_panel=SIMULATE)(show_run)
    app.command(rich_help_panel=SIMULATE)(report)


def _print_summary(summary: dict[str, Any], output: Format, quiet: bool = False) -> None:
    """The summary for people, what it warns of, and last where the report lies; of JSON the warnings beside it."""
    if output is Format.json:
        show(output, summary, ())
    if quiet:
        return
    if output is Format.json:
        tell_warnings(summary["warnings"], output)
        return
    from consilium.simulations.council.runs import afterwards, terminal

    typer.echo(terminal(summary, terminal_width()))
    for line in afterwards(summary):
        typer.echo(wrapped(line, "  ", "  "))
    tell_warnings(summary["warnings"], output)
    typer.echo(f"Report: {summary['out']}/report.html ({summary['seconds']['total']:.1f} s)")
