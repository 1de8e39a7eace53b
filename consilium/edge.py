"""The edge of the command line: whatever ends a command becomes one message and one exit code, never a traceback. The
codes are those of the errors' classes, and gathered here alone.

With `--format json` the message is one object on stdout:
`{"error": {"type": ..., "what": ..., "action": ..., "exit_code": ...}}`."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TextIO

import click
import typer

from consilium.accounting.errors import AccountingError
from consilium.protocol.databases import Trouble, trouble_of
from consilium.protocol.errors import TRACEBACK, ConfigError, ConsiliumError, LedgerError, StorageError
from consilium.protocol.files import typed
from consilium.protocol.strict_json import dumps
from consilium.simulations.interruption import SIGNALS, Interrupted
from consilium.sums.errors import SecAggError

INTERRUPTED = Interrupted(signal.SIGINT).exit_code
INTERNAL = ConsiliumError.exit_code
USAGE = 2
"""What the command line's library gives a mistake in the command line; `ConfigError` has the same."""

_SIGNALS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated", signal.SIGHUP: "hung up"}
FULL = (Trouble.FULL, Trouble.BROKEN)
"""The disk takes nothing more, whatever was to be written."""


@dataclass(frozen=True)
class Ending:
    """Why a command ended before it was done."""

    type: str
    what: str
    action: str
    exit_code: int

    def __str__(self) -> str:
        stop = "" if self.what.endswith((".", "?")) else "."
        return f"consilium: {self.what}{f'{stop} {self.action}' if self.action else ''}"


def run(app: typer.Typer, arguments: Sequence[str]) -> int:
    """Run one command line; returns its exit code."""
    command = typer.main.get_command(app)
    as_json = wants_json(arguments)
    try:
        # where a command ends itself, the library hands its exit code over as if it were a result
        code = command.main(list(arguments), prog_name="consilium", standalone_mode=False)
        _flush()
    except click.exceptions.NoArgsIsHelpError:
        return USAGE  # the help is what it has printed
    except (Exception, Interrupted, KeyboardInterrupt) as error:
        if os.environ.get(TRACEBACK):
            traceback.print_exception(error)
        ending = ending_of(error)
    else:
        if code != INTERRUPTED:
            return code if isinstance(code, int) else 0
        ending = Ending("Interrupted", "interrupted", "", INTERRUPTED)  # Ctrl-C where nothing had to be given back
    _tell(ending, as_json)
    return ending.exit_code


def wants_json(arguments: Sequence[str]) -> bool:
    """Whether a command line asks for JSON, also one that is wrong elsewhere.

    >>> wants_json(["run", "--format", "json"]), wants_json(["run", "--format=json"]), wants_json(["run", "json"])
    (True, True, False)
    """
    before = list(arguments[: arguments.index("--")] if "--" in arguments else arguments)
    return "--format=json" in before or ("--format", "json") in pairwise(before)


def ending_of(error: BaseException) -> Ending:
    """What an error means to the user."""
    name = type(error).__name__
    match error:
        case LedgerError() if trouble_of(error) in FULL:
            return Ending(StorageError.__name__, error.what, error.action, StorageError.exit_code)
        case ConsiliumError():
            return Ending(name, error.what, error.action, error.exit_code)
        case AccountingError():
            what, action = error.told()
            return Ending(name, what, action, error.exit_code)
        case Interrupted():
            return Ending(name, str(error), "", error.exit_code)
        case KeyboardInterrupt():
            return Ending("Interrupted", "interrupted", "", INTERRUPTED)
        case click.UsageError():
            return _usage(error)
        case click.ClickException():
            return Ending("Usage", error.format_message().rstrip("."), "", USAGE)
        case click.Abort():
            return Ending("Interrupted", "aborted", "", INTERNAL)
        case OSError() if (meant := typed(error)) is not None:
            return ending_of(meant)
        case ModuleNotFoundError(name=str(module)) if not module.startswith("consilium"):
            what = f"{module.partition('.')[0]} is not installed, and this needs it"
            return Ending(name, what, "Install Consilium again: it brings all that it needs", ConfigError.exit_code)
        case MemoryError():
            return Ending(name, "there is not enough memory", "Give the process more, or it less to do", INTERNAL)
    # the text of an error that nobody foresaw may quote a row; where it happened does not
    frames = traceback.extract_tb(error.__traceback__)
    where = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    action = f"Report this line; with {TRACEBACK}=1 it says more, which may hold private values"
    return Ending(name, f"internal error: {name}{where}", action, INTERNAL)


def _usage(error: click.UsageError) -> Ending:
    """A mistake in the command line, with the nearest words that are known."""
    path, near = error.ctx.command_path if error.ctx is not None else "consilium", getattr(error, "possibilities", None)
    # Typer and click each add "Did you mean" to an unknown word: it is told once
    what = error.format_message() if near is None else error.message.partition(" Did you mean")[0]
    what = what.rstrip(".")
    if near:
        what = f"{what}; did you mean {' or '.join(map(repr, sorted(near)))}?"
    return Ending("Usage", what[:1].lower() + what[1:], f"See `{path} --help`", USAGE)


def _flush() -> None:
    """What was printed may wait in a buffer; a full disk behind stdout shows only here."""
    try:
        sys.stdout.flush()
    except OSError as error:
        if trouble_of(error) not in FULL:
            raise
        sys.stdout = _nowhere()
        raise StorageError(f"cannot write stdout: {error.strerror}", "Make room and try again") from None


def _tell(ending: Ending, as_json: bool) -> None:
    """One message, to streams that may have gone with their terminal."""
    text, stream = (dumps({"error": vars(ending)}), sys.stdout) if as_json else (str(ending), sys.stderr)
    try:
        print(text, file=stream, flush=True)
    except OSError:
        with contextlib.suppress(OSError):
            print(ending, file=sys.__stderr__, flush=True)
        sys.stdout = sys.stderr = _nowhere()


def _nowhere() -> TextIO:
    return open(os.devnull, "w", encoding="utf-8")  # until the process ends


def exit_codes() -> dict[int, str]:
    """Every exit code and what it means, in order.

    >>> exit_codes()[0], exit_codes()[6]
    ('done', 'output exists')
    """
    codes = {0: "done"}
    for kind in error_classes():
        if "meaning" in vars(kind):
            codes[vars(kind)["exit_code"]] = vars(kind)["meaning"]
    codes |= {Interrupted(number).exit_code: _SIGNALS[number] for number in SIGNALS}
    return dict(sorted(codes.items()))


def error_classes() -> Sequence[type[Exception]]:
    """Every class of error that ends a command with a code of its own or of the class above it."""
    found: list[type[Exception]] = [ConsiliumError, AccountingError, SecAggError]
    for kind in found:
        found += [below for below in kind.__subclasses__() if below not in found]
    return found


def in_a_sentence() -> str:
    """For `consilium --help`."""
    return f"Exit codes: {', '.join(f'{code} {meaning}' for code, meaning in exit_codes().items())}."
