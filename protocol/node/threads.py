"""One thread for numerical libraries: many small models are faster so, and results do not depend on the machine."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""Environment of a process that trains with one thread; read by the libraries when they are loaded."""


@contextmanager
def one_thread() -> Iterator[None]:
    """Hold BLAS, OpenMP and torch to one thread meanwhile, as far as they are loaded; the caller's numbers come back.

    For code that may run in somebody's notebook, whose environment is not ours to set. OpenMP keeps the number per
    thread, so it holds for the calling one and not for others that run already.
    """
    from threadpoolctl import threadpool_limits  # it brings ctypes: not for those who only want the names above

    torch = sys.modules.get("torch")
    before = torch.get_num_threads() if torch is not None else 0
    with threadpool_limits(1):
        try:
            if torch is not None:
                torch.set_num_threads(1)
            yield
        finally:
            if torch is not None:
                torch.set_num_threads(before)
