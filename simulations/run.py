"""One simulated run from scenario to report."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from consilium.coordinator.collection.exchange import FlowerTransport
from consilium.coordinator.config import check_threshold
from consilium.coordinator.events import EventLog
from consilium.coordinator.privacy import promised
from consilium.models.devices import VARIABLE, Device, one_thread, resolve_device, using_device
from consilium.models.published.model import check_names
from consilium.protocol.errors import ConfigError
from consilium.protocol.files import replace_private, writing
from consilium.protocol.versions import versions
from consilium.report.progress import PREPARE, REPORT, stage
from consilium.simulations.datasets.base import Source
from consilium.simulations.divide import Case, divide
from consilium.simulations.engines.local import LocalGrid
from consilium.simulations.engines.process import Finished, Worker, running_workers
from consilium.simulations.engines.ray import check_ray, run_ray
from consilium.simulations.folder import (
    FORMAT,
    PRIVATE,
    SUMMARY,
    WORK,
    data_facts,
    make_run_dir,
    report_data,
    run_summary,
    student_facts,
    working_in,
)
from consilium.simulations.interruption import interruptible
from consilium.simulations.population.specs import check_own_teacher, why_untrainable
from consilium.simulations.progress import EVENTS, Recorder
from consilium.simulations.report.data import save_report_data
from consilium.simulations.scenario import Scenario
from consilium.simulations.simulated import Population, SimulatedFederation
from consilium.student.learn import check_trainer

Engine = Literal["local", "ray"]
"""local: parties on worker processes of this machine. ray: the same on Flower's Simulation Engine."""
Watch = Callable[[Path], AbstractContextManager[None]]  # given the run's event log, a context in which it is shown


def run_scenario(
    name: str,
    scenario: Scenario,
    engine: Engine,
    seed: int,
    out: Path | str,
    watch: Watch | None = None,
    device: Device = "auto",
    source: Source | None = None,
    started: list[Worker] | None = None,
) -> dict[str, Any]:
    """Run the federation, compare it with what only a simulation can know, write the run folder. Everything that can be
    wrong with the input is found before the folder `out` is made. `name`: what the results call the scenario. `device`:
    where networks are trained. `source`: rows that are in memory, instead of those that the scenario names. `started`:
    the local engine's workers, where whoever ends them started them before this module was imported. Gives the summary
    that `consilium run --format json` prints. Raises ConsiliumError: what is wrong, and what to do. Interrupted: at
    Ctrl-C, SIGTERM or SIGHUP, in the main thread."""
    start = time.monotonic()
    created = datetime.now(UTC).isoformat(timespec="seconds")
    if engine == "ray" and device == "cuda":
        raise ConfigError("engine ray gives its parties no GPU", "Use --engine local, or --device cpu")
    used = "cpu" if engine == "ray" else resolve_device(device)
    if engine == "ray":
        check_ray()
    # the folder is left last, when nobody works in it any more
    with interruptible(), contextlib.ExitStack() as folder, contextlib.ExitStack() as stack:
        stack.enter_context(using_device(used))  # before the workers, which inherit it
        stack.enter_context(one_thread())
        workers = [] if engine == "ray" else _workers(scenario, used, started, stack)
        case = divide(scenario, seed, source)
        config = case.config
        promised(config)
        _check_own_teacher(case, workers)
        check_names(config.rows)  # the student could not be published: better now than when labels are charged
        check_trainer(case.scenario.student.trainer, config.rows)
        identities = case.identities()
        if identities is not None:
            identities.keys.check(config)
        check_threshold(scenario.federation, scenario.federation.teachers_per_party * len(case.parties))
        manifest = {
            "format": FORMAT,
            "scenario": name,
            "engine": engine,
            "seed": seed,
            "device": {"asked": device, "used": used},
            "noise": scenario.simulation.noise,
            "created": created,
            "versions": versions(),
            "federation": config.digest(),
            "federation_digest": config.federation_digest(),
            "data": data_facts(case.dataset, case.partition),
            "config": scenario.model_dump(mode="json"),
        }
        run_dir = make_run_dir(Path(out))
        folder.enter_context(working_in(run_dir, manifest))
        stack.enter_context(writing(run_dir))
        if watch is not None:
            stack.enter_context(watch(run_dir / EVENTS))
        record = Recorder(stack.enter_context(contextlib.closing(EventLog(run_dir / EVENTS))))
        with stage(record, PREPARE):
            federation, population = SimulatedFederation.of(case), Population.of(case, run_dir / WORK)
        if engine == "ray":
            heard = run_ray(federation, population, run_dir, run_dir / WORK)
        else:
            with LocalGrid(population, workers) as grid:
                heard = federation.run(FlowerTransport(grid), run_dir)
        record.saved(student_facts(run_dir))
        from consilium.simulations.analysis import analyse  # what it needs loads when nobody waits for a student

        analysis = analyse(run_dir, case, heard, record)
        summary = run_summary(manifest, run_dir, case, analysis)
        with stage(record, REPORT):
            from consilium.simulations.report.build import write_report  # a failed run never loads what draws

            data = report_data(manifest, run_dir, case, summary, analysis)
            save_report_data(data, run_dir / PRIVATE)
            write_report(data, run_dir / "report.html")
        seconds = {**summary["seconds"], "total": time.monotonic() - start}
        summary["seconds"] = {stage: round(took, 3) for stage, took in seconds.items()}
        replace_private(run_dir / SUMMARY, json.dumps(summary, indent=2) + "\n")
    return summary


def _workers(
    scenario: Scenario, device: str, started: list[Worker] | None, stack: contextlib.ExitStack
) -> list[Worker]:
    """Of the local engine: those that were started, or others, which end with the stack. They import for a second what
    they use; meanwhile the data are laid out."""
    teacher = scenario.federation.teacher
    if started is None:
        return stack.enter_context(running_workers(teacher=teacher))
    for worker in started:
        worker.prepare({VARIABLE: device}, teacher)
    return started


def _check_own_teacher(case: Case, workers: list[Worker]) -> None:
    """Here, and in a worker, which may not find every module that is here. Raises ConfigError."""
    if case.scenario.simulation.own_teacher is None:
        return
    tried = case.scenario.simulation, case.config.rows
    there = workers[0].heard() if workers and workers[0].begin(why_untrainable, *tried) else None
    check_own_teacher(*tried)
    if isinstance(there, Finished) and there.result:
        raise ConfigError(
            f"{there.result.rstrip('.')}. It works in this process, and not in those of the parties",
            "Put what it is made of into a file beside the script, on PYTHONPATH, or into an installed package",
        )
