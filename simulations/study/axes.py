"""The values of an axis as labels, and what each changes in the table of a scenario."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from consilium.coordinator.mechanisms.calibration import KINDS, noise_scales
from consilium.protocol.config_files import drop_other_kinds, shown
from consilium.protocol.errors import ConfigError
from consilium.simulations.datasets.spec import SourceSpec
from consilium.simulations.scenario import TAGS
from consilium.simulations.study.spec import AxisRange, StudyAxis

SCENARIO = "scenario"
"""In a point: another base scenario for it."""
_EPSILON, _SET = "federation.privacy.epsilon", "data.set"


def points_of(axis: StudyAxis) -> dict[str, dict[str, Any]]:
    """Label -> nested table of what the scenario has there, in order.

    Raises
    ------
    ConfigError : two values have the same label.
    """
    if axis.points:
        return dict(axis.points)
    values = axis.values if axis.range is None else spread(axis.range)
    found: dict[str, dict[str, Any]] = {}
    for value in values:
        label = label_of(value)
        if label in found:
            raise ConfigError(f"axis {axis.column}: {label} stands there twice", "Leave one out")
        found[label] = nested(axis.key, value)
    return found


def spread(numbers: AxisRange) -> list[float | int]:
    """The numbers of a range, to six places that count; whole ones where both ends are.

    >>> spread(AxisRange(first=1, last=100, count=3, scale="log")), spread(AxisRange(first=0.1, last=0.3, count=3))
    ([1, 10, 100], [0.1, 0.2, 0.3])
    """
    make = np.geomspace if numbers.scale == "log" else np.linspace
    values = make(numbers.first, numbers.last, numbers.count).tolist()
    if isinstance(numbers.first, int) and isinstance(numbers.last, int):
        return list(dict.fromkeys(round(value) for value in values))
    return list(dict.fromkeys(float(f"{value:.6g}") for value in values))


def label_of(value: object) -> str:
    """How results call a value of an axis: text as it is, anything else as JSON.

    >>> label_of("iid"), label_of(0.1), label_of(50), label_of(True), label_of({"noise": 0.5})
    ('iid', '0.1', '50', 'true', '{"noise":0.5}')
    """
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), sort_keys=True)


def nested(key: str, value: Any) -> dict[str, Any]:
    """
    >>> nested("data.alpha", 0.1)
    {'data': {'alpha': 0.1}}
    """
    for part in reversed(key.split(".")):
        value = {part: value}
    return value


def changed(table: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The table of a scenario with another's keys in it.

    A key that chooses a kind drops the keys that only the former kind has; another data set drops all that was said of
    the former's columns and files. Where an epsilon is set and no noise beside it, noise that the table states is
    dropped, so that it is calibrated to the new epsilon: else it would change nothing.

    Raises
    ------
    ConfigError : a key is a value in one and a table in the other.
    """
    made = copy.deepcopy(dict(table))
    given = dict(_leaves(changes))
    data = made.get("data")
    if _SET in given and isinstance(data, dict):
        for key in set(data) & set(SourceSpec.model_fields):
            del data[key]
    for key in sorted(given, key=lambda each: each not in TAGS):
        _put(made, key, given[key])
    federation = made.get("federation", {})
    if _EPSILON in given:
        _drop_noise(federation.get("mechanism"), given)
        phases = federation.get("schedule", []) if "federation.schedule" not in given else []
        for phase in phases if isinstance(phases, list) else []:
            _drop_noise(phase.get("mechanism") if isinstance(phase, dict) else None, {})
    return made


def _drop_noise(mechanism: object, given: Mapping[str, Any]) -> None:
    """Noise that the table of a mechanism states, where none of it is among the keys that are given."""
    if not isinstance(mechanism, dict):
        return
    kind = KINDS.get(mechanism.get("name", ""))
    scales = {} if kind is None else noise_scales(kind)
    if not any(f"federation.mechanism.{name}" in given for name in scales):
        for name in scales:
            mechanism.pop(name, None)


def _leaves(table: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted keys with what is no table, or an empty one."""
    for name, value in table.items():
        key = f"{before}.{name}" if before else str(name)
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, key)
        else:
            yield key, value


def _put(table: dict[str, Any], key: str, value: Any) -> None:
    *parents, last = key.split(".")
    inner: Any = table
    for parent in parents:
        inner = inner.setdefault(parent, {})
        if not isinstance(inner, dict):
            raise ConfigError(f"{key}: {parent} is {shown(inner)} there, and no table", "Correct the key")
    inner[last] = copy.deepcopy(value)
    drop_other_kinds(inner, last, TAGS.get(key, ()))
