"""A scenario as files, for whoever starts the nodes: Flower by hand, separate processes, or real nodes with kits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from consilium.coordinator.provision import kits
from consilium.coordinator.provision.plan import read_plan
from consilium.protocol.errors import ConfigError
from consilium.protocol.schema import ColumnEncoding
from consilium.simulations.datasets.source import open_source
from consilium.simulations.datasets.table import raw_rows
from consilium.simulations.divide import divide
from consilium.simulations.population.parties import check_own_teachers
from consilium.simulations.population.public import schema
from consilium.simulations.scenario import Scenario, divided_data, divided_source
from consilium.simulations.workspace import lay_out, make_run_dir


def prepare_scenario(scenario: Scenario, seed: int, out: Path, service: str) -> list[str]:
    """Write homes, pool, federation file and the settings of run and student into the new folder `out`.

    Returns what to do next, line by line.
    `service` is the host:port on which the coordinator will listen for the student.

    Raises
    ------
    ConfigError : what `federation_config` and `make_run_dir` say.
    """
    case = divide(scenario, seed)
    case = replace(case, config=case.config.model_copy(update={"service": service}))
    check_own_teachers(scenario.simulation, case.config.rows)
    space = make_run_dir(out)
    lay_out(space, case)
    run_config = space.run_config(space.run_dir / "coordinator", "socket")
    path = space.run_dir / "run-config.toml"
    path.write_text(tomli_w.dumps(run_config), encoding="utf-8")
    settings = space.run_dir / "student.toml"
    settings.write_text(tomli_w.dumps(scenario.student.model_dump(mode="json")), encoding="utf-8")
    return [
        f"homes of {len(case.parties)} parties: {space.party_root}",
        f"student's public rows: {space.work / 'public.npz'}",
        f"flwr run . --run-config {path} --federation-config 'num-supernodes={case.nodes}' --stream",
        f"consilium student run --coordinator {service} --public {space.work / 'public.npz'} --config {settings}"
        f" --seed {seed} --out DIR",
    ]


PLAN, KITS, STUDENT = "federation.toml", "kits", "student"


@dataclass(frozen=True)
class MadeKits:
    """plan: the file that `consilium provision` takes. made: what it made of it, in `folder`."""

    plan: Path
    folder: Path
    made: kits.Made

    def lines(self) -> list[str]:
        """What was made, and what is next, line by line."""
        return [
            f"plan    {self.plan}",
            *(f"kit     {kit}.tar.gz" for kit in self.made.kits),
            f"parties and hosts are those of the plan: correct them there, then `consilium provision {self.plan} --out`"
            " a new folder",
        ]


def make_kits(scenario: Scenario, seed: int, out: Path, hosts: Sequence[str]) -> MadeKits:
    """`federation.toml`, the file of public rows and the kits, in the new folder `out`.

    The parties have the names of the simulated ones. Of the rows the student's pool is written, which gives means,
    spreads and categories; neither a private row nor one of the test set.

    Raises
    ------
    ConfigError : the schema of the kits would be another one. DataError, NotEnoughParties,
        OutputExists
    """
    source, division = divided_source(scenario, seed, open_source(scenario.data))
    dataset, partition = divided_data(scenario, seed, source)
    simulated = schema(scenario.data, dataset, partition)
    rows: dict[str, Any] = {"classes": list(dataset.classes), "standardise": scenario.data.standardise}
    raw = raw_rows(source, division.queries)
    folder = make_run_dir(out).run_dir
    if raw is None:
        fixed = scenario.federation.voting_rule.relative
        rows |= {"features": list(simulated.features), "representation": scenario.data.representation}
        if scenario.data.standardise and scenario.data.representation == "none":
            rows |= {"center": list(simulated.center), "scale": list(simulated.scale)}
        rows |= {"queries": "public.npz"} if fixed else {}
        queries = dataset.x[partition.queries]
        np.savez(folder / "public.npz", features=np.array(dataset.features), queries=queries)
    else:
        rows |= {
            "public": "public.csv",
            "columns": {encoding.column: _declared(encoding) for encoding in dataset.columns},
        }
        raw.write_csv(folder / "public.csv")
    federation = scenario.federation.model_dump(mode="json", exclude_none=True)
    plan = {
        "federation": federation,
        "rows": rows,
        "coordinator": {"hosts": list(hosts)},
        "party": [{"name": name} for name in partition.parties],
        "student": [{"name": STUDENT}],
    }
    path = folder / PLAN
    path.write_text(tomli_w.dumps(plan), encoding="utf-8")
    of_kits = read_plan(path)[1]
    if of_kits != simulated:
        different = sorted(
            name for name in type(simulated).model_fields if getattr(of_kits, name) != getattr(simulated, name)
        )
        fault = f"the kits' schema would not be the simulation's: other {', '.join(different)}"
        raise ConfigError(fault, f"Compare `rows` in {path} with the scenario's [data], and provision it by hand")
    result = kits.make(path, folder / KITS)
    return MadeKits(path, folder / KITS, result)


def _declared(column: ColumnEncoding) -> dict[str, Any]:
    """The column as `[rows.columns]` declares it, so that nothing is inferred twice."""
    values = {"values": list(column.values)} if column.values else {}
    return {"kind": column.kind, **values, "missing": column.missing}
