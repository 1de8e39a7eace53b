"""Commands of the student node."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from student.channel import LabelChannel

app = typer.Typer(no_args_is_help=True, help="The student node: ask for labels, train, evaluate.")


@app.command()
def run(
    coordinator: Annotated[str, typer.Option(metavar="HOST:PORT", help="Address of the label service.")],
    pool: Annotated[Path, typer.Option(help=".npz with features, queries and optionally test_x, test_y.")],
    out: Annotated[Path, typer.Option(help="New folder for labels and model.")],
    config: Annotated[Path | None, typer.Option(help="TOML or JSON file with the student's settings.")] = None,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    wait: Annotated[float, typer.Option(min=0.1, help="Seconds to wait for the coordinator to be reachable.")] = 60,
) -> None:
    """Ask a coordinator on this machine for labels, without TLS, train a student on them, and save it."""
    from student.channel import LabelChannel

    _ask(lambda: LabelChannel(coordinator, wait), pool, out, config, seed)


@app.command()
def start(
    kit: Annotated[Path, typer.Argument(metavar="KIT", help="The student's kit.")],
    out: Annotated[Path, typer.Option(help="New folder for labels and model.")],
    pool: Annotated[
        Path | None,
        typer.Option(help=".npz with features, queries and optionally test_x, test_y; else pool.npz of the kit."),
    ] = None,
    config: Annotated[Path | None, typer.Option(help="TOML or JSON file with the student's settings.")] = None,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    wait: Annotated[float, typer.Option(min=0.1, help="Seconds to wait for the coordinator to be reachable.")] = 60,
) -> None:
    """Ask the kit's coordinator for labels, over mutual TLS, train a student on them, and save it."""
    from protocol.deploy.kit import open_kit
    from student.deploy import open_channel

    node = open_kit(kit, "student")
    _ask(lambda: open_channel(node, wait), pool or node / "pool.npz", out, config, seed)


def _ask(channel: Callable[[], LabelChannel], pool: Path, out: Path, config: Path | None, seed: int) -> None:
    from rich.console import Console

    from protocol.config_files import load
    from protocol.errors import OutputExists
    from student.config import StudentSpec
    from student.pool import load_pool
    from student.run import run_student

    spec = StudentSpec() if config is None else load(config, StudentSpec)
    rows = load_pool(pool)
    if out.exists():
        raise OutputExists(f"output folder {out} exists already", "Choose another with --out, or remove it")
    console = Console(stderr=True)
    with channel() as source:
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
