"""Exit codes of the `consilium` command, from the classes of the errors: the only place where they are gathered."""

from __future__ import annotations

import signal
from collections.abc import Iterator

from consilium.accounting.errors import AccountingError
from consilium.protocol.errors import ConsiliumError
from consilium.simulations.interruption import SIGNALS, Interrupted
from consilium.sums.errors import SecAggError

INTERRUPTED = Interrupted(signal.SIGINT).exit_code
INTERNAL = ConsiliumError.exit_code
USAGE = 2
"""What the command line's library gives a mistake in the command line; `ConfigError` has the same."""

_SIGNALS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated", signal.SIGHUP: "hung up"}
_BASES: tuple[type[Exception], ...] = (ConsiliumError, AccountingError, SecAggError)


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


def error_classes() -> Iterator[type[Exception]]:
    """Every class of error that ends a command with a code of its own or of the class above it."""
    seen: set[type[Exception]] = set()
    waiting = list(_BASES)
    while waiting:
        kind = waiting.pop()
        if kind not in seen:
            seen.add(kind)
            waiting += kind.__subclasses__()
            yield kind


def in_a_sentence() -> str:
    """For `consilium --help`."""
    return f"Exit codes: {', '.join(f'{code} {meaning}' for code, meaning in exit_codes().items())}."
