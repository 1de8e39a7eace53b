"""A scenario as files, for whoever starts the nodes: Flower by hand, or separate processes."""

from __future__ import annotations

from pathlib import Path

import tomli_w

from consilium.simulations.population.parties import check_own_teachers
from consilium.simulations.scenario import Scenario, divided_data
from consilium.simulations.workspace import federation_config, lay_out, make_run_dir, nodes_of


def prepare_scenario(scenario: Scenario, seed: int, out: Path, service: str) -> list[str]:
    """Write homes, pool, federation file and the settings of run and student into the new folder `out`.

    Returns what to do next, line by line.
    `service` is the host:port on which the coordinator will listen for the student.

    Raises
    ------
    ConfigError : what `federation_config` and `make_run_dir` say.
    """
    dataset, partition = divided_data(scenario, seed)
    config = federation_config(scenario, dataset, partition, seed).model_copy(update={"service": service})
    check_own_teachers(scenario.simulation, config.rows)
    space = make_run_dir(out)
    lay_out(space, scenario, dataset, partition, config, seed)
    run_config = space.run_config(space.run_dir / "coordinator", "socket")
    path = space.run_dir / "run-config.toml"
    path.write_text(tomli_w.dumps(run_config), encoding="utf-8")
    settings = space.run_dir / "student.toml"
    settings.write_text(tomli_w.dumps(scenario.student.model_dump(mode="json")), encoding="utf-8")
    return [
        f"homes of {len(partition.parties)} parties: {space.party_root}",
        f"student's pool: {space.work / 'pool.npz'}",
        f"flwr run . --run-config {path} --federation-config 'num-supernodes={nodes_of(scenario, partition)}' --stream",
        f"consilium student run --coordinator {service} --pool {space.work / 'pool.npz'} --config {settings}"
        f" --seed {seed} --out DIR",
    ]
