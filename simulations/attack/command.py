"""`consilium attack RUN`: what a sceptic tries before signing."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from consilium.protocol.output import Format, FormatOption, QuietOption, show

if TYPE_CHECKING:
    from consilium.simulations.divide import Case

FILE = "attack.json"


def attack_command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A simulated run's folder.")],
    games: Annotated[
        int, typer.Option(min=200, help="With each target, and as many without, of what was released.")
    ] = 4000,
    students: Annotated[
        int, typer.Option(min=20, help="Trained with each target, and as many without; a third is learnt from.")
    ] = 120,
    seed: Annotated[int, typer.Option(min=0, help="Of what the attackers draw; the run has its own.")] = 0,
    output: FormatOption = Format.text,
    quiet: QuietOption = False,
) -> None:
    """Attack a simulated run, and the same one without noise: who finds a party or a record in it; what liars do.

    The results go into the run's folder (private/attack.json). Exit code 1: an attack proves more than the guarantee
    allows. Exit code 0 proves nothing: other attackers may do better."""
    from consilium.protocol.files import replace_private
    from consilium.protocol.strict_json import dumps
    from consilium.report.progress import about, showing
    from consilium.simulations.attack.attacks import AttackedRun, membership, poisoned_students, targets_of

    with showing(quiet) as display:
        progress = display.update
        case = case_of(run)
        attacked = AttackedRun(case, progress)
        targets = targets_of(attacked, seed)
        began = time.monotonic()
        attacked.run(attacked.votes.sum(axis=0))
        trained = 2 * students * len(targets)
        display.say(f"{trained:,} students: {about(trained * (time.monotonic() - began))}")
        attacks = membership(attacked, targets, games, students, seed, progress=progress)
        liars = poisoned_students(attacked, seed)
    values = {
        "federation": case.config.name,
        "mechanism": case.config.describe(),
        "delta": case.config.privacy.delta,
        "parties": len(case.parties),
        "queries": len(attacked.rows),
        "attack_seed": seed,
        "membership": [attack.to_json() for attack in attacks],
        "liars": [asdict(poisoned) for poisoned in liars],
    }
    replace_private(run / "private" / FILE, dumps(values) + "\n")
    show(output, values, () if quiet else lines_of(values))
    if any(attack.broken for attack in attacks):
        raise typer.Exit(1)


def case_of(run: Path) -> Case:
    """The run's federation, with votes in the clear, which the student is guaranteed the same of. Raises DataError: no
    simulated run; damaged, or its rows are no more. ConfigError: the scenario's."""
    from consilium.protocol.config_files import validate
    from consilium.protocol.errors import DataError
    from consilium.simulations.divide import divide
    from consilium.simulations.scenario import Scenario

    path = run / "manifest.json"
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        seed, table, digest = (manifest[key] for key in ("seed", "config", "federation"))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise DataError(f"{path} is not that of a simulated run", "Run: consilium run --out RUN") from None
    case = divide(validate(table, Scenario, "manifest.json"), seed)
    if case.config.digest() != digest:
        raise DataError(f"{run}: scenario, seed and data give another federation", "Run: consilium audit")
    return case.of(case.scenario)


def lines_of(values: Mapping[str, Any]) -> list[str]:
    """The results for people: guarantees are rounded up, and what is proved is rounded down."""
    from consilium.report.words import many

    lines = [
        f"{values['federation']}: {many(values['parties'], 'party')}, {many(values['queries'], 'query')}."
        f" {values['mechanism']}.",
        "The attacker knows all other rows. Brackets: intervals of 95 %.",
    ]
    for attack in values["membership"]:
        control = "found without noise" if attack["found_without_noise"] else "NOT found without noise: shows nothing"
        lines += [
            "",
            f"{attack['target']}, seen in {attack['sees']}: {attack['games']:,} games of each world; {control}",
            f"    advantage {_share(attack['advantage'])}",
            *(f"    {_detected(level, share)}" for level, share in attack["at_false_alarms"].items()),
            f"    {_epsilon(attack, values['delta'])}",
        ]
    lines += ["", "Parties that vote against the truth; more votes than one a teacher pass under masks alone:"]
    for one in values["liars"]:
        student = "" if one["value"] is None else f"; student's {one['metric']} {one['value']:.3f}"
        lines.append(
            f"    {one['liars']:,} of {values['parties']:,}, {many(one['each'], 'vote')} each:"
            f" {one['moved']:.1%} of the queries turned{student}"
        )
    broken = sum(attack["broken"] for attack in values["membership"])
    verdict = "An attack that fails proves nothing: the guarantee bounds all of them."
    if broken:
        verdict = f"{many(broken, 'attack')} proved more than the guarantee allows: THE GUARANTEE IS FALSE."
    return [*lines, "", verdict]


def _share(values: Sequence[float]) -> str:
    return "{:.3f} [{:.3f}, {:.3f}]".format(*values)


def _detected(level: str, found: Sequence[float] | None) -> str:
    head = f"at {float(level):.1%} false alarms"
    return f"{head} found {_share(found)}" if found else f"{head}: too few games, {2 / float(level):,.0f} are needed"


def _epsilon(attack: Mapping[str, Any], delta: float) -> str:
    from consilium.coordinator.distinguish import lower_text
    from consilium.report.disclosure import epsilon_text

    if attack["epsilon_guaranteed"] is None:
        return "no epsilon is guaranteed"
    guarantee = f"guaranteed: epsilon {epsilon_text(attack['epsilon_guaranteed'])} at delta {delta:g}"
    if attack["epsilon_at_least"] is not None:
        lower = f"{guarantee}; proved: at least {lower_text(attack['epsilon_at_least'])}"
        return f"{lower}. REFUTED" if attack["broken"] else lower
    if attack["games_needed"] is None:
        return f"{guarantee}; no number of games can contradict so large an epsilon"
    return f"{guarantee}; too few games to contradict it, {attack['games_needed']:,} are needed"
