"""Engine `ray`: Flower's Simulation Engine, through `flwr run` on a SuperLink of this run's own.

The SuperLink is started from a neutral folder with the run's own FLWR_HOME and port, so that neither the caller's
checkout nor another run can get in the way. Parties work in the run folder. Its Ray is one of the run's own, on this
machine, or a cluster that is there already, whose machines all see that folder.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

from consilium.coordinator.events import LeftOut, read_events
from consilium.node.flower import flower_environment
from consilium.protocol import errors
from consilium.protocol.errors import ConsiliumError, EngineError
from consilium.protocol.files import replace_private
from consilium.simulations.engines.flower import RAY_ALONE, flwr_run, super_link, write_shim
from consilium.simulations.engines.process import search_path
from consilium.simulations.engines.ray_spec import RaySpec, check_answers, no_cluster
from consilium.sums import errors as errors_of_sums
from consilium.sums.errors import SecAggError

OWN_RAY = RaySpec()
MOST_LOST = 0.01
"""Share of the parties. A party of a simulation is never away: one that is silent was lost with a process, and Flower
gives a process that has ended every further message."""


def check_ray(spec: RaySpec) -> None:
    """What can be known before a run begins.

    Raises
    ------
    EngineError : Ray is not installed, or nobody answers where the cluster is said to be.
    """
    if importlib.util.find_spec("ray") is None:
        raise EngineError("engine ray needs Flower's simulation extra", "pip install 'consilium-pate[ray]'")
    if spec.address:
        if "://" in spec.address:
            raise no_cluster(spec.address, "it is not HOST:PORT; Ray Client cannot run Flower")
        check_answers(spec.address)


def run_ray(
    run_config: dict[str, str], nodes: int, parties: int, run_dir: Path, work: Path, spec: RaySpec = OWN_RAY
) -> None:
    """Run the federation to its end. nodes : of Flower, each with some of the parties.

    Raises
    ------
    EngineError : Flower could not be started or failed, or lost more than `MOST_LOST` of the parties.
    ConsiliumError : what the ServerApp wrote into `failure.json`.
    """
    flower = work / "flower"
    environment = {**flower_environment(flower / "home"), **RAY_ALONE}
    if spec.address:
        environment["RAY_ADDRESS"] = spec.address
    app = write_shim(flower / "app", run_config, search_path())
    code = None
    try:
        with super_link(flower, environment, "--simulation", "--isolation", "subprocess") as address:
            code = flwr_run(app, address, flower, environment, "--federation-config", spec.federation_config(nodes))
    finally:
        lost = {
            event.party
            for event in read_events(run_dir / "events.jsonl")
            if isinstance(event, LeftOut) and event.silent
        }
        if lost or not (run_dir / "coordinator.json").exists():
            logs = b"".join(path.read_bytes() for path in sorted(flower.glob("*.log")))
            replace_private(run_dir / "flower.log", logs)
    if len(lost) > MOST_LOST * parties:
        raise EngineError(
            f"Ray lost {len(lost)} of {parties} parties: what they ran in ended, or did not answer in time",
            f"See {run_dir / 'flower.log'}, and run again; or use --engine local",
        )
    raise_failure(run_dir)
    if code != 0 or not (run_dir / "coordinator.json").exists():
        raise EngineError(
            f"Flower's simulation ended without a result (flwr run: exit {code})", f"See {run_dir / 'flower.log'}"
        )


def raise_failure(run_dir: Path) -> None:
    """Raise the typed error that the ServerApp wrote, if it wrote one."""
    path = run_dir / "failure.json"
    if path.exists():
        failure = json.loads(path.read_text(encoding="utf-8"))
        fallback = SecAggError if hasattr(errors_of_sums, failure["error"]) else ConsiliumError
        kind = getattr(errors, failure["error"], fallback)
        raise kind(failure["what"], failure["action"])
