"""The cluster of the engine `ray`: its address, what a party is given there, and whether it can compute a run.

Is there a cluster, does it run what this machine runs, and has it room for a party? Asked before anything is made, in a
process of its own (`python -m consilium.simulations.engines.cluster_probe ADDRESS CPUS GPUS`): Ray takes over signals
of a process, and cannot be loaded twice with other settings."""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pydantic import Field

from consilium.models.devices import ONE_THREAD
from consilium.node.flower import python_module
from consilium.protocol.errors import EngineError
from consilium.protocol.models import Frozen
from consilium.protocol.versions import DISTRIBUTION, versions

PATIENCE = 10.0
"""Seconds for a connection."""


def check_answers(address: str) -> None:
    """Raise EngineError at once where nobody listens: Ray itself tries for minutes."""
    if address == "auto":
        return
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65_536:
        raise no_cluster(address, "it is not HOST:PORT")
    try:
        socket.create_connection((host.strip("[]"), int(port)), PATIENCE).close()
    except OSError as error:
        raise no_cluster(address, error.strerror or type(error).__name__) from None


def no_cluster(address: str, why: str) -> EngineError:
    """Nobody there, or nobody that this machine can join."""
    return EngineError(
        f"no Ray cluster answers at {address} ({why})",
        "Start one (ray start --head), and give its HOST:PORT, or auto for one on this machine",
    )


class RaySpec(Frozen):
    """Of one run.

    address: HOST:PORT of a Ray cluster that is there already, or "auto"; empty: a Ray of the run's own, on this
    machine. party_cpus, party_gpus: what Ray sets aside for a party while it computes; part of a GPU is shared.
    """

    address: str = ""
    party_cpus: int = Field(default=1, ge=1)
    party_gpus: float = Field(default=0.0, ge=0, allow_inf_nan=False)

    def federation_config(self, parties: int) -> str:
        """As `flwr run --federation-config` takes it."""
        words = [f"num-supernodes={parties}", f"client-resources-num-cpus={self.party_cpus}"]
        if self.party_gpus:
            words.append(f"client-resources-num-gpus={self.party_gpus}")
        return " ".join(words)


VARIABLE = "CONSILIUM_CLUSTER"
FIGURES = "cluster.json"


class ClusterSettings(Frozen):
    """Of one run.

    work: folder with the parties' homes. run: a name that no other run has. shared: files in `work` that all parties
    read. environment: of the processes on the nodes. figures: where it is written what was computed where.
    """

    address: str
    work: Path
    figures: Path
    environment: Mapping[str, str]
    shared: tuple[str, ...] = ("roster.json",)
    run: str = Field(default_factory=lambda: secrets.token_hex(8))

    def save(self, path: Path) -> dict[str, str]:
        """Write the file; returns what to set in the environment of whoever is to read it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.model_dump_json() + "\n", encoding="utf-8")
        return {VARIABLE: str(path)}

    @classmethod
    def told(cls) -> ClusterSettings:
        """As this process's environment says."""
        return cls.model_validate_json(Path(os.environ[VARIABLE]).read_bytes())


MUST_AGREE = (DISTRIBUTION, "flwr", "numpy", "scipy", "scikit-learn", "torch", "opendp")
CODE = "code"
"""Key of the hash of this program's code, beside versions."""
LONGEST = 180.0
OTHER_VERSIONS = re.compile(r"Ray: (\S+)\s+Python: (\S+).*?Ray: (\S+)\s+Python: (\S+)", re.DOTALL)
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DISABLE_DOCKER_CPU_WARNING": "1"}


def check_cluster(spec: RaySpec) -> None:
    """Return if a party of this run can be computed on the cluster.

    Raises
    ------
    EngineError : nobody answers, this machine is no node of it, other versions of Ray, Python, this program or what
        decides results, no node that has what a party needs.
    """
    if "://" in spec.address:
        raise no_cluster(spec.address, "it is not HOST:PORT; Ray Client cannot run Flower")
    check_answers(spec.address)
    command = python_module(__name__, spec.address, str(spec.party_cpus), str(spec.party_gpus))
    environment = {**os.environ, **QUIET, **ONE_THREAD}
    try:
        done = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LONGEST
        )
    except subprocess.TimeoutExpired:
        raise no_cluster(spec.address, f"no answer within {LONGEST:g} s") from None
    try:
        settings = json.loads(done.stdout.strip().splitlines()[-1])
    except (IndexError, ValueError):
        raise no_cluster(spec.address, f"Ray ended with exit code {done.returncode}") from None
    if "failed" in settings:
        raise not_joined(spec.address, settings["failed"], settings["text"])
    judge(spec, settings["nodes"], own_versions())


