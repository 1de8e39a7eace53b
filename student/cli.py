"""Commands of the student node."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="The student node: ask for labels, train, evaluate.")


@app.callback()
def _root() -> None:
    """Keeps `run` a sub-command."""


@app.command()
def run(
    coordinator: Annotated[str, typer.Option(metavar="HOST:PORT", help="Address of the label service.")],
    pool: Annotated[Path, typer.Option(help=".npz with features, queries and optionally test_x, test_y.")],
    out: Annotated[Path, typer.Option(help="New folder for labels and model.")],
    config: Annotated[Path | None, typer.Option(help="TOML or JSON file with the student's settings.")] = None,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    wait: Annotated[float, typer.Option(min=0.1, help="Seconds to wait for the coordinator to be reachable.")] = 60,
) -> None:
    """Ask a coordinator for labels over a socket, train a student on them, and save it."""
    from rich.console import Console

    from protocol.config_files import load
    from protocol.errors import OutputExists
    from student.channel import LabelChannel
    from student.config import StudentSpec
    from student.pool import load_pool
    from student.run import run_student

    spec = StudentSpec() if config is None else load(config, StudentSpec)
    rows = load_pool(pool)
    if out.exists():
        raise OutputExists(f"output folder {out} exists already", "Choose another with --out, or remove it")
    console = Console(stderr=True)
    with LabelChannel(coordinator, wait) as source:
        terms = source.describe()
        console.print(
            f"{terms.parties} parties, {terms.mechanism}; epsilon at most {terms.epsilon_worst_case:.3f} at delta"
            f" {terms.delta:g}, unit: a {terms.unit}; {terms.queries_left} queries left",
            markup=False,
        )
        result = run_student(
            source, rows, spec, out, seed, lambda stage, done, total: console.print(f"{stage}: {done}/{total}")
        )
    print(json.dumps({"asked": result.asked, "answered": result.answered, "student": result.metrics, "out": str(out)}))
