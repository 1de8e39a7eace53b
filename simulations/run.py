"""One simulated run from scenario to report."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from consilium.coordinator.collection.exchange import FlowerTransport
from consilium.coordinator.config import check_threshold
from consilium.coordinator.privacy import promised
from consilium.models.devices import VARIABLE, Device, one_thread, resolve_device, using_device
from consilium.models.published.model import check_names
from consilium.protocol.errors import ConfigError, OutputExists
from consilium.protocol.files import replace_private, writing
from consilium.protocol.versions import versions
from consilium.report.progress import PREPARE, REPORT, stage
from consilium.simulations.beside import Idle
from consilium.simulations.datasets.base import Source
from consilium.simulations.divide import Case, divide
from consilium.simulations.engines.local import LocalGrid
from consilium.simulations.engines.process import Worker
from consilium.simulations.engines.ray import OWN_RAY, RaySpec, run_ray
from consilium.simulations.engines.worker import running_workers
from consilium.simulations.federation import SimulatedFederation
from consilium.simulations.interruption import interruptible
from consilium.simulations.manifest import FORMAT, PRIVATE, WORK, working_in
from consilium.simulations.population.parties import check_own_teachers, teachers_named, why_untrainable
from consilium.simulations.progress import EVENTS, recording
from consilium.simulations.report.data import save_report_data
from consilium.simulations.said import Heard
from consilium.simulations.scenario import Scenario, scenario_json
from consilium.simulations.simulated import Population
from consilium.simulations.summary import (
    data_facts,
    report_data,
    run_summary,
    stage_seconds,
    student_facts,
    write_metrics,
)
from consilium.student.learn import check_trainer

Engine = Literal["local", "ray"]
"""local: parties on worker processes of this machine. ray: the same on Flower's Simulation Engine."""


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

    def check_engine(self) -> None:
        """Raise EngineError if the engine cannot be had, ConfigError where it is described wrongly."""
        if self.engine == "ray":
            self.ray.check()

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
    device: Device = "auto",
    source: Source | None = None,
    ray: RaySpec = OWN_RAY,
    started: list[Worker] | None = None,
) -> dict[str, Any]:
    """Run the federation, compare it with what only a simulation can know, write the run folder.

    Everything that can be wrong with the input is found before the folder `out` is made. `name` is what the results
    call the scenario. `device` is where networks are trained. Libraries use one thread in each process; the caller's
    settings come back. `source`: rows that are in memory, instead of those that the scenario names. `ray`: where the
    engine of that name computes. `started`: the local engine's workers, where they were started before this module was
    imported; whoever started them ends them.

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
        check_trainer(case.scenario.student.trainer, config.rows)
        identities = case.identities()
        if identities is not None:
            identities.keys.check(config)
        check_threshold(scenario.federation, _votes(case))
        manifest = _manifest(order, used, case)
        run_dir = make_run_dir(out)
        folder.enter_context(working_in(run_dir, manifest))
        stack.enter_context(writing(run_dir))
        stack.enter_context(watch(run_dir / EVENTS))
        record = stack.enter_context(recording(run_dir / EVENTS))
        with stage(record, PREPARE):
            federation, population = SimulatedFederation.of(case), Population.of(case, run_dir / WORK)
        prepared = time.monotonic()
        heard = _run_engine(order, federation, population, run_dir, workers)
        finished = time.monotonic()
        record.saved(student_facts(run_dir))
        from consilium.simulations.analysis import analyse  # what it needs loads when nobody waits for a student

        with Idle(workers) as begin:
            analysis = analyse(run_dir, case, heard, record, begin)
        analysed = time.monotonic()
        took = {"prepare": prepared - start, "engine": finished - prepared, "analysis": analysed - finished}
        summary = run_summary(manifest, run_dir, case, analysis)
        of_coordinator = summary["seconds"]
        summary["seconds"] = stage_seconds(of_coordinator, **took)
        write_metrics(run_dir, analysis, summary)
        with stage(record, REPORT):
            from consilium.simulations.report.build import (
                write_report,  # drawing needs libraries that a failed run never loads
            )

            data = report_data(manifest, run_dir, case, summary, analysis)
            save_report_data(data, run_dir / PRIVATE)
            write_report(data, run_dir / "report.html")
        summary["seconds"] = stage_seconds(of_coordinator, **took, report=time.monotonic() - analysed)
        _write(run_dir / "summary.json", summary)
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


def _run_engine(
    order: Order, federation: SimulatedFederation, population: Population, run_dir: Path, workers: list[Worker]
) -> Heard:
    if order.engine == "ray":
        return run_ray(federation, population, run_dir, run_dir / WORK, order.ray)
    with LocalGrid(population, workers) as grid:
        return federation.run(FlowerTransport(grid), run_dir)


def make_run_dir(path: Path) -> Path:
    """Create the output folder.

    Raises
    ------
    OutputExists : it is there already. ConfigError : it cannot be made.
    """
    try:
        path.mkdir(parents=True, mode=0o700)  # summary and ledger hold functions of the votes
        (path / PRIVATE).mkdir(mode=0o700)
    except FileExistsError:
        raise OutputExists(f"output folder {path} exists already", "Choose another with --out, or remove it") from None
    except OSError as error:
        raise ConfigError(f"cannot make output folder {path}: {error.strerror}", "Choose another with --out") from None
    return path.resolve()


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
        "config": scenario_json(case.scenario),
    }


def _write(path: Path, value: dict[str, Any]) -> None:
    replace_private(path, json.dumps(value, indent=2) + "\n")
