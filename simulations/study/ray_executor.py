"""The steps of a study as tasks of a Ray cluster that is there already.

Nodes need this program in the same version, and nothing of this machine's disk: what a step reads travels as an object,
and what it gives comes back. A task whose node or process dies is done again by Ray, elsewhere.
"""

from __future__ import annotations

import importlib.util
import logging
from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from consilium.models.devices import ONE_THREAD
from consilium.protocol.errors import EngineError
from consilium.simulations.engines.cluster.probe import check_answers, no_cluster
from consilium.simulations.study.cache import LostStep
from consilium.simulations.study.cells import deciding_versions
from consilium.simulations.study.schedule import Died, Shelf, addresses
from consilium.simulations.study.tasks import BatchDone, StepDesk, StepDone, StudyStep, work_off

POLL_SECONDS = 0.5
RETRIES = 3
_AHEAD = 2
"""Batches that are handed out for each processor: the next waits where the last one ends."""
_OBJECT_BYTES = 64_000_000
"""Of objects that are kept in the cluster for further steps, beside those that running ones use."""
_DESK = StepDesk()


def work_far(steps: list[StudyStep], objects: Mapping[str, list[Any]]) -> BatchDone:
    """On a node: do steps. objects: by address, references to what they read (in lists, so that Ray fetches none that
    is still on the desk)."""
    import ray

    def read(address: str) -> bytes:
        return ray.get(objects[address][0])

    return work_off(steps, read, _DESK, ray.get_runtime_context().get_node_id())


class RayExecutor:
    """Tasks on the cluster that this process is connected to. steps_done: on each node, by its id."""

    def __init__(self, shelf: Shelf) -> None:
        import ray

        self._ray, self._shelf = ray, shelf
        self._task = ray.remote(num_cpus=1, max_retries=RETRIES, scheduling_strategy="SPREAD")(work_far)
        self._running: dict[Any, int] = {}
        self._objects: OrderedDict[str, tuple[Any, int]] = OrderedDict()
        self.steps_done: Counter[str] = Counter()
        self._lost: list[tuple[int, BatchDone]] = []
        self.workers = max(1, int(ray.cluster_resources().get("CPU", 1)))

    def room(self) -> int:
        """See `Executor`."""
        return _AHEAD * self.workers - len(self._running) - len(self._lost)

    def submit(self, number: int, steps: list[StudyStep]) -> None:
        """See `Executor`."""
        try:
            objects = {address: [self._object(address)] for address in sorted(addresses(steps))}
        except LostStep as error:
            # the others of the batch lack nothing, and are handed out once more
            done = [StepDone(step.address, lost=error.address) for step in steps]
            self._lost.append((number, BatchDone(done, deciding_versions())))
            return
        self._running[self._task.remote(steps, objects)] = number

    def finished(self) -> list[tuple[int, BatchDone | Died]]:
        """See `Executor`."""
        found: list[tuple[int, BatchDone | Died]] = list(self._lost)
        self._lost.clear()
        if self._running:
            done, _ = self._ray.wait(list(self._running), num_returns=1, timeout=0 if found else POLL_SECONDS)
            found += [(self._running.pop(each), self._result(each)) for each in done]
        for _, batch in found:
            if isinstance(batch, BatchDone):
                self.steps_done[batch.where] += len(batch.steps)
        return found

    def _result(self, reference: Any) -> BatchDone | Died:
        errors = self._ray.exceptions
        try:
            return self._ray.get(reference)
        except (errors.WorkerCrashedError, errors.NodeDiedError, errors.OutOfMemoryError, errors.ObjectLostError):
            return Died(f"Ray gave it up after {RETRIES} retries: its processes or nodes died")
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

    def _object(self, address: str) -> Any:
        """A reference to what lies under this address; the last few are kept."""
        if address in self._objects:
            self._objects.move_to_end(address)
            return self._objects[address][0]
        content = self._shelf.read(address)
        while self._objects and sum(size for _, size in self._objects.values()) + len(content) > _OBJECT_BYTES:
            self._objects.popitem(last=False)
        self._objects[address] = self._ray.put(content), len(content)
        return self._objects[address][0]


@contextmanager
def ray_executor(shelf: Shelf, address: str) -> Iterator[RayExecutor]:
    """Connected to the cluster at this address while the context is open.

    Raises
    ------
    EngineError : Ray is not installed, or there is no cluster.
    """
    if importlib.util.find_spec("ray") is None:
        raise EngineError("--ray needs Ray", "pip install 'consilium-pate[ray]'")
    check_answers(address)
    import ray

    try:
        ray.init(
            address=address,
            logging_level=logging.ERROR,
            log_to_driver=False,
            runtime_env={"env_vars": ONE_THREAD},
        )
    except (ConnectionError, ValueError, RuntimeError, OSError, SystemExit) as error:
        raise no_cluster(address, type(error).__name__) from None
    try:
        yield RayExecutor(shelf)
    finally:
        ray.shutdown()
