"""The command line in this process: what it prints, and the exit code of the process that it would have been."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any

from consilium.cli import app
from consilium.edge import run


@dataclass(frozen=True)
class Done:
    """A command that has ended."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def output(self) -> str:
        """All that was printed."""
        return self.stdout + self.stderr

    def json(self) -> Any:
        """The one object on stdout, which must be JSON to any reader."""

        def refuse(constant: str) -> None:
            raise AssertionError(f"{constant} is not JSON")

        return json.loads(self.stdout, parse_constant=refuse)


def consilium(*arguments: object) -> Done:
    """`consilium ARGUMENTS`."""
    out, told = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(told):
        code = run(app, [str(argument) for argument in arguments])
    return Done(code, out.getvalue(), told.getvalue())
