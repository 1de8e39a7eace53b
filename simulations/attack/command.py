"""`consilium attack RUN|SCENARIO`: what a sceptic tries before signing."""

from __future__ import annotations

import json
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from consilium.protocol.errors import ConfigError
from consilium.protocol.output import Format, FormatOption, QuietOption, show

if TYPE_CHECKING:
    from consilium.simulations.divide import Case

FILE = "attack.json"


def attack_command(
    where: Annotated[str, typer.Argument(metavar="RUN|SCENARIO", help="A simulated run's folder, or a scenario.")],
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only",
            metavar="PART",
            help="faults, votes, differences, attributes, liars or membership; all by default. Repeat.",
        ),
    ] = None,
    budget: Annotated[float, typer.Option(metavar="MINUTES", help="Of one processor, about.")] = 10.0,
    overrides: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Override one key of a SCENARIO, e.g. federation.collection=secure."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of a SCENARIO's federation, and of what attackers draw.")] = 0,
    out: Annotated[
        Path | None, typer.Option(help="New folder for the results of a SCENARIO; default runs/attack-SCENARIO-TIME.")
    ] = None,
    output: FormatOption = Format.text,
    quiet: QuietOption = False,
) -> None:
    """Attack a simulated federation, and the same one without noise: who can find a record, a patient, a party in it?

    Of a RUN the results go into its folder (private/attack.json) and its report gets a chapter. Exit code 1: an attack
    proves more than the guarantee allows. Exit code 0 proves nothing: other attackers may do better.
    """
    from consilium.node.progress import progress_on, showing
    from consilium.protocol.files import new_here, writing
    from consilium.report.exhibits import as_text
    from consilium.simulations.attack.laboratory import attacked, broken
    from consilium.simulations.report.attacks import attacks_part

    run = Path(where) if (Path(where) / "manifest.json").is_file() else None
    with showing(quiet) as display:
        display.say(f"attacks on {where}", time.time())
        name, case = _of_run(run, overrides, out) if run is not None else _of_scenario(where, overrides or [], seed)
        values = attacked(case, name, only or (), budget, seed, progress_on(display))
    if run is not None:
        place = _into_run(run, values)
    else:
        folder = out or Path("runs") / f"attack-{name}-{datetime.now():%Y%m%d-%H%M%S}"
        with writing(folder), new_here(folder):
            place = _into_folder(folder, values)
    wrong = broken(values)
    lines = [] if quiet else [as_text([attacks_part(values)]), *wrong, f"{values['seconds']:.0f} s. {place}"]
    show(output, {**values, "out": str(place), "wrong": wrong}, lines)
    if wrong:
        raise typer.Exit(1)


def _of_scenario(where: str, overrides: list[str], seed: int) -> tuple[str, Case]:
    from consilium.simulations.divide import divide
    from consilium.simulations.scenario import load_scenario

    return Path(where).stem, divide(load_scenario(where, overrides), seed)


def _of_run(run: Path, overrides: list[str] | None, out: Path | None) -> tuple[str, Case]:
    """Raises ConfigError : options of a scenario; a run whose rows are no more; DataError : a damaged manifest."""
    from consilium.protocol.config_files import validate
    from consilium.protocol.errors import DataError
    from consilium.simulations.divide import divide
    from consilium.simulations.scenario import Scenario

    if overrides or out is not None:
        raise ConfigError("--set and --out belong to a scenario", f"Leave them away with {run}")
    path = run / "manifest.json"
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        name, seed, table, digest = (manifest[key] for key in ("scenario", "seed", "config", "federation"))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise DataError(f"{path} is damaged", "Run: consilium audit") from None
    case = divide(validate(table, Scenario, "manifest.json"), seed)
    if case.config.digest() != digest:
        raise DataError(f"{run}: scenario, seed and data give another federation", "Run: consilium audit")
    return name, case


def _into_run(run: Path, values: dict[str, Any]) -> Path:
    """Beside what else is secret, and into its report, where it has one."""
    from consilium.protocol.files import replace_private
    from consilium.protocol.strict_json import dumps
    from consilium.simulations.attempt import renew_sum
    from consilium.simulations.report.build import write_report
    from consilium.simulations.report.data import ATTACKS, load_report_data

    place = run / "private" / ATTACKS
    replace_private(place, dumps(values) + "\n")
    if (run / "private" / "report.json").exists():
        write_report(load_report_data(run / "private"), run / "report.html")
        renew_sum(run, "report.html")
        return run / "report.html"
    return place


def _into_folder(folder: Path, values: dict[str, Any]) -> Path:
    from consilium.protocol.files import private_folder, replace_private
    from consilium.protocol.strict_json import dumps
    from consilium.report.page import Page, as_html
    from consilium.simulations.report.attacks import attacks_part

    private_folder(folder)
    replace_private(folder / FILE, dumps(values) + "\n")
    page = Page(
        "Consilium · attacks on a simulation", values["federation"], [attacks_part(values)], (values["mechanism"],)
    )
    replace_private(folder / "attack.html", as_html(page))
    return folder / "attack.html"
