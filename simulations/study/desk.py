"""What one process keeps of a study between two steps: the last few things that took time to read or to make."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from consilium.protocol.config_files import validate
from consilium.protocol.digests import canonical_digest
from consilium.simulations.artifact import from_bytes
from consilium.simulations.datasets.base import Source
from consilium.simulations.datasets.source import open_source
from consilium.simulations.divide import Case, make_case
from consilium.simulations.methods.base import Predicted
from consilium.simulations.scenario import Scenario
from consilium.simulations.study.sources import unpacked
from consilium.simulations.teach import Ensemble

T = TypeVar("T")
Read = Callable[[str], bytes]
"""From the address of a step to its bytes; raises LostStep."""
KEPT = {"source": 1, "division": 2, "case": 4, "ensemble": 2, "scenario": 32, "predicted": 8}
"""Kind -> how many of it are kept."""


class StepDesk:
    """read: see `Read`; it is asked once for what is used several times in a row."""

    def __init__(self) -> None:
        self._kept: dict[str, OrderedDict[str, Any]] = {kind: OrderedDict() for kind in KEPT}

    def case(self, table: Mapping[str, Any], params: Mapping[str, Any], read: Read) -> Case:
        """The division that `params` name, with a scenario in full form for everything else."""
        scenario = self.scenario(table)
        key = params["division"]
        divided = self._keep("division", key, lambda: self._divided(params, read))
        return self._keep("case", f"{key} {canonical_digest(dict(table))}", lambda: divided.of(scenario))

    def _divided(self, params: Mapping[str, Any], read: Read) -> Case:
        scenario = self.scenario(params["teaching"])
        source = self.source(scenario, params, read)
        return make_case(scenario, params["seed"], params["home_share"], source)

    def source(self, scenario: Scenario, params: Mapping[str, Any], read: Read) -> Source:
        """The rows: those that travelled under the address in `params`, else opened by name."""
        travels = params["source"]
        if travels is None:
            name = canonical_digest(scenario.data.model_dump(mode="json"))
            return self._keep("source", name, lambda: open_source(scenario.data))
        return self._keep("source", travels, lambda: unpacked(read(travels)))

    def scenario(self, table: Mapping[str, Any]) -> Scenario:
        """From its full form."""
        made = lambda: validate(dict(table), Scenario, "scenario of a study")  # noqa: E731
        return self._keep("scenario", canonical_digest(dict(table)), made)

    def ensemble(self, address: str, read: Read) -> Ensemble:
        """What the teachers said."""
        return self._keep("ensemble", address, lambda: Ensemble.of_arrays(from_bytes(read(address))))

    def predicted(self, address: str, read: Read) -> Predicted:
        """What a method predicted."""
        return self._keep("predicted", address, lambda: Predicted.of_arrays(from_bytes(read(address))))

    def _keep(self, kind: str, key: str, make: Callable[[], T]) -> T:
        kept = self._kept[kind]
        if key in kept:
            kept.move_to_end(key)
        else:
            while len(kept) >= KEPT[kind]:
                kept.popitem(last=False)  # before the next is made: both may be large
            kept[key] = make()
        return kept[key]
