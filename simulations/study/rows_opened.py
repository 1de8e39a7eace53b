"""The rows of all plots of a study, opened once: what they are, and how they get to those who work on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from consilium.node.progress import LOAD
from consilium.protocol.digests import canonical_digest
from consilium.protocol.errors import ConsiliumError
from consilium.protocol.labels.service import Progress
from consilium.simulations.datasets.base import Source
from consilium.simulations.datasets.source import open_source
from consilium.simulations.datasets.spec import MEMORY, SourceSpec
from consilium.simulations.study.cache import StepCache
from consilium.simulations.study.cells import Plot
from consilium.simulations.study.graph import Opened
from consilium.simulations.study.sources import is_everywhere, packed, source_digest
from consilium.simulations.study.tasks import StepFailure, failure_of


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
