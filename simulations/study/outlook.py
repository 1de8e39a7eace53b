"""What a study would do: its cells and steps, which of them are kept already, and how long the others take."""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from consilium.node.progress import about
from consilium.protocol.label_source import no_progress
from consilium.simulations.study.cache import LostStep, StepCache
from consilium.simulations.study.cells import compared, plots
from consilium.simulations.study.graph import Graph, open_rows, settled_of
from consilium.simulations.study.schedule import missing
from consilium.simulations.study.spec import StudySpec
from consilium.simulations.study.tasks import StepFailure


@dataclass(frozen=True)
class Outlook:
    """cases: points of the axes with a seed. unsettled: of them, those whose further steps are not known yet.

    missing, kept: steps by kind. seconds: that the missing ones take, one after the other; None where there is none
    like one of them in the cache. failed: of data that cannot be opened, by words.
    """

    study: str
    cells: int
    cases: int
    unsettled: int
    missing: dict[str, int]
    kept: dict[str, int]
    seconds: float | None
    workers: int
    failed: list[StepFailure] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    def lines(self) -> list[str]:
        """For people."""
        todo = ", ".join(f"{count} {kind}" for kind, count in self.missing.items()) or "none"
        lines = [
            f"{self.study}: {self.cells:,} cells, {self.cases:,} cases",
            f"kept already: {sum(self.kept.values()):,} steps",
            f"to do: {todo}",
        ]
        if self.unsettled:
            lines.append(
                f"and what follows from {self.unsettled:,} cases, which is known once their noise is calibrated"
            )
        if self.seconds is None:
            lines.append("time: unknown, no steps like these were done before")
        elif self.missing:
            lines.append(f"time: {about(self.seconds / self.workers)} on {self.workers} workers, by steps like these")
        return [*lines, *(f"cannot be computed: {each.what}" for each in self.failed)]


def outlook(spec: StudySpec, cache: StepCache, workers: int) -> Outlook:
    """Look, and compute nothing but what is cheap: data sets are opened for their hashes.

    Raises
    ------
    ConfigError : see `expand`.
    """
    methods, places = compared(spec), plots(spec)
    with tempfile.TemporaryDirectory(prefix="consilium-study-rows-") as folder:
        rows = open_rows(places, StepCache(Path(folder) / "rows"), False, None, no_progress)
    graph = Graph(spec, methods, rows.plots)
    targets, unsettled = [], 0
    further: list[str] = []
    for plot in places:
        if plot.id not in rows.plots:
            continue
        address = graph.settle(plot)
        targets.append(address)
        try:
            settled = settled_of(cache.get(address))
        except LostStep:
            unsettled += 1
            targets.append(graph.ensemble(plot))
            further += graph.likely(plot)
            continue
        targets += [each.address for each in graph.methods(plot, settled)]
        if "gain" in spec.study.measures:
            predicted = {each.label: graph.predict(plot, each, settled) for each in methods}
            targets.append(graph.gain(plot, predicted).address)
    todo = missing(graph.steps, targets, cache)
    usual = cache.usual_seconds() if todo else {}
    known = [usual.get(what) for what in (*(step.what for step in todo.values()), *further)]
    seconds = None if None in known else sum(each for each in known if each is not None)
    return Outlook(
        spec.name,
        len(places) * len(methods),
        len(places),
        unsettled,
        dict(Counter(step.kind for step in todo.values())),
        dict(Counter(step.kind for address, step in graph.steps.items() if address not in todo)),
        seconds,
        workers,
        list(dict.fromkeys(rows.failures.values())),
    )
