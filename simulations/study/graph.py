"""The steps of a study and what they need of each other, from its plots to what its results are read from."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from consilium.coordinator.planning.plan import is_open
from consilium.node.progress import LOAD
from consilium.protocol.digests import canonical_digest
from consilium.protocol.errors import ConsiliumError
from consilium.protocol.label_source import Progress
from consilium.simulations.datasets.base import Source
from consilium.simulations.datasets.source import open_source
from consilium.simulations.datasets.spec import MEMORY, SourceSpec
from consilium.simulations.study.cache import StepCache
from consilium.simulations.study.cells import (
    ComparedMethod,
    Plot,
    address,
    data_table,
    division_address,
    ensemble_address,
)
from consilium.simulations.study.sources import is_everywhere, packed, source_digest
from consilium.simulations.study.spec import StudySpec
from consilium.simulations.study.tasks import StepFailure, StudyStep, failure_of

_NO_PLAN = ("name", "timeouts")
"""Keys of a federation that decide nothing of a plan."""
_INFLUENCED = "pate"
"""The method whose labels are looked at without each party."""


@dataclass(frozen=True)
class Opened:
    """The rows of a plot. digest: of their content. travels: address under which they go to whoever works on them, None
    where they are opened by name."""

    digest: str
    travels: str | None


@dataclass(frozen=True)
class ToldStep:
    """A step that results are read from. method: whose cell it is told in; "division", "teachers", "gain" else."""

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
    opened: Mapping[str, Opened] = field(repr=False)
    steps: dict[str, StudyStep] = field(default_factory=dict, repr=False)
    _divisions: dict[str, str] = field(default_factory=dict, repr=False)
    _ensembles: dict[str, str] = field(default_factory=dict, repr=False)

    def settle(self, plot: Plot) -> str:
        """The step that settles the scenario of a plot; its address."""
        rows, table = self.opened[plot.id], plot.table
        named = {**table, "data": data_table(plot.teaching)}
        methods = {each.label: each.table for each in self.compared}
        needs = {}
        if is_open(table["federation"]):
            needs["plan"] = self._add(
                "plan",
                plot,
                {"table": table},
                decides={
                    "data": rows.digest,
                    "data_table": named["data"],
                    "federation": {key: value for key, value in table["federation"].items() if key not in _NO_PLAN},
                    "most_queries": plot.most_queries,
                    "seed": plot.seed,
                },
            )
        decides = {"division": self.division(plot), "table": named, "methods": methods}
        return self._add("settle", plot, {"table": table, "methods": methods}, decides, needs)

    def methods(self, plot: Plot, settled: Mapping[str, Any]) -> Iterator[ToldStep]:
        """Predictions of all methods, and what is measured but who gains. settled: what the settling step gave."""
        division, measures = self.division(plot), self.spec.study.measures
        ensemble = self.ensemble(plot)
        scenario = {"scenario": settled["scenario"]}
        if "division" in measures:
            yield ToldStep(plot, "division", self._add("division", plot, {}, {"division": division}))
        if "teachers" in measures:
            yield ToldStep(
                plot, "teachers", self._add("teachers", plot, {}, {"ensemble": ensemble}, {"ensemble": ensemble})
            )
        for each in self.compared:
            predicted = self.predict(plot, each, settled)
            label, needs = {"label": each.label}, {"predicted": predicted}
            yield ToldStep(plot, each.label, self._add("judge", plot, label, {**label, **needs}, needs))
            if self.spec.study.hand_labels != "none" and each.method.private:
                params = {**label, **scenario, "mode": self.spec.study.hand_labels}
                decides = {**label, **needs, **_learning(settled), "mode": self.spec.study.hand_labels}
                yield ToldStep(plot, each.label, self._add("worth", plot, params, decides, needs))
            if "influence" in measures and each.table["name"] == _INFLUENCED:
                needs = {**needs, "ensemble": ensemble}
                decides = {**label, **needs, "depends": settled["depends"][each.label]}
                yield ToldStep(plot, each.label, self._add("influence", plot, {**label, **scenario}, decides, needs))

    def predict(self, plot: Plot, each: ComparedMethod, settled: Mapping[str, Any]) -> str:
        """What a method predicts."""
        needs = {"ensemble": self.ensemble(plot)} if each.method.needs_ensemble else {}
        decides = {
            "method": each.table,
            "depends": settled["depends"][each.label],
            "on": self._teachers(plot),
        }
        if each.method.format > 1:
            decides["format_of_method"] = each.method.format
        params = {"method": each.table, "scenario": settled["scenario"]}
        return self._add("predict", plot, params, decides, needs, each.table["name"])

    def gain(self, plot: Plot, predicted: Mapping[str, str]) -> ToldStep:
        """Who gains at home. predicted: by what methods are called, the addresses of what they predict."""
        decides = {"division": self.division(plot), "predicted": dict(predicted)}
        return ToldStep(plot, "gain", self._add("gain", plot, {}, decides, predicted))

    def likely(self, plot: Plot) -> list[str]:
        """What the steps are about that follow once the plot is settled, as `StudyStep.what` says it."""
        labels = self.spec.study.hand_labels != "none"
        kinds = [each for each in self.spec.study.measures if each != "influence"]
        for each in self.compared:
            name = each.table["name"]
            kinds += [f"predict {name}", "judge", *(["worth"] if labels and each.method.private else [])]
            kinds += ["influence"] if name == _INFLUENCED and "influence" in self.spec.study.measures else []
        return [self._what(kind, plot) for kind in kinds]

    def division(self, plot: Plot) -> str:
        """Address of the plot's division."""
        if plot.id not in self._divisions:
            share, data = self.spec.study.home_share, self.opened[plot.id].digest
            self._divisions[plot.id] = division_address(plot.teaching, plot.seed, share, data)
        return self._divisions[plot.id]

    def ensemble(self, plot: Plot) -> str:
        """The step that trains the plot's teachers."""
        made = self._teachers(plot)
        if made not in self.steps:
            self.steps[made] = StudyStep(made, "ensemble", self._what("ensemble", plot), self._params(plot, {}))
        return made

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
        what: str = "",
    ) -> str:
        made = address(kind, **decides)
        if made not in self.steps:
            words = self._what(f"{kind} {what}".strip(), plot)
            self.steps[made] = StudyStep(made, kind, words, self._params(plot, params), dict(needs or {}))
        return made

    def _params(self, plot: Plot, params: Mapping[str, Any]) -> dict[str, Any]:
        return {
            **params,
            "teaching": plot.teaching.model_dump(mode="json"),
            "seed": plot.seed,
            "home_share": self.spec.study.home_share,
            "division": self.division(plot),
            "source": self.opened[plot.id].travels,
        }

    @staticmethod
    def _what(kind: str, plot: Plot) -> str:
        return f"{kind}: {plot.teaching.data.set}"


