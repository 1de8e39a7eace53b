"""Folders that go with the object that they belong to."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from pathlib import Path

from consilium.simulations.council.results import SUMMARY


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
