"""The steps of a study as tasks of a Ray cluster that is there already.

Nodes need this program in the same version, and nothing of this machine's disk: what a step reads travels as an object,
and what it gives comes back. A task whose node or process dies is done again by Ray, elsewhere.
"""

from __future__ import annotations

import importlib.util
import logging
from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from consilium.models.devices import ONE_THREAD
from consilium.protocol.errors import EngineError
from consilium.simulations.engines.ray_spec import check_answers, no_cluster
from consilium.simulations.study.cache import Shelf
from consilium.simulations.study.schedule import WorkerDied
from consilium.simulations.study.tasks import BatchDone, StepDesk, StudyStep, compute_batch

RETRIES = 3
_AHEAD = 2
"""Batches that are handed out for each processor: the next waits where the last one ends."""
_OBJECT_BYTES = 64_000_000
"""Of objects that are kept in the cluster for further steps, beside those that running ones use."""
_DESK = StepDesk()


def compute_far(steps: list[StudyStep], objects: Mapping[str, list[Any]]) -> BatchDone:
    """On a node. objects: by address, references to what steps read (in lists, so that Ray fetches none that is still
    on the desk)."""
    import ray

    def read(address: str) -> bytes:
        return ray.get(objects[address][0])

    return compute_batch(steps, read, _DESK, ray.get_runtime_context().get_node_id())


class RayPool:
    """Tasks on the cluster that this process is connected to. steps_done: on each node, by its id."""

    def __init__(self, shelf: Shelf) -> None:
        import ray

        self._ray, self._shelf = ray, shelf
        self._task = ray.remote(num_cpus=1, max_retries=RETRIES, scheduling_strategy="SPREAD")(compute_far)
        self._objects: OrderedDict[str, tuple[Any, int]] = OrderedDict()
        self.steps_done: Counter[str] = Counter()
        self.workers = max(1, int(ray.cluster_resources().get("CPU", 1)))
        self.room = _AHEAD * self.workers

    def submit(self, steps: list[StudyStep]) -> Future[BatchDone]:
        """See `StepPool`."""
        objects = {address: [self._object(address)] for step in steps for address in step.reads}
        return self._task.remote(steps, objects).future()

    def result(self, future: Future[BatchDone]) -> BatchDone:
        """See `StepPool`."""
        errors = self._ray.exceptions
        try:
            batch = future.result()
        except (errors.WorkerCrashedError, errors.NodeDiedError, errors.OutOfMemoryError, errors.ObjectLostError):
            raise WorkerDied(f"Ray gave it up after {RETRIES} retries: its processes or nodes died") from None
        except errors.RayTaskError as error:
            raise EngineError(
                f"a node of the cluster cannot do a step: {type(error.cause).__name__}",
                "Install consilium-pate in the same version on all nodes",
            ) from None
        except errors.RayError as error:
            raise EngineError(
                f"the Ray cluster does not answer any more ({type(error).__name__})",
                "What is done is kept: run the study again once the cluster is there",
            ) from None
        self.steps_done[batch.node] += len(batch.steps)
        return batch

    def _object(self, address: str) -> Any:
        """A reference to what lies under this address; the last few are kept. Raises LostStep."""
        if address in self._objects:
            self._objects.move_to_end(address)
            return self._objects[address][0]
        content = self._shelf.read(address)
        while self._objects and sum(size for _, size in self._objects.values()) + len(content) > _OBJECT_BYTES:
            self._objects.popitem(last=False)
        self._objects[address] = self._ray.put(content), len(content)
        return self._objects[address][0]


@contextmanager
def ray_pool(shelf: Shelf, address: str) -> Iterator[RayPool]:
    """Connected to the cluster at this address while the context is open.

    Raises
    ------
    EngineError : Ray is not installed, or there is no cluster.
    """
    if importlib.util.find_spec("ray") is None:
        raise EngineError("--ray needs Ray", "pip install 'consilium-pate[ray]'")
    check_answers(address)
    import ray

    environment = {"env_vars": ONE_THREAD}
    try:
        ray.init(address=address, logging_level=logging.ERROR, log_to_driver=False, runtime_env=environment)
    except (ConnectionError, ValueError, RuntimeError, OSError, SystemExit) as error:
        raise no_cluster(address, type(error).__name__) from None
    try:
        yield RayPool(shelf)
    finally:
        ray.shutdown()
