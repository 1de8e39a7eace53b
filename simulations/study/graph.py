"""The steps of a study and what they need of each other, from its plots to what its results are read from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from consilium.node.progress import LOAD
from consilium.protocol.digests import canonical_digest
from consilium.protocol.errors import ConsiliumError
from consilium.protocol.label_source import Progress
from consilium.simulations.datasets.base import Source
from consilium.simulations.datasets.source import open_source
from consilium.simulations.datasets.spec import MEMORY, SourceSpec
from consilium.simulations.scenario import Scenario
from consilium.simulations.study.cache import StepCache
from consilium.simulations.study.cells import ComparedMethod, Plot, data_table, division_address, teaching
from consilium.simulations.study.sources import is_everywhere, packed, source_digest
from consilium.simulations.study.spec import StudySpec
from consilium.simulations.study.tasks import StepFailure, StudyStep, address, failure_of


@dataclass(frozen=True)
class PlotRows:
    """The rows of a plot. digest: of their content. travels: address under which they go to whoever works on them, None
    where they are opened by name."""

    digest: str
    travels: str | None


@dataclass(frozen=True)
class ResultStep:
    """A step that results are read from. method: whose cell its figures are of; "division", "teachers", "gain" else."""

    plot: Plot
    method: str
    address: str


@dataclass
class Graph:
    """All steps of a study by address, as they become known.

    The steps that settle scenarios come first (`settle`); what methods depend on follows from them (`methods`), and who
    gains from what methods there are (`gain`).
    """

    spec: StudySpec
    compared: Sequence[ComparedMethod]
    rows: Mapping[str, PlotRows] = field(repr=False)
    steps: dict[str, StudyStep] = field(default_factory=dict, repr=False)
    _divisions: dict[str, str] = field(default_factory=dict, repr=False)
    _ensembles: dict[str, str] = field(default_factory=dict, repr=False)

    def settle(self, plot: Plot) -> str:
        """The step that settles the scenario of a plot; its address."""
        table, data = plot.table, data_table(plot.teaching)
        methods = {method.label: method.table for method in self.compared}
        decides = {"division": self.division(plot), "table": {**table, "data": data}, "methods": methods}
        return self._add("settle", plot, {"table": table, "methods": methods}, decides)

    def methods(self, plot: Plot, settled: Mapping[str, Any]) -> Iterator[ResultStep]:
        """Predictions of all methods, and what is measured but who gains. settled: what the settling step gave."""
        study, scenario = self.spec.study, settled["scenario"]
        trained = {"ensemble": self.ensemble(plot)}
        if "division" in study.measures:
            decides = {"division": self.division(plot)}
            yield ResultStep(plot, "division", self._add("division", plot, {}, decides))
        if "teachers" in study.measures:
            yield ResultStep(plot, "teachers", self._add("teachers", plot, {}, trained, trained))
        if "influence" in study.measures:
            yield ResultStep(plot, "teachers", self._add("influence", plot, {}, trained, trained))
        for method in self.compared:
            label, needs = {"label": method.label}, {"predicted": self.predict(plot, method, settled)}
            yield ResultStep(plot, method.label, self._add("judge", plot, label, {**label, **needs}, needs))
            if study.hand_labels != "none" and method.method.private:
                params = {**label, "scenario": scenario, "mode": study.hand_labels}
                learning = {"student": scenario["student"], "query_budget": scenario["federation"]["query_budget"]}
                decides = {**label, **needs, **learning, "mode": study.hand_labels}
                yield ResultStep(plot, method.label, self._add("worth", plot, params, decides, needs))

    def predict(self, plot: Plot, method: ComparedMethod, settled: Mapping[str, Any]) -> str:
        """What a method predicts."""
        needs = {"ensemble": self.ensemble(plot)} if method.method.needs_ensemble else {}
        decides = {"method": method.table, "depends": settled["depends"][method.label], "on": self._teachers(plot)}
        if method.method.format > 1:
            decides["format_of_method"] = method.method.format
        params = {"method": method.table, "scenario": settled["scenario"]}
        return self._add("predict", plot, params, decides, needs, method.table["name"])

    def gain(self, plot: Plot, predicted: Mapping[str, str]) -> ResultStep:
        """Who gains at home. predicted: by the labels of methods, the addresses of what they predict."""
        decides = {"division": self.division(plot), "predicted": dict(predicted)}
        return ResultStep(plot, "gain", self._add("gain", plot, {}, decides, predicted))

    def likely(self, plot: Plot) -> list[str]:
        """Labels of the steps that follow once the plot is settled."""
        kinds: list[str] = [*self.spec.study.measures]
        for method in self.compared:
            name = method.table["name"]
            worth = self.spec.study.hand_labels != "none" and method.method.private
            kinds += [f"predict {name}", "judge", *(["worth"] if worth else [])]
        return [_label(kind, plot) for kind in kinds]

    def division(self, plot: Plot) -> str:
        """Address of the plot's division."""
        if plot.id not in self._divisions:
            share, data = self.spec.study.home_share, self.rows[plot.id].digest
            self._divisions[plot.id] = division_address(plot.teaching, plot.seed, share, data)
        return self._divisions[plot.id]

    def ensemble(self, plot: Plot) -> str:
        """The step that trains the plot's teachers."""
        return self._step(self._teachers(plot), "ensemble", plot, {})

    def _teachers(self, plot: Plot) -> str:
        if plot.id not in self._ensembles:
            self._ensembles[plot.id] = ensemble_address(plot.teaching, self.division(plot))
        return self._ensembles[plot.id]

    def _add(
        self,
        kind: str,
        plot: Plot,
        params: Mapping[str, Any],
        decides: Mapping[str, Any],
        needs: Mapping[str, str] | None = None,
        detail: str = "",
    ) -> str:
        return self._step(address(kind, **decides), kind, plot, params, needs or {}, detail)

    def _step(
        self,
        name: str,
        kind: str,
        plot: Plot,
        params: Mapping[str, Any],
        needs: Mapping[str, str] | None = None,
        detail: str = "",
    ) -> str:
        """Its address, `name`."""
        if name not in self.steps:
            all_params = {
                **params,
                "teaching": plot.teaching.model_dump(mode="json"),
                "seed": plot.seed,
                "home_share": self.spec.study.home_share,
                "division": self.division(plot),
                "source": self.rows[plot.id].travels,
            }
            label = _label(f"{kind} {detail}".strip(), plot)
            self.steps[name] = StudyStep(name, kind, label, all_params, dict(needs or {}))
        return name


