"""Runs from Python: `simulate` makes one, `Run` reads one that lies in a folder."""

from __future__ import annotations

import shutil
import tempfile
import warnings
import weakref
import webbrowser
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import polars as pl

from consilium.models.devices import Device, one_thread
from consilium.models.published.model import Published, find_model, load_model
from consilium.protocol.config_files import validate
from consilium.protocol.errors import DataError, PathError
from consilium.report.warnings import well_formed
from consilium.simulations.council.frames import value_errors
from consilium.simulations.council.statement import Audited, PrivacyStatement
from consilium.simulations.folder import SUMMARY, charged_queries, check_finished, read_summary
from consilium.simulations.interruption import Interrupted
from consilium.simulations.run import run_scenario
from consilium.simulations.scenario import Scenario, override, scenario_table, with_budget

PUBLIC = "report-public.html"


@dataclass(frozen=True)
class Report:
    """One offline HTML file in a run's folder `run_dir`. `public`: the version that may be shown to anybody."""

    run_dir: Path
    name: str = "report.html"

    @property
    def path(self) -> Path:
        """Where it lies."""
        return self.run_dir / self.name

    @property
    def public(self) -> Report:
        """The version without anything that the guarantee does not cover; drawn now where it is not there yet. Raises
        DataError: the run cannot be read."""
        if not (self.run_dir / PUBLIC).is_file():
            from consilium.simulations.audit import report_of
            from consilium.simulations.folder import renew_sum
            from consilium.simulations.report.build import write_report

            data, _ = report_of(self.run_dir)
            write_report(data, self.run_dir / PUBLIC, public=True)
            renew_sum(self.run_dir, PUBLIC)
        return Report(self.run_dir, PUBLIC)

    def open(self) -> bool:
        """Show it in the browser; whether one was found."""
        return webbrowser.open(self.path.resolve().as_uri())


class Run:
    """A finished run. Everything is read from its folder, `path`, when it is first asked for. The tables hold what only
    a simulation knows (each party's quality, the true outcome of public rows): they are for whoever has the rows
    anyway. What may be shown to anybody is `privacy`, `report.public` and `student`."""

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
    def labels(self) -> pl.DataFrame:
        """What the student got, one row for each query: row of the pool, query_id, outcome, label; the noisy counts
        where histograms are released, and what it had predicted where a check is on that. The guarantee covers it."""
        path = self.path / "labels.parquet"
        try:
            return pl.read_parquet(path)
        except OSError as error:
            what = f"cannot read {path}: {error.strerror or 'it is not there'}"
            raise PathError(what, "Was the folder removed?") from None
        except pl.exceptions.PolarsError:
            raise DataError(f"{path} is damaged", "Run: consilium audit") from None

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

    def audit(self) -> Audited:
        """Recompute everything that the run claims from its files: `consilium audit`."""
        from consilium.simulations.audit import audit_path

        result = audit_path(self.path)
        return Audited(result.finished, tuple(result.findings))

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"


def load_run(path: Path | str) -> Run:
    """The run of a folder that `consilium run`, `simulate` or `Council` wrote. Raises PathError, DataError: no finished
    run lies there."""
    return Run(path)


@contextmanager
def run_folder(out: str | Path | None) -> Iterator[Path]:
    """Where a run goes: a folder of the caller's, or a temporary one; not made yet. A temporary one is removed where
    nothing came of it; but for one in whose ledger something is charged: what was released for that stays. Whoever
    interrupts a run reads whether something was."""
    parent = None if out is not None else tempfile.mkdtemp(prefix="consilium-")
    path = Path(parent or "", "run") if out is None else Path(out)
    try:
        yield path
    except (Interrupted, KeyboardInterrupt):
        queries = charged_queries(path)
        outcome = f"{queries} queries were released and stay charged: {path}" if queries else "nothing was released"
        raise KeyboardInterrupt(f"interrupted; {outcome}") from None
    finally:
        if parent is not None and not (path / SUMMARY).exists() and not charged_queries(path):
            shutil.rmtree(parent, ignore_errors=True)


def run_of(path: Path, temporary: bool, reworded: Callable[[str], str] = str) -> Run:
    """The run that has just ended there; Python is told all that it warns of. temporary: whether its folder goes with
    the object, and at the end of the program. reworded: brings a warning into the caller's words."""
    run = Run(path)
    if temporary:
        weakref.finalize(run, shutil.rmtree, path.parent, ignore_errors=True)
    for warning in run.warnings:
        warnings.warn(f"{warning['code']}: {reworded(warning['text'])}", UserWarning, stacklevel=4)
    return run


def simulate(
    scenario: str | Path | Scenario,
    *,
    seed: int = 0,
    engine: Literal["local", "ray"] = "local",
    device: Device = "auto",
    out: str | Path | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Run:
    """Run a scenario, as `consilium run` does.

    Parameters
    ----------
    scenario : name of a shipped one, path of a file, or what `load_scenario` gives.
    seed : of division, teachers, student and, where the scenario says so, noise.
    out : new folder of the run; None: a temporary one, removed with the `Run`.
    settings : keys of the scenario, {"simulation.noise": "system"}.

    Raises
    ------
    ConsiliumError : what is wrong, and what to do; a wrong value is a ValueError too. KeyboardInterrupt
    """
    with value_errors(), one_thread():
        name = "scenario" if isinstance(scenario, Scenario) else Path(scenario).stem
        table = scenario.model_dump(mode="json") if isinstance(scenario, Scenario) else scenario_table(str(scenario))
        override(table, (settings or {}).items())
        loaded = validate(with_budget(table, name, seed), Scenario, name)
        with run_folder(out) as path:
            run_scenario(name, loaded, engine, seed, path, device=device)
        return run_of(path, temporary=out is None)
