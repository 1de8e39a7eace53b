"""What a command prints: text for people, or one JSON object for programs."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Any

import typer

from consilium.protocol.errors import ConsiliumError
from consilium.protocol.strict_json import dumps


class Format(StrEnum):
    """What goes to stdout: lines for people, or one JSON object for programs."""

    text = "text"
    json = "json"


FormatOption = Annotated[Format, typer.Option("--format", help="What goes to stdout; json: one object, errors too.")]
QuietOption = Annotated[
    bool, typer.Option("--quiet", help="Show errors only; the exit code says the rest. With json, the object too.")
]
"""The option of every command that shows how far it is."""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def plain(line: str) -> str:
    """Without what a terminal would obey: a name of another's making moves no cursor, and writes over no line.

    >>> plain("ill\\x1b[9A\\x1b[2Kauthority")
    'ill?[9A?[2Kauthority'
    """
    return _CONTROL.sub("?", line)


def show(output: Format, values: dict[str, Any], lines: Iterable[str]) -> None:
    """Print the same thing as one JSON object, or as lines for people."""
    if output is Format.json:
        print(dumps(values))
        return
    for line in lines:
        print(plain(line))


def tell_warnings(warnings: Iterable[dict[str, str]], output: Format = Format.json) -> None:
    """Print warnings, as `report.warnings.listed` gives them: for people after the results; else to stderr,
    where no program reads them."""
    from rich.console import Console

    console = Console(stderr=output is Format.json, highlight=False, soft_wrap=True)
    for warning in warnings:
        text = f"warning: {warning['text']} ({warning['code']})"
        console.print(wrapped(text, hanging="         "), style="yellow", markup=False)


def terminal_width() -> int:
    """Columns of the terminal; 80 where there is none."""
    return shutil.get_terminal_size().columns


def wrapped(text: str, indent: str = "", hanging: str = "") -> str:
    """A text in lines that fit the terminal. indent: of the first line. hanging: of all others."""
    width = max(terminal_width(), len(hanging) + 20)
    return textwrap.fill(
        text, width, initial_indent=indent, subsequent_indent=hanging, break_long_words=False, break_on_hyphens=False
    )


def error_table(error: ConsiliumError) -> dict[str, Any]:
    """An error as a JSON object has it, under the key "error"."""
    return {"type": type(error).__name__, "what": error.what, "action": error.action, "exit_code": error.exit_code}
