"""Progress of a fit, told to a function or shown as `consilium run` shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from consilium.protocol.progress.display import showing
from consilium.simulations.council.errors import WrongType
from consilium.simulations.progress import Tell, following, following_with
from consilium.simulations.run import unwatched

ProgressCallback = Tell
"""Told the stage, how much of it is done, and how much there is; called in a thread of its own."""


@contextmanager
def watching(
    progress: ProgressCallback | bool | None,
) -> Iterator[Callable[[Path], AbstractContextManager[None]]]:
    """What `run_scenario` takes as `watch`: of None and False nothing, of True bars, or lines without a terminal.

    Raises
    ------
    WrongType : it is neither that nor a function.
    """
    if progress is None or progress is False:
        yield unwatched
    elif progress is True:
        with showing(quiet=False) as display:
            yield lambda events: following(events, display)
    elif callable(progress):
        yield lambda events: following_with(events, progress)
    else:
        raise WrongType(f"progress is a {type(progress).__name__}", "Give a function of (stage, done, total), or True")
