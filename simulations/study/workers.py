"""Where a study computes: processes of this machine, or a Ray cluster, both by joblib."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import threading
import warnings
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


def in_workers(work: Callable[[Job], T], jobs: Sequence[Job], workers: int, cluster: str = "") -> Generator[T]:
    """What `work` gives for each job, as they end (of a cluster all at once, at the end); in this process where one
    worker is enough. cluster: address of a Ray cluster that computes instead. Raises EngineError: a worker process
    died, or there is no such cluster."""
    if not jobs:
        return
    try:
        with _on_ray(cluster) if cluster else _processes():
            most, how = (-1, "list") if cluster else (min(workers, len(jobs)), "generator_unordered")
            pool: Any = Parallel(most, return_as=how)
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


@contextlib.contextmanager
def _on_ray(cluster: str) -> Iterator[None]:
    try:
        import ray
        from ray.exceptions import RayError
        from ray.util.joblib import register_ray
    except ImportError:
        raise EngineError("--cluster needs Ray", "pip install 'consilium-pate[ray]'") from None
    host, _, port = cluster.rpartition(":")
    mine = signal.getsignal(signal.SIGTERM)
    try:
        if host:
            socket.create_connection((host, int(port)), 10).close()  # Ray itself looks for a minute
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # of later versions of Ray
            ray.init(cluster, log_to_driver=False, logging_level=logging.ERROR)
        register_ray()
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, mine)  # Ray's would end the process without a word
    except (OSError, ValueError) as error:
        raise EngineError(
            f"no Ray cluster answers at {cluster} ({type(error).__name__})",
            "Give the HOST:PORT of its `ray start --head`, or auto on one of its machines",
        ) from None
    try:
        with parallel_config("ray"):
            yield
    except RayError as error:
        raise EngineError(
            f"the cluster lost a worker ({type(error).__name__})", "What is done is kept: run it again"
        ) from None
    finally:
        ray.shutdown()
