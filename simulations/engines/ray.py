"""Engine `ray`: Flower's Simulation Engine, through `flwr run` on a SuperLink of this run's own; and what it runs: the
simulated coordinator, and nodes whose state travels in Flower's context.

The SuperLink is started from a neutral folder with the run's own FLWR_HOME and port, so that neither the caller's
checkout nor another run can get in the way. Its Ray is one of the run's own, on this machine, or the cluster that the
variable `RAY_ADDRESS` names, whose machines all see the run's folder under its own path: coordinator and nodes read it.
The app that is submitted is a shim that imports the installed packages.
"""

from __future__ import annotations

import importlib.util
import os
import pickle
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path

import tomli_w
from flwr.app import ConfigRecord, Context, RecordDict
from flwr.serverapp import Grid, ServerApp

from consilium.coordinator.collection.exchange import Failure, FlowerTransport, Transport
from consilium.coordinator.events import read_events
from consilium.coordinator.federation import failure_of
from consilium.node.flower import flower_environment, free_port, program
from consilium.node.supervisor import end
from consilium.party.store import Store
from consilium.protocol.errors import ConfigError, EngineError
from consilium.protocol.files import replace_private, write_private
from consilium.protocol.messages import WireModel
from consilium.protocol.versions import DISTRIBUTION
from consilium.simulations.engines.flower import Node, app_of, index_of
from consilium.simulations.engines.process import search_path
from consilium.simulations.said import Heard
from consilium.simulations.simulated import Population, SimulatedFederation

ADDRESS, CONNECTION = "RAY_ADDRESS", "consilium"
RAY_ALONE = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DISABLE_DOCKER_CPU_WARNING": "1", ADDRESS: "local"}
"""A Ray of its own, for as long as the run takes: without an address Ray joins any cluster that it finds on the
machine, whose owner would hold parties' rows and votes, and which may have no processor left."""
START_SECONDS, PATIENCE = 60, 10
MOST_LOST = 0.01
"""Share of the parties. A party of a simulation is never away: one that is silent was lost with a process."""
APP = "consilium.simulations.engines.ray"  # this module


def check_ray() -> None:
    """Raise EngineError where Ray is not installed, ConfigError where its address is none for Flower."""
    if importlib.util.find_spec("ray") is None:
        raise EngineError("engine ray needs Flower's simulation extra", "pip install 'consilium-pate[ray]'")
    if "://" in (address := os.environ.get(ADDRESS, "")):
        raise ConfigError(
            f"{ADDRESS} is {address}, not HOST:PORT; Ray Client cannot run Flower",
            "Give the HOST:PORT of `ray start --head`, or auto for a cluster on this machine",
        )


def run_ray(federation: SimulatedFederation, population: Population, run_dir: Path, work: Path) -> Heard:
    """Run the federation to its end; what its teachers say. work: a new folder for this alone. Raises EngineError:
    Flower could not be started or failed, or lost more than `MOST_LOST` of the parties. ConsiliumError: what the
    ServerApp failed of."""
    work.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_private(work / FEDERATION, pickle.dumps(federation))
    write_private(work / POPULATION, pickle.dumps(population))
    flower, ended = work / "flower", run_dir / "coordinator.json"
    environment = {**flower_environment(flower / "home"), **RAY_ALONE}
    if address := os.environ.get(ADDRESS):
        environment[ADDRESS] = address
    app = write_shim(flower / "app", {FOLDER: str(work), RUN_DIR: str(run_dir)}, search_path())
    code = None
    try:
        with super_link(flower, environment) as address:
            code = flwr_run(app, address, flower, environment, population.nodes)
    finally:
        events = read_events(run_dir / "events.jsonl")
        lost = {event.party for event in events if event.kind == "left-out" and event.silent}
        if lost or not ended.exists():
            logs = b"".join(path.read_bytes() for path in sorted(flower.glob("*.log")))
            replace_private(run_dir / "flower.log", logs)
    parties, see = len(population.parties), f"See {run_dir / 'flower.log'}"
    if len(lost) > MOST_LOST * parties:
        raise EngineError(
            f"Ray lost {len(lost)} of {parties} parties: what they ran in ended, or did not answer in time",
            f"{see}, and run again; or use --engine local",
        )
    if failure := failure_of(read_events(run_dir / "events.jsonl")):
        raise failure
    if code != 0 or not ended.exists():
        raise EngineError(f"Flower's simulation ended without a result (flwr run: exit {code})", see)
    return pickle.loads((work / HEARD).read_bytes())


