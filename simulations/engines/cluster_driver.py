"""In Flower's simulation process: its backend for Ray becomes the one whose parties' homes travel.

Flower loads the ClientApp here before it makes its backend, so what `client_app` does comes in time. What is used of
Flower and is not its public API is named in NAMES; where one is gone the run ends before it begins.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import import_module

from flwr.clientapp import ClientApp

from consilium.node.flower import require_flower
from consilium.simulations.engines.block_app import app
from consilium.simulations.engines.ray_spec import ClusterSettings

VCE = "flwr.server.superlink.fleet.vce"
BACKEND, LOOP, ACTORS = f"{VCE}.backend.raybackend", f"{VCE}.vce_api", "flwr.simulation.ray_transport.ray_actor"
NAMES = {
    BACKEND: tuple(f"RayBackend{name}" for name in ("", ".init_ray", ".build", ".process_message", ".terminate")),
    LOOP: ("ThreadPoolExecutor", "start_vce"),
    ACTORS: ("BasicActorPool", "VirtualClientEngineActor.run", "ClientAppActor"),
}
MOST_AT_ONCE = 4_096
"""Messages. Flower has one thread for each actor, but no more than this machine has processors, plus four."""


def client_app() -> ClientApp:
    """The parties' app, and from here on this run's backend. Raises EngineError for a Flower that is not known."""
    require_flower(NAMES)
    from consilium.simulations.engines.cluster import ClusterBackend

    backend = partial(ClusterBackend, settings=ClusterSettings.told())
    setattr(import_module(BACKEND), "RayBackend", backend)  # noqa: B010 a module of others
    setattr(import_module(LOOP), "ThreadPoolExecutor", partial(ThreadPoolExecutor, max_workers=MOST_AT_ONCE))  # noqa: B010
    return app
