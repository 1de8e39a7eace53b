"""The edge of the command line: JSON of every command and every error, versions, completion, and no traceback."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from importlib.metadata import version
from pathlib import Path

import pytest
import typer

from consilium import edge
from consilium.protocol.errors import ConfigError
from tests.command_line import Done, consilium

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("arguments", [["--format", "json"], ["--format=json"]])
def test_json_is_asked_for_in_both_ways(arguments: list[str]) -> None:
    assert consilium("rnu", *arguments).json()["error"]["what"] == "no such command 'rnu'; did you mean 'run'?"


def test_a_suggestion_stands_once() -> None:
    assert consilium("rnu").stderr == "consilium: no such command 'rnu'; did you mean 'run'? See `consilium --help`\n"


def test_no_command_is_the_help() -> None:
    for words in ((), ("party",)):
        done = consilium(*words)
        assert done.exit_code == 2
        assert done.output.count("Usage: ") == 1


def test_version() -> None:
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
