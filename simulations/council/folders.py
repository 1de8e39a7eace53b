"""Folders of runs and studies from Python, and their progress."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from consilium.protocol.progress.display import showing
from consilium.simulations.council.frames import WrongType
from consilium.simulations.council.results import SUMMARY
from consilium.simulations.progress import Tell, following, following_with
from consilium.simulations.run import unwatched


class RunFolder:
    """Where a run goes: a folder of the caller's, or a temporary one, which is removed with the object that keeps it.

    Removed too where nothing came of it, and at the end of the program. path: the folder, not made yet. proof: the file
    that is there once something did.
    """

    def __init__(self, out: str | Path | None, proof: str = SUMMARY) -> None:
        self._proof = proof
        self._parent = None if out is not None else tempfile.mkdtemp(prefix="consilium-")
        self.path = Path(self._parent or "", "run") if out is None else Path(out)

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(self, *_: object) -> None:
        if self._parent is not None and not (self.path / self._proof).exists():
            shutil.rmtree(self._parent, ignore_errors=True)

    def kept_by(self, owner: object) -> None:
        """Remove it when nobody holds `owner` any more."""
        if self._parent is not None:
            weakref.finalize(owner, shutil.rmtree, self._parent, ignore_errors=True)


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
