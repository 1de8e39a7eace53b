"""What every command has, found by walking the command line: a new one without it fails here."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import typer

from consilium.cli import app
from consilium.simulations.scenario import load_scenario
from tests.command_line import consilium

ROOT = Path(__file__).resolve().parents[1]
MINUTES = {"run", "attack", "study run", "student run", "student start", "audit mechanism"}
"""Commands that show how far they are."""


def leaves(command: click.Command, name: str = "") -> Iterator[tuple[str, click.Command]]:
    """Every command that is no group, with its name as one types it."""
    if isinstance(command, click.Group):
        for inner_name, inner in command.commands.items():
            yield from leaves(inner, f"{name} {inner_name}".strip())
    else:
        yield name, command


COMMANDS = dict(leaves(typer.main.get_command(app)))


def option(command: click.Command, name: str) -> click.Option | None:
    return next((each for each in command.params if isinstance(each, click.Option) and name in each.opts), None)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_json(name: str) -> None:
    found = option(COMMANDS[name], "--format")
    assert found is not None, "declare `output: FormatOption`, and print with `protocol.output.show`"
    assert isinstance(found.type, click.Choice)
    assert [getattr(choice, "value", choice) for choice in found.type.choices] == ["text", "json"]
    assert found.default in ("text", None) or getattr(found.default, "value", "") == "text"
    assert "json" in (found.help or "")


@pytest.mark.parametrize("name", COMMANDS)
def test_what_shows_how_far_it_is_can_be_quiet(name: str) -> None:
    assert (option(COMMANDS[name], "--quiet") is not None) == (name in MINUTES)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_and_command_has_a_word_of_help(name: str) -> None:
    command = COMMANDS[name]
    assert command.help
    options = [each for each in command.params if isinstance(each, click.Option)]
    assert [each.opts for each in options if not each.help and each.name != "seed"] == []


EXAMPLE = re.compile(r"\b[a-z_]+(?:\.[a-z_0-9]+)+=[^\s,;)]+")
"""An override as `--set` takes it, in a text."""


def examples(command: click.Command) -> list[str]:
    """Every override that a command's help names."""
    texts = [command.help or "", *(getattr(each, "help", None) or "" for each in command.params)]
    return [found.rstrip(".") for text in texts for found in EXAMPLE.findall(text)]


SHOWN = [(name, example) for name, command in COMMANDS.items() for example in examples(command)]


def test_help_shows_how_to_override() -> None:
    assert "run" in {name for name, _ in SHOWN}


@pytest.mark.parametrize(("name", "example"), SHOWN)
def test_an_override_that_help_shows_is_accepted(name: str, example: str) -> None:
    """By the scenario that runs where none is named."""
    scenario = next((each.default for each in COMMANDS[name].params if each.name == "scenario"), None)
    load_scenario(scenario if isinstance(scenario, str) else "stroke", [example])


def test_a_mistake_anywhere_is_an_object() -> None:
    for name in COMMANDS:
        done = consilium(*name.split(), "--no-such-option", "--format", "json")
        assert (done.exit_code, done.json()["error"]["type"], done.stderr) == (2, "Usage", ""), name


FIRST = """
import sys
class First:
    def write(self, text):
        if text.strip():
            heavy = [name for name in ("torch", "flwr", "polars", "sklearn", "scipy") if name in sys.modules]
            print(heavy, text.split("  ")[-1], file=sys.__stdout__, flush=True)
            import os
            os._exit(0)
    def flush(self):
        pass
    def isatty(self):
        return False
sys.stderr = First()
from consilium.cli import main
main(sys.argv[1:])
"""


@pytest.mark.parametrize(
    ("line", "first"),
    [("run", "run of stroke, engine local, seed 0"), ("study empty.toml", "study empty, results in runs/study-empty")],
)
def test_the_first_line_comes_before_the_libraries(tmp_path: Path, line: str, first: str) -> None:
    """They take seconds to load. What is measured is what is loaded when the line is written, not a time."""
    (tmp_path / "empty.toml").touch()  # a file that is not there is told at once: tests/simulations/test_cli.py
    done = subprocess.run(
        [sys.executable, "-c", FIRST, *line.split()],
        cwd=tmp_path, capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.stdout == f"[] {first}\n"
