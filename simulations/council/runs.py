"""Runs from Python: `simulate` makes one, `Run` reads one that lies in a folder."""

from __future__ import annotations

import shutil
import tempfile
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import polars as pl
import tomli_w

from consilium.coordinator.verify import holds
from consilium.models.devices import Device, one_thread
from consilium.models.published.model import Published, find_model, load_model
from consilium.node.progress import showing
from consilium.protocol.config_files import validate
from consilium.protocol.errors import DataError, PathError
from consilium.report.warnings import well_formed
from consilium.simulations.council.frames import BadSetting, WrongType, as_keyboard_interrupt, value_errors
from consilium.simulations.council.pages import Report
from consilium.simulations.council.statement import AuditResult, PrivacyStatement
from consilium.simulations.engines.ray import OWN_RAY, RaySpec
from consilium.simulations.finished import SUMMARY, check_finished, read_summary
from consilium.simulations.manifest import charged_queries
from consilium.simulations.progress import Tell, following, following_with
from consilium.simulations.run import run_scenario, unwatched
from consilium.simulations.scenario import Scenario, apply_override, load_scenario, scenario_json


class Run:
    """A finished run. Everything is read from its folder, `path`, when it is first asked for.

    The tables hold what only a simulation knows (each party's quality, the true outcome of public rows): they are for
    whoever has the rows anyway. What may be shown to anybody is `privacy`, `report.public` and `student`.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        check_finished(self.path)

    @cached_property
    def summary(self) -> dict[str, Any]:
        """What `consilium run --format json` prints; it holds the secret data-dependent epsilon."""
        return read_summary(self.path)

    @property
    def warnings(self) -> list[dict[str, str]]:
        """What the run warned of: code and text, see `docs/report.md`. Some are computed from private rows."""
        return well_formed(self.summary.get("warnings"))

    @cached_property
    def metrics(self) -> pl.DataFrame:
        """One row for each number: scope ("run", "party", "query"), name, metric, value."""
        return self._table("metrics.parquet")

    @property
    def votes_asked(self) -> pl.DataFrame:
        """One row for each query in the order in which it was asked: query, answered, and of all so far
        secret_epsilon_spent (at the released counts) and secret_epsilon_data_dependent."""
        rows = self.metrics.filter(pl.col("scope") == "query")
        wide = rows.pivot("metric", index="name", values="value")
        secret = [name for name in ("epsilon_spent", "epsilon_data_dependent") if name in wide.columns]
        return wide.select(
            pl.col("name").cast(pl.Int64).alias("query"),
            (pl.col("answered") > 0).alias("answered"),
            *(pl.col(name).alias(f"secret_{name}") for name in secret),
        ).sort("query")

    @cached_property
    def labels(self) -> pl.DataFrame:
        """What the student got, one row for each query: row of the pool, query_id, outcome, label; the noisy counts
        where histograms are released. The guarantee covers it."""
        return self._table("labels.parquet")

    @property
    def by_party(self) -> pl.DataFrame:
        """One row for each party: party, rows, accuracy and AUC of its own teachers. Simulations only; no guarantee
        covers it."""
        rows = self.metrics.filter(pl.col("scope") == "party")
        wide = rows.pivot("metric", index="name", values="value").rename({"name": "party"})
        return wide.with_columns(pl.col("rows").cast(pl.Int64)) if "rows" in wide.columns else wide

    @property
    def privacy(self) -> PrivacyStatement:
        """What was promised."""
        return PrivacyStatement.of(self.summary["privacy"])

    @property
    def report(self) -> Report:
        """The report as one HTML file."""
        return Report(self.path)

    @cached_property
    def student(self) -> Published:
        """The published student. Raises BadModel if its file brings code that nobody vouched for."""
        return load_model(find_model(self.path))

    def audit(self) -> AuditResult:
        """Recompute everything that the run claims from its files: `consilium audit`."""
        from consilium.simulations.audit import audit_path

        result = audit_path(self.path)
        return AuditResult(holds(result.findings), result.finished, tuple(result.findings))

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"

    def _table(self, name: str) -> pl.DataFrame:
        path = self.path / name
        try:
            return pl.read_parquet(path)
        except OSError as error:
            raise PathError(
                f"cannot read {path}: {error.strerror or 'it is not there'}", "Was the folder removed?"
            ) from None
        except pl.exceptions.PolarsError:
            raise DataError(f"{path} is damaged", "Run: consilium audit") from None


def load_run(path: Path | str) -> Run:
    """The run of a folder that `consilium run`, `simulate` or `Council` wrote.

    Raises
    ------
    PathError, DataError : no finished run lies there.
    """
    return Run(path)


class RunFolder:
    """Where a run goes: a folder of the caller's, or a temporary one, which is removed with the object that keeps it.

    Removed too where nothing came of it, and at the end of the program; but for one in whose ledger something is
    charged: what was released for that stays. path: the folder, not made yet. proof: the file that is there once
    something came of it.
    """

    def __init__(self, out: str | Path | None, proof: str = SUMMARY) -> None:
        self._proof = proof
        self._parent = None if out is not None else tempfile.mkdtemp(prefix="consilium-")
        self.path = Path(self._parent or "", "run") if out is None else Path(out)

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(self, *_: object) -> None:
        if self._parent is None or (self.path / self._proof).exists():
            return
        if not charged_queries(self.path):
            shutil.rmtree(self._parent, ignore_errors=True)

    def kept_by(self, owner: object) -> None:
        """Remove it when nobody holds `owner` any more."""
        if self._parent is not None:
            weakref.finalize(owner, shutil.rmtree, self._parent, ignore_errors=True)


ProgressCallback = Tell
"""Told the stage, how much of it is done, and how much there is; called in a thread of its own."""


@contextmanager
def watching(progress: ProgressCallback | bool | None) -> Iterator[Callable[[Path], AbstractContextManager[None]]]:
    """What `run_scenario` takes as `watch`: of None and False nothing, of True bars, or lines without a terminal.

    Raises
    ------
    WrongType : it is neither that nor a function.
    """
    if progress is None or progress is False:
        yield unwatched
    elif progress is True:
        with showing(quiet=False) as display:
            yield lambda events: following(events, display)
    elif callable(progress):
        yield lambda events: following_with(events, progress)
    else:
        raise WrongType(f"progress is a {type(progress).__name__}", "Give a function of (stage, done, total), or True")


def warn_of(run: Run, reworded: Callable[[str], str] = str) -> None:
    """Tell Python all that a run warns of. reworded: brings a text into the caller's words."""
    for warning in run.warnings:
        warnings.warn(f"{warning['code']}: {reworded(warning['text'])}", UserWarning, stacklevel=4)


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
            loaded = load_scenario(str(scenario), changes)
        with RunFolder(out) as folder, watching(progress) as watch, as_keyboard_interrupt():
            run_scenario(name, loaded, engine, seed, folder.path, watch, device=device, ray=ray)
        run = Run(folder.path)
        warn_of(run)
        folder.kept_by(run)
        return run


def _changed(scenario: Scenario, changes: list[str]) -> Scenario:
    table = scenario_json(scenario)
    for change in changes:
        apply_override(table, change)
    return validate(table, Scenario, "scenario")


def changes_of(overrides: Mapping[str, Any], parents: str = "") -> Iterator[str]:
    """`key=value` as `--set` takes it; tables become their keys.

    >>> list(changes_of({"federation__query_budget": {"queries": 20}, "student__queries": 5}))
    ['federation.query_budget.queries=20', 'student.queries=5']
    """
    for name, value in overrides.items():
        key = parents + name.replace("__", ".")
        if isinstance(value, Mapping):
            yield from changes_of({str(inner): item for inner, item in value.items()}, f"{key}.")
            continue
        try:
            text = tomli_w.dumps({"value": list(value) if isinstance(value, tuple) else value})
        except TypeError:
            raise BadSetting(
                f"{key} is a {type(value).__name__}, which no scenario holds", "Give a number, a text, a list or a dict"
            ) from None
        yield f"{key}={' '.join(text.partition('=')[2].split())}"
