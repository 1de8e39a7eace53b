"""One simulated run from scenario to report."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np

from consilium.coordinator.config import check_threshold
from consilium.coordinator.privacy import promised
from consilium.coordinator.server_app import app
from consilium.models.devices import VARIABLE, Device, one_thread, resolve_device, using_device
from consilium.models.published.model import CARD_FILE, READING, check_names
from consilium.node.progress import PREPARE, REPORT, stage
from consilium.protocol.errors import ConfigError
from consilium.protocol.files import replace_private, replace_text, writing
from consilium.protocol.strict_json import dumps
from consilium.protocol.versions import versions
from consilium.simulations.beside import Idle
from consilium.simulations.datasets.base import Source
from consilium.simulations.divide import Case, divide
from consilium.simulations.engines.block_server import server
from consilium.simulations.engines.local import RUN_ID, LocalGrid, run_local
from consilium.simulations.engines.process import Worker, running_workers
from consilium.simulations.engines.ray import OWN_RAY, check_ray, run_ray
from consilium.simulations.engines.ray_spec import RaySpec
from consilium.simulations.interruption import interruptible
from consilium.simulations.manifest import FORMAT, working_in
from consilium.simulations.population.parties import check_own_teachers, teachers_named, why_untrainable
from consilium.simulations.progress import EVENTS, recording
from consilium.simulations.report.data import save_report_data
from consilium.simulations.scenario import Scenario, scenario_json
from consilium.simulations.summary import (
    data_facts,
    report_data,
    run_summary,
    stage_seconds,
    student_facts,
    write_metrics,
)
from consilium.simulations.workspace import Workspace, lay_out, make_run_dir
from consilium.student.learn import check_trainer

Engine = Literal["local", "ray", "homes"]
"""local: parties in blocks, on worker processes of this machine. ray: the same on Flower's Simulation Engine. homes: as
local, but each party with a home of its own on disk, as real ones have it."""


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
        if self.ray.party_gpus:
            return resolve_device("cuda")  # one environment for all processes of this machine
        if self.device == "cuda":
            raise ConfigError(
                "engine ray gives its parties no GPU by itself",
                "Add --party-gpus, the part of a GPU that a party is given, or use --engine local or --device cpu",
            )
        return "cpu"

    @property
    def processes(self) -> int:
        """That compute at the same time, of blocks of parties; 0 where each party has a home."""
        return 0 if self.engine == "homes" else os.cpu_count() or 1

    def check_engine(self) -> None:
        """Raise EngineError if the engine cannot be had."""
        if self.engine == "ray":
            check_ray(self.ray)

    def told(self) -> dict[str, Any]:
        """What a manifest says of the engine beside its name."""
        return {"ray": self.ray.model_dump(mode="json")} if self.engine == "ray" else {}


Watch = Callable[[Path], AbstractContextManager[None]]
"""Given the run's event log, a context in which it is shown."""


def unwatched(events: Path) -> AbstractContextManager[None]:
    """Show nothing of a run while it goes on."""
    return contextlib.nullcontext()


def run_scenario(
    name: str,
    scenario: Scenario,
    engine: Engine,
    seed: int,
    out: Path,
    watch: Watch = unwatched,
    keep_work: bool = False,
    device: Device = "auto",
    source: Source | None = None,
    ray: RaySpec = OWN_RAY,
    started: list[Worker] | None = None,
) -> dict[str, Any]:
    """Run the federation, compare it with what only a simulation can know, write the run folder.

    Everything that can be wrong with the input is found before the folder `out` is made. `name` is what the results
    call the scenario. `keep_work` keeps the copies of the parties' rows and their teachers under `private/work`.
    `device` is where networks are trained. Libraries use one thread in each process; the caller's settings come back.
    `source`: rows that are in memory, instead of those that the scenario names. `ray`: where the engine of that name
    computes. `started`: the local engine's workers, where they were started before this module was imported; whoever
    started them ends them.

    Returns
    -------
    The summary that `consilium run --format json` prints.

    Raises
    ------
    ConsiliumError : what is wrong, and what to do. Interrupted : at Ctrl-C, SIGTERM or SIGHUP, in the main thread.
    """
    start = time.monotonic()
    created = datetime.now(UTC).isoformat(timespec="seconds")
    order = Order(name, scenario, engine, seed, created, device, ray)
    used = order.resolved_device()
    order.check_engine()
    # the folder is left last, when nobody works in it any more
    with interruptible(), contextlib.ExitStack() as folder, contextlib.ExitStack() as stack:
        stack.enter_context(using_device(used))  # before the workers, which inherit it
        stack.enter_context(one_thread())
        workers = _workers(order, used, started, stack)
        case = divide(scenario, seed, source)
        config = case.config
        promised(config)
        _check_own_teachers(case, workers)
        check_names(config.rows)  # the student could not be published: better now than when labels are charged
        check_trainer(scenario.student.trainer, config.rows)
        identities = case.identities()
        if identities is not None:
            identities.keys.check(config)
        check_threshold(scenario.federation, _votes(case))
        manifest = _manifest(order, used, case)
        space = make_run_dir(out)
        folder.enter_context(working_in(space, manifest, keep_work))
        stack.enter_context(writing(space.run_dir))
        stack.enter_context(watch(space.run_dir / EVENTS))
        record = stack.enter_context(recording(space.run_dir / EVENTS))
        with stage(record, PREPARE):
            lay_out(space, case, order.processes)
        prepared = time.monotonic()
        _run_engine(order, space, len(case.parties), workers)
        _say_how_texts_are_read(space, case)
        finished = time.monotonic()
        record.saved(student_facts(space))
        from consilium.simulations.analysis import analyse  # what it needs loads when nobody waits for a student

        with Idle(workers) as begin:
            analysis = analyse(space, case, record, begin)
        analysed = time.monotonic()
        took = {"prepare": prepared - start, "engine": finished - prepared, "analysis": analysed - finished}
        summary = run_summary(manifest, space, case, analysis)
        of_coordinator = summary["seconds"]
        summary["seconds"] = stage_seconds(of_coordinator, **took)
        write_metrics(space, analysis, summary)
        with stage(record, REPORT):
            from consilium.simulations.report.build import (
                write_report,  # drawing needs libraries that a failed run never loads
            )

            data = report_data(manifest, space, case, summary, analysis)
            save_report_data(data, space.private)
            write_report(data, space.run_dir / "report.html")
        summary["seconds"] = stage_seconds(of_coordinator, **took, report=time.monotonic() - analysed)
        _write(space.run_dir / "summary.json", summary)
    return summary


