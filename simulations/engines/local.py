"""Engine `local`: ServerApp in this process, ClientApps on worker processes, no server, all cores."""

from __future__ import annotations

from flwr.app import Context, RecordDict

from consilium.coordinator.server_app import app
from consilium.simulations.engines.flower_internals import COORDINATOR_NODE, assume_identity
from consilium.simulations.engines.local_grid import LocalGrid

RUN_ID = 1


def run_local(run_config: dict[str, str], grid: LocalGrid) -> None:
    """Run the ServerApp to its end on an open grid. Raises what the ServerApp raises."""
    assume_identity(RUN_ID, COORDINATOR_NODE)
    app(grid, Context(RUN_ID, COORDINATOR_NODE, {}, RecordDict(), dict(run_config)))