def _label(kind: str, plot: Plot) -> str:
    return f"{kind}: {plot.teaching.data.set}"


def ensemble_address(scenario: Scenario, division: str) -> str:
    """Of an ensemble on the division of this address."""
    normal = teaching(scenario).model_dump(mode="json", exclude={"data", "description"})
    return address("ensemble", division=division, scenario=normal)


@dataclass
class OpenedRows:
    """plots: by id of a plot whose rows could be opened. failures: by id, why not. sets: for study.json, by name."""

    plots: dict[str, PlotRows] = field(default_factory=dict)
    failures: dict[str, StepFailure] = field(default_factory=dict)
    sets: list[dict[str, Any]] = field(default_factory=list)


def open_rows(
    plots: Sequence[Plot], loose: StepCache, far: bool, memory: Source | None, progress: Progress
) -> OpenedRows:
    """Open each data set once, for its hash; one that cannot be opened fails its own plots alone.

    loose: where rows are put that travel: those in memory, and, where `far`, all that other machines may not have.
    memory: rows for `data.set = "memory"`.
    """
    opened = OpenedRows()
    by_table: dict[str, list[Plot]] = {}
    for plot in plots:
        table = plot.teaching.data.model_dump(mode="json", include=set(SourceSpec.model_fields))
        by_table.setdefault(canonical_digest(table), []).append(plot)
    for done, same in enumerate(by_table.values()):
        progress(LOAD, done, len(by_table))
        spec = same[0].teaching.data
        try:
            source = memory if memory is not None and spec.set == MEMORY else open_source(spec)
            digest = source_digest(source)
        except ConsiliumError as error:
            opened.failures |= {plot.id: failure_of(error) for plot in same}
            continue
        travels = None
        if spec.set == MEMORY or (far and not is_everywhere(spec)):
            travels = canonical_digest(["rows", digest])
            loose.put(travels, packed(source), "rows", 0.0)
        opened.plots |= {plot.id: PlotRows(digest, travels) for plot in same}
        facts = {"set": spec.set, "title": source.title, "attribution": source.attribution, "sha256": digest}
        if facts not in opened.sets:
            opened.sets.append(facts)
    progress(LOAD, len(by_table), len(by_table))
    return opened