def _workers(order: Order, device: str, started: list[Worker] | None, stack: contextlib.ExitStack) -> list[Worker]:
    """Of the engine: those that were started, or others, which end with the stack. They need a second to import what
    they use; meanwhile the data are laid out."""
    teacher = order.scenario.federation.teacher
    if order.engine == "ray":
        return []
    if started is None:
        return stack.enter_context(running_workers(teacher=teacher))
    for worker in started:
        worker.prepare({VARIABLE: device}, teacher)
    return started


def _check_own_teachers(case: Case, workers: list[Worker]) -> None:
    """Here and, at the same time, in a worker, which may not find every module that is here. Raises ConfigError."""
    if not teachers_named(case.scenario.simulation):
        return
    tried = case.scenario.simulation, case.config.rows
    with Idle(workers[:1]) as begin:
        there = begin(why_untrainable, *tried)
        check_own_teachers(*tried)
        if reason := there.result():
            raise ConfigError(
                f"{reason.rstrip('.')}. It works in this process, and not in those of the parties",
                "Put what it is made of into a file beside the script, on PYTHONPATH, or into an installed package",
            )


def _votes(case: Case) -> int:
    """On a query, if every party answers."""
    return case.scenario.federation.teachers_per_party * len(case.parties)


def _run_engine(order: Order, space: Workspace, parties: int, workers: list[Worker]) -> None:
    run_config = space.run_config(space.run_dir, "simulation")
    if order.engine == "ray":
        run_ray(run_config, space.nodes, parties, space.run_dir, space.work, order.ray)
    else:
        with LocalGrid(RUN_ID, run_config, space.nodes, workers) as grid:
            run_local(run_config, grid, app if order.engine == "homes" else server)


def _say_how_texts_are_read(space: Workspace, case: Case) -> None:
    """In the student's card: it is then fit for files as its parties write them, as far as public rows show that."""
    data, partition = case.scenario.data, case.partition
    if data.set != "table" or not (data.cells or data.missing):
        return
    from consilium.simulations.datasets.own import public_reading

    public = np.concatenate([partition.queries, partition.too_near, partition.test])
    reading = public_reading(data, public, [column.column for column in case.dataset.columns])
    path = space.run_dir / "student" / CARD_FILE
    if told := reading.model_dump(mode="json", exclude_defaults=True):
        card = json.loads(path.read_text(encoding="utf-8"))
        replace_text(path, dumps({**card, READING: told}, indent=2) + "\n")


def _manifest(order: Order, device: str, case: Case) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "scenario": order.name,
        "engine": order.engine,
        **order.told(),
        "seed": order.seed,
        "device": {"asked": order.device, "used": device},
        "noise": order.scenario.simulation.noise,
        "created": order.created,
        "versions": versions(),
        "federation": case.config.digest(),
        "federation_digest": case.config.federation_digest(),
        "data": data_facts(case.dataset, case.partition),
        "config": scenario_json(order.scenario),
    }


def _write(path: Path, value: dict[str, Any]) -> None:
    replace_private(path, json.dumps(value, indent=2) + "\n")
