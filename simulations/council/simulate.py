"""`consilium run` from Python: a scenario in, a `Run` out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import tomli_w

from consilium.protocol.config_files import validate
from consilium.protocol.node.device import Device
from consilium.protocol.node.threads import one_thread
from consilium.simulations.council.folders import ProgressCallback, RunFolder, watching
from consilium.simulations.council.frames import BadSetting, as_keyboard_interrupt, value_errors
from consilium.simulations.council.results import Run
from consilium.simulations.engines.cluster.spec import RaySpec
from consilium.simulations.engines.ray import OWN_RAY
from consilium.simulations.run import run_scenario
from consilium.simulations.scenario import Scenario, apply_override, load_scenario, scenario_json


def simulate(
    scenario: str | Path | Scenario,
    *,
    seed: int = 0,
    engine: Literal["local", "ray"] = "local",
    device: Device = "auto",
    ray: RaySpec = OWN_RAY,
    out: str | Path | None = None,
    progress: ProgressCallback | bool | None = None,
    **overrides: Any,
) -> Run:
    """Run a scenario, as `consilium run` does.

    Parameters
    ----------
    scenario : name of a shipped one, path of a file, or what `load_scenario` gives.
    seed : of division, teachers, student and, where the scenario says so, noise.
    ray : for the engine ray: address of a cluster that is there, CPUs and GPUs that each party is given.
    out : new folder of the run; None: a temporary one, removed with the `Run`.
    progress : a function of (stage, done, total), True for bars, None for nothing.
    overrides : keys of the scenario with __ for the dot, as `federation__mechanism__sigma=150.0`.

    Raises
    ------
    ConsiliumError : what is wrong, and what to do; a wrong value is a ValueError too. KeyboardInterrupt
    """
    with value_errors(), one_thread():
        changes = list(changes_of(overrides))
        if isinstance(scenario, Scenario):
            name = "scenario"
            loaded = scenario if not changes else _changed(scenario, changes)
        else:
            name = Path(scenario).stem
            loaded = load_scenario(str(scenario), changes, seed)
        with RunFolder(out) as folder, watching(progress) as watch, as_keyboard_interrupt():
            run_scenario(name, loaded, engine, seed, folder.path, watch, device=device, ray=ray)
        run = Run(folder.path)
        folder.kept_by(run)
        return run


def _changed(scenario: Scenario, changes: list[str]) -> Scenario:
    table = scenario_json(scenario)
    for change in changes:
        apply_override(table, change)
    return validate(table, Scenario, "scenario")


def changes_of(overrides: Mapping[str, Any], parents: str = "") -> Iterator[str]:
    """`key=value` as `--set` takes it; tables become their keys.

    >>> list(changes_of({"federation__caps": {"queries": 20}, "student__queries": 5}))
    ['federation.caps.queries=20', 'student.queries=5']
    """
    for name, value in overrides.items():
        key = parents + name.replace("__", ".")
        if isinstance(value, Mapping):
            yield from changes_of({str(inner): each for inner, each in value.items()}, f"{key}.")
            continue
        try:
            text = tomli_w.dumps({"value": list(value) if isinstance(value, tuple) else value})
        except TypeError:
            raise BadSetting(
                f"{key} is a {type(value).__name__}, which no scenario holds", "Give a number, a text, a list or a dict"
            ) from None
        yield f"{key}={' '.join(text.partition('=')[2].split())}"