def settled_of(content: bytes) -> dict[str, Any]:
    """What a settling step gave: scenario, depends, guarantees, parties, left_out."""
    return json.loads(content)


def _learning(settled: Mapping[str, Any]) -> dict[str, Any]:
    """What decides labels by hand, beside the predictions."""
    scenario = settled["scenario"]
    return {"student": scenario["student"], "caps": scenario["federation"]["caps"]}


@dataclass
class OpenedRows:
    """plots: by id of a plot whose rows could be opened. failures: by id, why not. sets: for study.json, by name."""

    plots: dict[str, Opened] = field(default_factory=dict)
    failures: dict[str, StepFailure] = field(default_factory=dict)
    sets: list[dict[str, Any]] = field(default_factory=list)


def open_rows(
    plots: Sequence[Plot], loose: StepCache, far: bool, given: Source | None, progress: Progress
) -> OpenedRows:
    """Open each data set once, for its hash; one that cannot be opened fails its own plots alone.

    loose: where rows are put that travel: those in memory, and, where `far`, all that other machines may not have.
    given: rows in memory for `data.set = "memory"`.
    """
    found = OpenedRows()
    by_table: dict[str, list[Plot]] = {}
    for plot in plots:
        table = plot.teaching.data.model_dump(mode="json")
        read = {key: value for key, value in table.items() if key in SourceSpec.model_fields}
        by_table.setdefault(canonical_digest(read), []).append(plot)
    for done, same in enumerate(by_table.values()):
        progress(LOAD, done, len(by_table))
        spec = same[0].teaching.data
        try:
            source = given if given is not None and spec.set == MEMORY else open_source(spec)
            digest = source_digest(source)
        except ConsiliumError as error:
            found.failures |= {plot.id: failure_of(error) for plot in same}
            continue
        travels = None
        if spec.set == MEMORY or (far and not is_everywhere(spec)):
            travels = canonical_digest(["rows", digest])
            loose.put(travels, packed(source), "rows", 0.0)
        found.plots |= {plot.id: Opened(digest, travels) for plot in same}
        about = {"set": spec.set, "title": source.title, "attribution": source.attribution, "sha256": digest}
        if about not in found.sets:
            found.sets.append(about)
    progress(LOAD, len(by_table), len(by_table))
    return found
