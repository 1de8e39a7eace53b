"""Studies from Python: what is varied as a dict, the results as frames."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from consilium.models.devices import one_thread
from consilium.node.progress import progress_on, showing
from consilium.protocol.config_files import validate
from consilium.protocol.label_source import Progress, no_progress
from consilium.simulations.council.frames import BadSetting, WrongType, as_keyboard_interrupt, value_errors
from consilium.simulations.council.runs import ProgressCallback, RunFolder, changes_of
from consilium.simulations.scenario import Scenario, apply_override, scenario_json
from consilium.simulations.study.cells import expand
from consilium.simulations.study.results import PAGE, RESULTS, citation, open_study
from consilium.simulations.study.run import run_study
from consilium.simulations.study.spec import StudySpec, load_study
from consilium.simulations.study.summaries.questions import along_axis, compared, contrast_frame, questions
from consilium.simulations.study.summaries.sentences import answers_of
from consilium.simulations.study.summaries.view import StudyView, over_seeds, study_view

Axes = Mapping[str, Sequence[Any] | Mapping[str, Mapping[str, Any]]]
"""By key of a scenario its values, or by a name of your own the points: name -> keys."""


class Study:
    """A study: `consilium study` from Python.

    Parameters
    ----------
    base : name of a shipped study, or path of its file, and nothing else beside it but `seeds` and `overrides`; or the
        scenario that everything is compared on: a shipped one's name, the path of its file, or a `Scenario`.
    axes : what varies: `{"data.alpha": [0.1, 1.0]}`, or points that set several keys:
        `{"division": {"natural": {}, "skewed": {"data.partition": "dirichlet", "data.alpha": 0.1}}}`. They multiply.
    methods : names, or tables with a name and keys, as in a study's file.
    seeds : so many from 0, or a list of them; None: 5, or those of the file.
    measures, home_share, hand_labels, title : see the keys of a study's file; None: its defaults.
    overrides : keys of the scenario with __ for the dot, as `federation__privacy__epsilon=1.0`.

    Raises
    ------
    ConsiliumError : what is wrong, and what to do; a wrong value is a ValueError too.
    """

    def __init__(
        self,
        base: str | Path | Scenario,
        axes: Axes | None = None,
        methods: Sequence[str | Mapping[str, Any]] | None = None,
        *,
        seeds: int | Sequence[int] | None = None,
        measures: Sequence[str] | None = None,
        home_share: float | None = None,
        hand_labels: str | None = None,
        title: str = "",
        **overrides: Any,
    ) -> None:
        keys = {
            "methods": None
            if methods is None
            else [method if isinstance(method, str) else dict(method) for method in methods],
            "seeds": list(seeds) if isinstance(seeds, Sequence) else seeds,
            "measures": None if measures is None else list(measures),
            "home_share": home_share,
            "hand_labels": hand_labels,
            "title": title or None,
        }
        changes = list(changes_of(overrides))
        with value_errors():
            if axes is None and methods is None:
                self.spec = _of_file(base, {key: value for key, value in keys.items() if value is not None}, changes)
            else:
                self.spec = _of_scenario(base, axes or {}, keys, changes)
            self._cells = len(expand(self.spec))

    def __repr__(self) -> str:
        axes = ", ".join(axis.column for axis in self.spec.axis) or "nothing varied"
        return f"Study({self.spec.title!r}: {axes}; {len(self.spec.seeds)} seeds, {self._cells:,} cells)"

    def run(
        self,
        out: str | Path | None = None,
        *,
        workers: int | None = None,
        progress: ProgressCallback | bool | None = None,
    ) -> StudyResults:
        """Compute what is missing, and read the results.

        Parameters
        ----------
        out : folder of the results, which goes on with what is there; None: a temporary one, removed with the results.
        workers : processes on this machine, each of which imports the script that asks for them: None is one for each
            core.
        progress : a function of (stage, done, total), True for bars, None for nothing.

        Raises
        ------
        ConsiliumError, KeyboardInterrupt : what was done is kept; ask again, and it goes on.
        """
        with (
            value_errors(),
            one_thread(),
            RunFolder(out, RESULTS) as folder,
            _telling(progress) as tell,
            as_keyboard_interrupt(),
        ):
            folder.path.parent.mkdir(parents=True, exist_ok=True)
            run_study(self.spec, folder.path, workers or os.cpu_count() or 1, tell)
            results = StudyResults(folder.path)
            folder.kept_by(results)
        return results


class StudyResults:
    """The folder of a study, read: `StudyResults("runs/study-hospitals")`.

    frame : every figure, a row each: cell, the axes, seed, method, scope, name, metric, value, low, high; what the
        method guarantees (guarantee_epsilon, _delta, _unit, _neighbouring; unit "none": nothing) and data_set.

    Raises
    ------
    PathError, DataError : there is no finished study.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        files = open_study(self.folder)
        self.told = files.facts
        """What was asked and how it was made, as in study.json."""
        self.frame, self._files = files.results, files

    def __repr__(self) -> str:
        return f"StudyResults({self.told['title']!r}, {len(self.frame):,} figures, {str(self.folder)!r})"

    @property
    def report(self) -> Path:
        """study.html."""
        return self.folder / PAGE

    @property
    def failed(self) -> list[dict[str, Any]]:
        """Cells that could not be computed, and why."""
        return list(self.told["failed"])

    @property
    def warnings(self) -> list[dict[str, Any]]:
        """Where `least_rows` cut parties: code, text, made, too_small, least_rows and the points of the axes."""
        return list(self.told.get("warnings", []))

    def means(self, *metrics: str, scope: str = "run") -> pl.DataFrame:
        """Means over seeds with their intervals, of all metrics or of these: see `summaries.over_seeds`."""
        return over_seeds(self.frame, metrics or None, scope, self._files.row_scores)

    def table(self, metric: str, axis: str | None = None) -> pl.DataFrame:
        """Means over seeds: a row for each method, a column for each point of an axis (the first, if None)."""
        names = self.axes
        if not names:
            return self.means(metric).select("method", "mean")
        chosen = names[0] if axis is None else axis
        if chosen not in names:
            raise BadSetting(f"no axis {axis!r}", f"Choose one of {', '.join(names)}")
        rest = [name for name in names if name != chosen]
        return self.means(metric).pivot(on=chosen, index=["method", *rest], values="mean")

    @property
    def axes(self) -> list[str]:
        """What varies, as the columns of `frame` are called."""
        return [axis["name"] for axis in self.told["axes"]]

    def differences(self, metric: str, reference: str, along: str = "method") -> pl.DataFrame:
        """What each has more than the reference, at the same seed, with intervals: see `contrasts` for the columns.

        reference: a method; or, along an axis, one of its points. Tested is what guarantees the same.
        """
        view = self._view()
        if along == "method":
            return contrast_frame(view, [compared(view, metric, reference)])
        if along not in view.axes:
            raise BadSetting(f"no axis {along!r}", f"Choose method or one of {', '.join(view.axes) or 'no axes'}")
        return contrast_frame(view, [along_axis(view, metric, reference, along, name) for name in view.methods])

    def contrasts(self) -> pl.DataFrame:
        """Every comparison that the study makes of its leading metric, as the report has it: a row for each.

        Columns: family (in words) and comparisons (tested in it), axis ("method", or along which), the axes, method,
        against (another method, or another point of the axis), difference, low, high, seeds; over, unit, units (see
        `summaries.paired`); standing ("tested", "not like with like", ...); p of this alone and p_holm in the family,
        null where it is not tested; significant.
        """
        view = self._view()
        return contrast_frame(view, questions(view))

    def findings(self) -> list[str]:
        """In short, as the report has it: sentences that the numbers carry."""
        return answers_of(self._view())

    def _view(self) -> StudyView:
        return study_view(self.frame, self._files.order, row_scores=self._files.row_scores)

    def cite(self) -> dict[str, Any]:
        """Versions, seeds, hashes."""
        return citation(self.folder)


