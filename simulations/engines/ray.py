"""Engine `ray`: Flower's Simulation Engine, through `flwr run` on a SuperLink of this run's own.

The SuperLink is started from a neutral folder with the run's own FLWR_HOME and port, so that neither the caller's
checkout nor another run can get in the way. Its Ray is one of the run's own, on this machine, or the cluster that the
variable `RAY_ADDRESS` names, whose machines all see the run's folder under its own path. What a party remembers travels
in Flower's context.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

from consilium.coordinator.events import read_events
from consilium.coordinator.run_folders import failure_of
from consilium.node.flower import flower_environment
from consilium.protocol.errors import ConfigError, EngineError
from consilium.protocol.files import replace_private
from consilium.simulations.engines.flower import RAY_ALONE, flwr_run, super_link, write_shim
from consilium.simulations.engines.process import search_path
from consilium.simulations.engines.ray_app import FOLDER, RUN_DIR, heard_in, lay_out
from consilium.simulations.federation import SimulatedFederation
from consilium.simulations.said import Heard
from consilium.simulations.simulated import Population

ADDRESS = "RAY_ADDRESS"
MOST_LOST = 0.01
"""Share of the parties. A party of a simulation is never away: one that is silent was lost with a process."""


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
    lay_out(work, federation, population)
    flower = work / "flower"
    environment = {**flower_environment(flower / "home"), **RAY_ALONE}
    if address := os.environ.get(ADDRESS):
        environment[ADDRESS] = address
    app = write_shim(flower / "app", {FOLDER: str(work), RUN_DIR: str(run_dir)}, search_path())
    code = None
    try:
        with super_link(flower, environment, "--simulation", "--isolation", "subprocess") as address:
            options = f"num-supernodes={population.nodes} client-resources-num-cpus=1"
            code = flwr_run(app, address, flower, environment, "--federation-config", options)
    finally:
        lost = {
            event.party for event in read_events(run_dir / "events.jsonl") if event.kind == "left-out" and event.silent
        }
        if lost or not (run_dir / "coordinator.json").exists():
            logs = b"".join(path.read_bytes() for path in sorted(flower.glob("*.log")))
            replace_private(run_dir / "flower.log", logs)
    parties = len(population.parties)
    if len(lost) > MOST_LOST * parties:
        raise EngineError(
            f"Ray lost {len(lost)} of {parties} parties: what they ran in ended, or did not answer in time",
            f"See {run_dir / 'flower.log'}, and run again; or use --engine local",
        )
    if failure := failure_of(read_events(run_dir / "events.jsonl")):
        raise failure
    if code != 0 or not (run_dir / "coordinator.json").exists():
        raise EngineError(
            f"Flower's simulation ended without a result (flwr run: exit {code})", f"See {run_dir / 'flower.log'}"
        )
    return heard_in(work)