def judge(spec: RaySpec, nodes: Sequence[Mapping[str, Any]], driver: Mapping[str, str]) -> None:
    """Raise EngineError for nodes that cannot take part. nodes: their name, cpus, gpus and versions, or why not."""
    for node in nodes:
        versions = node["versions"]
        if not versions:
            raise EngineError(
                f"node {node['name']} of the cluster cannot load this program ({node['why']})",
                f"Install {DISTRIBUTION}[ray] {driver.get(DISTRIBUTION, '')} on all nodes, where Ray runs",
            )
        other = [
            f"{name} {versions.get(name, 'missing')} (here {driver[name]})"
            for name in driver
            if versions.get(name) != driver[name]
        ]
        if other:
            raise EngineError(
                f"node {node['name']} of the cluster has {', '.join(other)}", "Install the same versions on all nodes"
            )
    roomy = [node for node in nodes if node["cpus"] >= spec.party_cpus]
    if not roomy:
        most = max((node["cpus"] for node in nodes), default=0)
        raise EngineError(
            f"a party needs {spec.party_cpus} CPUs, and no node of the cluster has more than {most:g}",
            "Lower --party-cpus, or add a node",
        )
    if spec.party_gpus and not any(node["gpus"] >= spec.party_gpus for node in roomy):
        raise EngineError(
            f"a party needs {spec.party_gpus:g} of a GPU, and no node of the cluster at {spec.address} has one",
            "Start Ray with --num-gpus where there is one, or leave --party-gpus out",
        )


def not_joined(address: str, kind: str, text: str) -> EngineError:
    """For what Ray said when it would not connect."""
    if other := OTHER_VERSIONS.search(text):
        cluster, ours = f"Ray {other[1]} on Python {other[2]}", f"Ray {other[3]} on Python {other[4]}"
        return EngineError(
            f"the cluster at {address} runs {cluster}, this machine {ours}", "Use the same versions on all nodes"
        )
    return no_cluster(address, f"{kind}: is this machine one of its nodes?")


def own_versions() -> dict[str, str]:
    """What runs on this machine, and a hash of this program's own code: two checkouts may have the same version."""
    package = find_spec("consilium")
    top = os.path.dirname(package.origin or "") if package is not None else ""
    code = hashlib.sha256()
    files = [os.path.join(folder, name) for folder, _, names in os.walk(top, followlinks=True) for name in names]
    for path in sorted(each for each in files if each.endswith(".py")):
        code.update(os.path.relpath(path, top).encode() + b"\0")
        with open(path, "rb") as file:
            code.update(file.read() + b"\0")
    return {**versions(MUST_AGREE), CODE: code.hexdigest()[:12]}


def found_versions() -> dict[str, str]:
    """On a node: what runs there. Importing the parties' app shows that it can be."""
    from consilium import node_app

    return own_versions() if node_app.app is not None else {}


def look(address: str) -> dict[str, Any]:
    """All nodes that are alive, with what they have and run; or why Ray would not connect."""
    import logging

    import ray
    from ray.exceptions import RayError
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    try:
        ray.init(address=address, logging_level=logging.CRITICAL, log_to_driver=False)
    except (Exception, SystemExit) as error:
        return {"failed": type(error).__name__, "text": str(error)}
    nodes = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0)]
    task = ray.remote(num_cpus=0, max_retries=0)(found_versions)
    references = [
        task.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)).remote()
        for node in nodes
    ]
    nodes_told = []
    for node, reference in zip(nodes, references, strict=True):
        versions, why = {}, ""
        try:
            versions = ray.get(reference, timeout=LONGEST / 2)
        except RayError as error:
            why = type(getattr(error, "cause", None) or error).__name__
        resources = node["Resources"]
        nodes_told.append(
            {
                "name": node["NodeManagerHostname"],
                "cpus": resources.get("CPU", 0),
                "gpus": resources.get("GPU", 0),
                "versions": versions,
                "why": why,
            }
        )
    ray.shutdown()
    return {"nodes": nodes_told}


if __name__ == "__main__":
    print(json.dumps(look(sys.argv[1])))
