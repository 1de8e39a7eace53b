"""Progress of a fit, told to a function or drawn as bars."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

ProgressCallback = Callable[[str, int, int], None]
"""Told the stage, how much of it is done, and how much there is."""


@contextmanager
def watching(progress: ProgressCallback | bool | None) -> Iterator[Callable[[Path], AbstractContextManager[None]]]:
    """What `run_scenario` takes as `watch`."""
    from consilium.simulations.run import unwatched

    if progress is None or progress is False:
        yield unwatched
        return
    from rich.console import Console

    from consilium.simulations.progress import following

    console = Console(stderr=True)
    yield lambda events: following(events, console)
