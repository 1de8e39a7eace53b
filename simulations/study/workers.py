"""Worker processes of this machine, by joblib."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

from joblib import Parallel, delayed, parallel_config

from consilium.models.devices import one_thread
from consilium.protocol.errors import EngineError
from consilium.protocol.files import for_its_owner_alone
from consilium.simulations.interruption import begin_worker

Job = TypeVar("Job")
T = TypeVar("T")


def in_workers(work: Callable[[Job], T], jobs: Sequence[Job], workers: int) -> Generator[T]:
    """What `work` gives for each job, as they end; in this process where one worker is enough. Raises EngineError: a
    worker process died."""
    if not jobs:
        return
    pool: Any = Parallel(min(workers, len(jobs)), return_as="generator_unordered")
    try:
        with _processes():
            yield from pool(delayed(_alone)(work, job) for job in jobs)
    except BrokenProcessPool:
        raise EngineError(
            "a worker process ended, perhaps for want of memory",
            "What is done is kept: run it again with fewer workers",
        ) from None


def _alone(work: Callable[[Job], T], job: Job) -> T:
    with for_its_owner_alone(), one_thread():
        return work(job)


@contextlib.contextmanager
def _processes() -> Iterator[None]:
    quiet = "ignore:resource_tracker:UserWarning"  # that an interrupted study's locks are cleaned up
    before = dict(os.environ)
    os.environ["PYTHONSAFEPATH"] = "1"  # a module in the user's folder is none of a worker's
    os.environ["PYTHONWARNINGS"] = ",".join(filter(None, (before.get("PYTHONWARNINGS"), quiet)))
    try:
        with parallel_config("loky", inner_max_num_threads=1, initializer=begin_worker, initargs=(os.getpid(),)):
            yield
    finally:
        for name in ("PYTHONSAFEPATH", "PYTHONWARNINGS"):
            del os.environ[name]
        os.environ.update(before)
