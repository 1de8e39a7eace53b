"""What Flower's Simulation Engine runs: the simulated coordinator, and nodes whose state travels in Flower's context.

Both read one folder, which all machines of the cluster see, and whose name stands in the run configuration."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from flwr.app import ConfigRecord, Context, RecordDict
from flwr.serverapp import Grid, ServerApp

from consilium.coordinator.collection.exchange import Failure, FlowerTransport, Transport
from consilium.party.store import Store
from consilium.protocol.files import write_private
from consilium.protocol.messages import WireModel
from consilium.simulations.engines.node_app import Node, app_of, index_of
from consilium.simulations.said import Heard
from consilium.simulations.simulated import Population, SimulatedFederation

FOLDER, RUN_DIR = "folder", "run-dir"
"""Keys of the run configuration."""
FEDERATION, POPULATION, HEARD = "federation.pickle", "population.pickle", "heard.pickle"
STORE, CONTENT = "store", "content"
"""Record of a node's context, and its key, with what a party remembers."""
TRIES, FEW = 6, 16
"""Times that a message is sent, and messages that are sent together after some were lost."""
server = ServerApp()


@server.main()
def main(grid: Grid, context: Context) -> None:
    """Run the federation that is laid out in the folder, and leave there what its teachers said."""
    folder, run_dir = Path(str(context.run_config[FOLDER])), Path(str(context.run_config[RUN_DIR]))
    federation: SimulatedFederation = pickle.loads((folder / FEDERATION).read_bytes())
    heard = federation.run(SendsAgain(FlowerTransport(grid)), run_dir)
    write_private(folder / HEARD, pickle.dumps(heard))


def lay_out(folder: Path, federation: SimulatedFederation, population: Population) -> None:
    """For `main` and the nodes: a folder that only its owner can read."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_private(folder / FEDERATION, pickle.dumps(federation))
    write_private(folder / POPULATION, pickle.dumps(population))


def heard_in(folder: Path) -> Heard:
    """What `main` left there."""
    return pickle.loads((folder / HEARD).read_bytes())


class SendsAgain:
    """See `Transport`: of a simulation, in which nobody is away. A node that did not answer was in a process that
    ended: it is asked again, up to `TRIES` times in all. Flower hands such a process further messages, which fail at
    once, while others work. So after a loss few messages are sent at a time, as many as were answered last: these find
    the processes that live, which came back last."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner

    def nodes(self) -> list[int]:
        return self._inner.nodes()

    def exchange(self, requests: Mapping[int, WireModel], timeout: float) -> Iterator[tuple[int, RecordDict | Failure]]:
        left, at_once, done = list(requests), len(requests), 0
        tries = Counter[int]()
        while left:
            now, left, before = left[:at_once], left[at_once:], done
            for node, reply in self._inner.exchange({node: requests[node] for node in now}, timeout):
                tries[node] += 1
                if isinstance(reply, Failure) and reply.silent and tries[node] < TRIES:
                    left.append(node)
                    continue
                done += 1
                yield node, reply
            if done - before < len(now):
                at_once = min(done - before or 2 * at_once, FEW)


@contextmanager
def in_context(context: Context) -> Iterator[Node]:
    """See `node_app.Opened`: what the party remembers comes with the context, and goes with it."""
    population, index = _population(Path(str(context.run_config[FOLDER]))), index_of(context)
    if index not in population.parties:
        yield population.second_aggregator()
        return
    kept = context.state.get(STORE)
    store = Store.in_memory(bytes(kept[CONTENT]) if isinstance(kept, ConfigRecord) else b"")  # pyright: ignore
    try:
        yield population.party(index, store)
    finally:
        context.state[STORE] = ConfigRecord({CONTENT: store.content()})
        store.close()


@lru_cache(maxsize=1)
def _population(folder: Path) -> Population:
    return pickle.loads((folder / POPULATION).read_bytes())


app = app_of(in_context)
