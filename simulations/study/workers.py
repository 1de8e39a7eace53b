"""Where a study computes: processes of this machine, or a Ray cluster, both by joblib; and how far they are."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import signal
import socket
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any, TypeVar

from joblib import Parallel, delayed, parallel_config

from consilium.models.devices import one_thread
from consilium.protocol.errors import EngineError, PathError
from consilium.protocol.files import for_its_owner_alone
from consilium.protocol.label_source import Progress
from consilium.report.progress import COMPARE
from consilium.simulations.interruption import begin_worker
from consilium.simulations.study.compute import is_kept
from consilium.simulations.study.results import place_of

T = TypeVar("T")
POLL_SECONDS = 1.0


def in_workers(
    work: Callable[..., T], jobs: Sequence[tuple[Any, ...]], workers: int, cache: Path, cluster: str = ""
) -> list[T]:
    """What `work` gives for each job, a tuple of its arguments. cache: what a worker must see. Raises EngineError: a
    worker process died, or there is no such cluster. PathError: a worker does not see the folder."""
    if not jobs:
        return []
    one = delayed(functools.partial(_in_worker, work, cache, place_of(cache)))
    try:
        with _on_ray(cluster) if cluster else _processes():
            count = -1 if cluster else min(workers, len(jobs))
            pool: Any = Parallel(count)
            return pool(one(job) for job in jobs)
    except BrokenProcessPool:
        raise EngineError(
            "a worker process ended, perhaps for want of memory",
            "What is done is kept: run it again with fewer --workers",
        ) from None


def _in_worker(work: Callable[..., T], cache: Path, place: bytes, job: tuple[Any, ...]) -> T:
    if place_of(cache) != place:
        fault = f"worker {socket.gethostname()} does not see {cache}"
        raise PathError(fault, "Give --out on a disk that all machines share")
    with for_its_owner_alone(), one_thread():
        return work(*job)


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


@contextlib.contextmanager
def watched(cache: str, names: Sequence[str], progress: Progress) -> Iterator[None]:
    """Tell how many of these cells are kept, while the context is open. The folder is asked, to which all workers
    write: also those of a cluster."""
    left, end = {name for name in names if not is_kept(cache, name)}, threading.Event()

    def look() -> None:
        pause = POLL_SECONDS
        while not end.wait(pause):
            began = time.monotonic()
            left.difference_update([name for name in left if is_kept(cache, name)])
            progress(COMPARE, len(names) - len(left), len(names))
            pause = max(POLL_SECONDS, 20 * (time.monotonic() - began))

    progress(COMPARE, len(names) - len(left), len(names))  # at the pace of the others, the rest is to come
    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()
    progress(COMPARE, len(names), len(names))
