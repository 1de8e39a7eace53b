"""Worst-case curves kept by content: what one release costs at most is a function of its noise and of the code alone.

A curve takes a third of a second, and the promises of a few hundred federations in these tests need some. They are kept
in pytest's cache under a hash of accounting's code and its libraries, for all workers and for the next run. Tests of
accounting itself do without (tests/accounting/conftest.py).
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
import scipy
from joblib import Memory

from consilium.accounting.worst import adaptive, renyi

KEPT = ((renyi, "_one_move"), (adaptive, "_epsilon"))


@lru_cache(maxsize=1)
def code() -> str:
    """Hash of all that decides a curve."""
    digest = hashlib.sha256(f"{np.__version__} {scipy.__version__}".encode())
    for path in sorted(Path(renyi.__file__).resolve().parents[1].rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


@contextmanager
def kept_in(cache: Path) -> Iterator[None]:
    """Within it they are. cache: a folder of curves alone; those of other code are removed."""
    folder = cache / code()
    folder.mkdir(parents=True, exist_ok=True)
    for old in set(cache.iterdir()) - {folder}:
        shutil.rmtree(old, ignore_errors=True)
    memory = Memory(folder, verbose=0)
    with pytest.MonkeyPatch.context() as patch:
        for module, name in KEPT:
            patch.setattr(module, name, lru_cache(maxsize=256)(memory.cache(getattr(module, name).__wrapped__)))
        yield
