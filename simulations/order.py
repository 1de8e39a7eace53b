"""What is to be run, and on what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from consilium.protocol.config_files import validate
from consilium.protocol.devices import Device, resolve_device
from consilium.protocol.errors import ConfigError
from consilium.simulations.engines.cluster.spec import RaySpec
from consilium.simulations.engines.ray import OWN_RAY, check_ray
from consilium.simulations.scenario import Scenario

Engine = Literal["local", "ray"]


@dataclass(frozen=True)
class Order:
    """A scenario with what stands beside it, and when that was first asked. ray: for the engine of that name."""

    name: str
    scenario: Scenario
    engine: Engine
    seed: int
    created: str
    device: Device
    ray: RaySpec = OWN_RAY

    def resolved_device(self) -> Literal["cpu", "cuda"]:
        """Where networks are trained on this machine. Raises ConfigError if that is a GPU which cannot be used."""
        if self.engine != "ray":
            if self.ray != OWN_RAY:
                raise ConfigError(
                    "an address, or what a party is given, belongs to the engine ray",
                    "Add --engine ray, or leave it out",
                )
            return resolve_device(self.device)
        if self.ray.address:
            return resolve_device(self.device)  # the student's; parties have theirs on the nodes
        if self.ray.party_gpus:
            return resolve_device("cuda")  # one environment for all processes of this machine
        if self.device == "cuda":
            raise ConfigError(
                "engine ray gives its parties no GPU by itself",
                "Add --party-gpus, the part of a GPU that a party is given, or use --engine local or --device cpu",
            )
        return "cpu"

    def check_engine(self) -> None:
        """Raise EngineError if the engine cannot be had."""
        if self.engine == "ray":
            check_ray(self.ray)

    def told(self) -> dict[str, Any]:
        """What a manifest says of the engine beside its name."""
        return {"ray": self.ray.model_dump(mode="json")} if self.engine == "ray" else {}


def ray_again(manifest: Mapping[str, Any], address: str) -> RaySpec:
    """As the manifest of a run says, at another address if one is given. Raises ConfigError."""
    return validate({**manifest.get("ray", {}), **({"address": address} if address else {})}, RaySpec, "manifest: ray")
