"""The edge of the command line: what every command has, found by walking it, errors and their exit codes."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from importlib.metadata import version
from pathlib import Path

import click
import pytest
import typer

from consilium import edge
from consilium.accounting.errors import AccountingError, VotesError, VotesPathError
from consilium.cli import app
from consilium.edge import USAGE, exit_codes, in_a_sentence
from consilium.protocol.errors import ConfigError, ConsiliumError, DataError, PathError
from consilium.simulations.scenario import load_scenario
from tests.command_line import Done, consilium

ROOT = Path(__file__).resolve().parents[1]


def test_the_command_itself() -> None:
    """JSON is asked for in both ways; a suggestion stands once; no command is the help."""
    for wanted in (["--format", "json"], ["--format=json"]):
        assert consilium("rnu", *wanted).json()["error"]["what"] == "no such command 'rnu'; did you mean 'run'?"
    assert consilium("rnu").stderr == "consilium: no such command 'rnu'; did you mean 'run'? See `consilium --help`\n"
    for words in ((), ("party",)):
        done = consilium(*words)
        assert (done.exit_code, done.output.count("Usage: ")) == (2, 1)
    assert consilium("--version").stdout == f"consilium {version('consilium-pate')}\n"


def failing(error: BaseException) -> Done:
    """The root command where a command raises an error."""
    broken = typer.Typer()

    @broken.command()
    def command() -> None:
        raise error

    @broken.command()
    def other() -> None: ...

    out, told = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(told):
        code = edge.run(broken, ("command",))
    return Done(code, out.getvalue(), told.getvalue())


def test_an_unforeseen_error_does_not_quote_what_it_was_about(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its text may be a row; control: with the environment's word it is shown, traceback and all."""
    secret = "age 61, drowsy"
    done = failing(ValueError(secret))
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith("consilium: internal error: ValueError at test_edge.py:")
    assert secret not in done.stderr and done.stderr.count("\n") == 1
    monkeypatch.setenv(edge.TRACEBACK, "1")
    assert secret in failing(ValueError(secret)).stderr


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (ConfigError("query budget is 0", "Raise it"), 2, "consilium: query budget is 0. Raise it\n"),
        (OSError(28, "No space left on device"), 12, "consilium: cannot write the output: No space left on device. "),
        (FileNotFoundError(2, "No such file or directory", "x.csv"), 2, "consilium: cannot use x.csv: No such file"),
        (FileExistsError(17, "File exists", "x"), 6, "consilium: x is already there. "),
        (ConnectionRefusedError(111, "Connection refused"), 1, "consilium: internal error: ConnectionRefusedError"),
        (ModuleNotFoundError("No module named 'pol.ars'", name="pol.ars"), 2, "consilium: pol is not installed, and "),
        (ModuleNotFoundError("No module named 'consilium.x'", name="consilium.x"), 1, "consilium: internal error: "),
        (KeyboardInterrupt(), 130, "consilium: interrupted\n"),
    ],
)
def test_errors_by_kind(error: BaseException, code: int, told: str) -> None:
    done = failing(error)
    assert done.exit_code == code
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def process(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    known = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    command = [sys.executable, "-m", "consilium", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=known)


def test_the_module_is_the_command_and_completes() -> None:
    done = process(_CONSILIUM_COMPLETE="complete_bash", COMP_WORDS="consilium scen", COMP_CWORD="1")
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, ["scenarios"], "")
    known = process("rnu", "--format", "json")
    assert (known.returncode, json.loads(known.stdout)["error"]["exit_code"], known.stderr) == (2, 2, "")


MINUTES = {"run", "attack", "study run", "student run", "student start", "audit mechanism"}


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
def test_every_command_has_help_and_can_be_quiet_where_it_takes_minutes(name: str) -> None:
    command = COMMANDS[name]
    assert command.help and (option(command, "--quiet") is not None) == (name in MINUTES)
    options = [each for each in command.params if isinstance(each, click.Option)]
    assert [each.opts for each in options if not each.help and each.name != "seed"] == []


EXAMPLE = re.compile(r"\b[a-z_]+(?:\.[a-z_0-9]+)+=[^\s,;)]+")


def examples(command: click.Command) -> list[str]:
    """Every override that a command's help names."""
    texts = [command.help or "", *(getattr(each, "help", None) or "" for each in command.params)]
    return [found.rstrip(".") for text in texts for found in EXAMPLE.findall(text)]


SHOWN = [(name, example) for name, command in COMMANDS.items() for example in examples(command)]


@pytest.mark.parametrize(("name", "example"), SHOWN)
def test_an_override_that_help_shows_is_accepted(name: str, example: str) -> None:
    """By the scenario that runs where none is named."""
    assert "run" in {name for name, _ in SHOWN}
    scenario = next((each.default for each in COMMANDS[name].params if each.name == "scenario"), None)
    load_scenario(scenario if isinstance(scenario, str) else "stroke", [example])


def test_a_mistake_anywhere_is_an_object() -> None:
    for name in COMMANDS:
        done = consilium(*name.split(), "--no-such-option", "--format", "json")
        assert (done.exit_code, done.json()["error"]["type"], done.stderr) == (2, "Usage", ""), name


def test_the_accounting_has_the_codes_of_the_protocol() -> None:
    pairs = {AccountingError: ConfigError, VotesError: DataError, VotesPathError: PathError}
    for ours, theirs in pairs.items():
        assert ours.exit_code == theirs.exit_code, ours


def test_codes_that_scripts_rest_on() -> None:
    assert exit_codes()[0] == "done"
    assert USAGE == ConfigError.exit_code == 2
    assert ConsiliumError.exit_code == 1
    signals = {128 + number for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)}
    assert set(exit_codes()) == {*range(14), *signals}


def test_help_and_documents_list_them_all() -> None:
    assert in_a_sentence() in " ".join(consilium("--help").stdout.split())
    rows = [f"| {code} | {meaning} |\n" for code, meaning in exit_codes().items()]
    assert "".join(["| code | meaning |\n|---|---|\n", *rows]) in (ROOT / "docs" / "for-it.md").read_text()