def _of_file(base: str | Path | Scenario, keys: dict[str, Any], changes: list[str]) -> StudySpec:
    if isinstance(base, Scenario):
        raise BadSetting("a scenario alone is no study: nothing varies", "Give axes, or methods to compare")
    seeds = keys.pop("seeds", None)
    if keys:
        raise BadSetting(
            f"{min(keys)} is the file's to say", "Give axes or methods too: then the first argument is a scenario"
        )
    spec = load_study(str(base), changes)
    if seeds is None:
        return spec
    table = spec.study.model_dump(mode="json") | {"seeds": seeds}
    again = spec.model_dump(mode="json", by_alias=True) | {"study": table, "name": spec.name, "folder": spec.folder}
    return validate(again, StudySpec, f"study {spec.name}")


def _of_scenario(base: str | Path | Scenario, axes: Axes, keys: Mapping[str, Any], changes: Sequence[str]) -> StudySpec:
    table: dict[str, Any] = {} if not isinstance(base, Scenario) else scenario_json(base)
    for change in changes:
        apply_override(table, change)
    study = {key: value for key, value in keys.items() if value is not None}
    if not isinstance(base, Scenario):
        study["scenario"] = str(base)
    tables = {"study": study, "base": table, "axis": [_axis(name, points) for name, points in axes.items()]}
    return validate({**tables, "name": "study", "folder": Path.cwd()}, StudySpec, "study")


def _axis(name: str, points: Sequence[Any] | Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    if not len(points):
        raise BadSetting(f"axis {name!r} has no values", "Give at least one, or leave it out")
    if not isinstance(points, Mapping):
        values = [value.item() if isinstance(value, np.generic) else value for value in points]
        for value in values:
            list(changes_of({name: value}))  # which says what no file could hold
        return {"key": name, "values": values}
    tables: dict[str, Any] = {}
    for point, keys in points.items():
        table: dict[str, Any] = {}
        for change in changes_of(keys):
            apply_override(table, change)
        tables[str(point)] = table
    return {"name": name, "points": tables}


@contextlib.contextmanager
def _telling(progress: ProgressCallback | bool | None) -> Iterator[Progress]:
    if progress is None or progress is False:
        yield no_progress
    elif progress is True:
        with showing() as display:
            yield progress_on(display)
    elif callable(progress):
        yield progress
    else:
        raise WrongType(f"progress is a {type(progress).__name__}", "Give a function of (stage, done, total), or True")
