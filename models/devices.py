"""Where networks are trained: the device, and one thread for numerical libraries."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Literal, get_args

from consilium.protocol.errors import ConfigError

Device = Literal["auto", "cpu", "cuda"]
"""auto: a GPU if there is one."""
VARIABLE = "CONSILIUM_DEVICE"
_DRIVERS = ("libcuda.so.1", "nvcuda.dll", "libamdhip64.so")


def resolve_device(name: Device | None = None) -> Literal["cpu", "cuda"]:
    """The device that is used where `name` is asked; None: where `CONSILIUM_DEVICE` says, "auto" where it is not set.
    Raises ConfigError: there is no such device, or "cuda" is asked, and torch finds no GPU that it can use."""
    name = name or os.environ.get(VARIABLE, "auto")  # pyright: ignore[reportAssignmentType]
    if name not in get_args(Device):
        raise ConfigError(f"device is {name!r}", f"Use one of {', '.join(get_args(Device))}")
    if name == "cpu":
        return "cpu"
    if name == "auto":  # to look for a GPU driver's library takes a millisecond
        for driver in _DRIVERS:
            with suppress(OSError):
                ctypes.CDLL(driver)
                break
        else:
            return "cpu"
    import torch  # two seconds: not for those who have no driver

    if torch.cuda.is_available():
        return "cuda"
    if name == "cuda":
        raise ConfigError(
            f"device cuda is asked, but torch {torch.__version__} finds no GPU",
            "Use --device cpu, or install a driver and a torch that is built for it",
        )
    return "cpu"


@contextmanager
def using_device(name: Device) -> Iterator[None]:
    """Ask for this device here and in every process that is started meanwhile."""
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = name
    try:
        yield
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before


ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""Environment of a process that trains with one thread; read by the libraries when they are loaded."""


@contextmanager
def one_thread() -> Iterator[None]:
    """Hold BLAS, OpenMP and torch to one thread meanwhile, as far as they are loaded; the caller's numbers come back.
    For code that may run in somebody's notebook, whose environment is not ours to set. OpenMP keeps the number per
    thread, so it holds for the calling one and not for others that run already."""
    from threadpoolctl import threadpool_limits  # it brings ctypes: not for those who only want the names above

    with threadpool_limits(1), torch_on_one_thread():
        yield


@contextmanager
def torch_on_one_thread() -> Iterator[None]:
    """Hold torch alone, where it is loaded: the parallelism of a federation is its parties, small networks are hardly
    faster on a second thread, and sums keep their order."""
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
