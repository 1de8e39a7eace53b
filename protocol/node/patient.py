"""Flower's SuperLink and SuperNode, with patience for programs that start slowly.

Both start a program for each piece of work. Flower gives it 30 s (`HEARTBEAT_DEFAULT_INTERVAL`) from being started to
its first word; after that the same work goes to a further program, while the first still starts and will find its token
void. On a machine that is short of processors, or slow to read a disk, these take each other's time, and none is ever
ready. Here they have `START_SECONDS`; how soon a program that has spoken counts as gone is as it was.

`python -P -m consilium.protocol.node.patient flower-supernode ...` is `flower-supernode ...` with that difference, and
ends with its supervisor. The patience rests on names inside Flower, which `check_patience` asserts.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from types import FunctionType
from typing import Any

from consilium.protocol.errors import EngineError
from consilium.protocol.node.flower import require_flower, unknown_flower
from consilium.protocol.node.orphans import end_with_parent

START_SECONDS = 240
CLAIM, WAIT = "claim_task", "HEARTBEAT_DEFAULT_INTERVAL"
STORES = {
    "flwr.supercore.corestate.in_memory_corestate": "InMemoryCoreState",
    "flwr.supercore.corestate.sql_corestate": "SqlCoreState",
}
"""Where Flower keeps its tasks, by module: at a SuperNode, and at a SuperLink with a database."""
PROGRAMS = {
    "flower-supernode": ("flwr.supernode.cli", "flower_supernode"),
    "flower-superlink": ("flwr.superlink.cli", "flower_superlink"),
}


def check_patience() -> None:
    """Check that this Flower takes the time for a start from where it is changed. Raises EngineError."""
    require_flower({module: (WAIT, f"{store}.{CLAIM}") for module, store in STORES.items()})
    require_flower({module: (name,) for module, name in PROGRAMS.values()})
    for module, store in STORES.items():
        claim = getattr(getattr(import_module(module), store), CLAIM)
        if WAIT not in claim.__code__.co_names:
            raise unknown_flower(f"{module}.{store}.{CLAIM} does not read {WAIT}")


def with_patience(claim: Callable[..., Any], seconds: float) -> Callable[..., Any]:
    """`claim` of one of the stores, as if `HEARTBEAT_DEFAULT_INTERVAL` were `seconds` in it and nowhere else."""
    names = {**claim.__globals__, WAIT: seconds}
    return FunctionType(claim.__code__, names, claim.__name__, claim.__defaults__, claim.__closure__)


def be_patient() -> None:
    """Give programs `START_SECONDS` to start, in this process. Raises EngineError where that cannot be ensured."""
    check_patience()
    for module, name in STORES.items():
        store = getattr(import_module(module), name)
        setattr(store, CLAIM, with_patience(getattr(store, CLAIM), START_SECONDS))


def command(program: str) -> list[str]:
    """How one of PROGRAMS is started; its arguments follow."""
    return [sys.executable, "-P", "-m", "consilium.protocol.node.patient", program]


def main() -> None:
    """Entry point: sys.argv[1] is one of PROGRAMS, the rest is its own."""
    sys.argv = sys.argv[1:]
    module, name = PROGRAMS[sys.argv[0]]
    end_with_parent()
    try:
        be_patient()
    except EngineError as error:
        sys.exit(f"refused: {error}")
    sys.exit(getattr(import_module(module), name)())


if __name__ == "__main__":
    main()
