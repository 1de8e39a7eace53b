"""`consilium study`: run a study, list those that ship."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from consilium.protocol.output import Format, FormatOption, QuietOption, show, tell_warnings
from consilium.simulations.shipped import Shipped, completing

app = typer.Typer(no_args_is_help=True, help="Compare divisions, mechanisms and methods over seeds (`study NAME`).")
_MOST_TOLD = 10


@app.command("run")
def run_command(
    study: Annotated[
        str,
        typer.Argument(
            metavar="STUDY",
            help="Name of a shipped study, or path of a .toml file.",
            autocompletion=completing(Shipped.STUDY),
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(help="Folder of the results; default runs/study-NAME. The same study goes on in it.")
    ] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override one key of its base scenario.")
    ] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="So many seeds, from 0, in place of the file's.")] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, max=1024, help="Processes on this machine; default one for each core.")
    ] = None,
    cluster: Annotated[
        str, typer.Option(metavar="ADDRESS", help="HOST:PORT of a Ray cluster that computes instead, or auto.")
    ] = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what there is to do and about how long it takes, and do nothing.")
    ] = False,
    output: FormatOption = Format.text,
    quiet: QuietOption = False,
) -> None:
    """Run a study and write its report. What was computed before is not computed again, also after an interruption."""
    from consilium.report.progress import showing

    Shipped.STUDY.path(study)  # a name that is none is said before seconds of loading
    name = Path(study).stem
    folder = out or Path("runs") / f"study-{name}"
    with showing(quiet or dry_run) as display:
        display.say(f"study {name}, results in {folder}")  # before libraries load, for seconds
        from consilium.simulations.study.run import outlook, run_study
        from consilium.simulations.study.spec import load_study

        spec = load_study(study, overrides or [], seeds)
        count = workers or os.cpu_count() or 1
        if dry_run:
            facts, lines = outlook(spec, folder, count)
            show(output, facts, lines)
            raise typer.Exit(1 if facts["failed"] else 0)
        again = ["consilium", "study", study, "--out", str(folder)]
        again += [word for override in overrides or [] for word in ("--set", override)]
        again += ["--seeds", str(seeds)] if seeds is not None else []
        again += ["--cluster", cluster] if cluster else []
        summary = run_study(spec, folder, count, display.update, shlex.join(again), cluster)
    show(output, summary, [] if quiet else _lines(summary))
    if not quiet:
        tell_warnings(summary["warnings"], output)
    if summary["failed"]:
        raise typer.Exit(1)


@app.command("model")
def model_command(
    scenario: Annotated[
        str,
        typer.Argument(
            metavar="SCENARIO",
            help="Name of a shipped scenario, or path of a .toml file.",
            autocompletion=completing(Shipped.SCENARIO),
        ),
    ],
    out: Annotated[Path, typer.Option(help="New folder for the model and its cards.")],
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override one key of the scenario.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the partition. The noise follows none.")] = 0,
    output: FormatOption = Format.text,
) -> None:
    """Save the model of private gradient descent, which takes no teachers. `consilium predict` uses it."""
    Shipped.SCENARIO.path(scenario)
    from consilium.models.devices import one_thread
    from consilium.simulations.scenario import load_scenario
    from consilium.simulations.study.model import lines_of, save_model

    with one_thread():
        card = save_model(load_scenario(scenario, overrides or []), seed, out)
    show(output, card, lines_of(card, out))


@app.command("list")
def list_command(output: FormatOption = Format.text) -> None:
    """List the studies that come with the package."""
    from consilium.simulations.study.spec import load_study

    studies = [{"name": name, "title": load_study(name).title} for name in Shipped.STUDY.files()]
    show(output, {"studies": studies}, (f"{study['name']:12} {study['title']}" for study in studies))


def _lines(summary: dict[str, Any]) -> list[str]:
    lines = [
        *(f"{number}. {sentence}" for number, sentence in enumerate(summary["answers"], 1)),
        f"{summary['cells']:,} cells, {summary['found']:,} of them computed before, {summary['seconds']:.1f} s",
    ]
    lines += [f"not computed: {entry['place']}: {entry['why']}" for entry in summary["failed"][:_MOST_TOLD]]
    if (more := len(summary["failed"]) - _MOST_TOLD) > 0:
        lines.append(f"and {more} more, see {summary['out']}/study.json")
    if summary["absent"]:
        lines.append(f"{summary['absent']:,} cells have no such method: the report says why")
    return [*lines, f"results: {summary['results']}", f"report: {summary['report']}"]