def write_shim(folder: Path, run_config: dict[str, str], modules: Sequence[str]) -> Path:
    """A Flower app that only imports the installed coordinator and nodes. modules: folders in which both also find
    modules, after all others."""
    also = f"import sys\n\nsys.path += [each for each in {list(modules)!r} if each not in sys.path]\n\n"
    package = folder / "consilium_flower"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text('"""Imports the installed Consilium."""\n')
    (package / "apps.py").write_text(f"{also}import {APP}\n\nserver = {APP}.server\nclient = {APP}.app\n")
    app = {
        "publisher": "consilium",
        "fab-include": ["consilium_flower/*.py"],
        "components": {"serverapp": "consilium_flower.apps:server", "clientapp": "consilium_flower.apps:client"},
        "config": run_config,
    }
    project = {
        "name": "consilium-flower",
        "version": version(DISTRIBUTION),
        "description": "Consilium, as it is installed",
        "license": "Apache-2.0",
        "dependencies": [f"flwr=={version('flwr')}"],
    }
    (folder / "pyproject.toml").write_text(tomli_w.dumps({"project": project, "tool": {"flwr": {"app": app}}}))
    return folder


@contextmanager
def super_link(folder: Path, environment: dict[str, str]) -> Iterator[str]:
    """A SuperLink on loopback while the context is open; yields host:port. Logs to `folder`. Raises EngineError: it
    died, or takes too long."""
    port = free_port()
    command = [program("flower-superlink"), "--insecure", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--simulation", "--isolation", "subprocess"]
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "superlink.log", "wb") as output:
        process = subprocess.Popen(
            command, env=environment, cwd=folder, stdout=output, stderr=output, start_new_session=True
        )
        try:
            deadline = time.monotonic() + START_SECONDS
            while not _listens(port):
                if process.poll() is not None:
                    raise EngineError(f"the SuperLink ended with exit code {process.returncode}")
                if time.monotonic() > deadline:
                    raise EngineError(f"the SuperLink does not listen after {START_SECONDS} s")
                time.sleep(0.1)
            yield f"127.0.0.1:{port}"
        finally:
            end(process, PATIENCE)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def flwr_run(app: Path, address: str, folder: Path, environment: dict[str, str], nodes: int) -> int:
    """Submit an app and wait for its end; returns the exit code of `flwr run`. Its output goes to a log in `folder`."""
    table = {"superlink": {"default": CONNECTION, CONNECTION: {"address": address, "insecure": True}}}
    home = Path(environment["FLWR_HOME"])
    home.mkdir(parents=True, exist_ok=True)
    (home / "config.toml").write_text(tomli_w.dumps(table))
    options = f"num-supernodes={nodes} client-resources-num-cpus=1"
    command = [program("flwr"), "run", str(app), CONNECTION, "--stream", "--federation-config", options]
    with open(folder / "flwr-run.log", "wb") as output:
        return subprocess.run(command, env=environment, cwd=folder, stdout=output, stderr=output).returncode


FOLDER, RUN_DIR = "folder", "run-dir"  # keys of the run configuration
FEDERATION, POPULATION, HEARD = "federation.pickle", "population.pickle", "heard.pickle"
STORE, CONTENT = "store", "content"  # record of a node's context, and its key, with what a party remembers
TRIES, FEW = 6, 16  # times that a message is sent, and messages that are sent together after some were lost
server = ServerApp()


@server.main()
def main(grid: Grid, context: Context) -> None:
    """Run the federation that is laid out in the folder, and leave there what its teachers said."""
    folder, run_dir = Path(str(context.run_config[FOLDER])), Path(str(context.run_config[RUN_DIR]))
    federation: SimulatedFederation = pickle.loads((folder / FEDERATION).read_bytes())
    heard = federation.run(SendsAgain(FlowerTransport(grid)), run_dir)
    write_private(folder / HEARD, pickle.dumps(heard))


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
    """See `flower.Opened`: what the party remembers comes with the context, and goes with it."""
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
