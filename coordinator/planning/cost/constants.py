"""Constants of the model of cost, in the order of `terms`, as `python -m benchmarks cost` fitted them."""

from __future__ import annotations

from consilium.coordinator.planning.cost.load import CostedMode
from consilium.coordinator.planning.cost.terms import Costed, NodeKind

MACHINE = "PLACEHOLDER"
"""Where they were measured."""

SECONDS: dict[Costed, tuple[float, ...]] = {
    ("clear", NodeKind.PARTY): (0.000164, 2.82e-06, 6.07e-09),
    ("clear", NodeKind.COORDINATOR): (0.307, 0.0, 1.27e-05, 0.00209, 4.79e-08),
    ("secure", NodeKind.PARTY): (0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
    ("secure", NodeKind.COORDINATOR): (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
    ("distributed", NodeKind.PARTY): (0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
    ("distributed", NodeKind.COORDINATOR): (0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
    ("verified", NodeKind.PARTY): (0.0014, 3.32e-06, 0.0, 2.74e-08),
    ("verified", NodeKind.COORDINATOR): (0.0068, 0.0, 1.36e-05, 0.000711, 0.0, 6.42e-08),
    ("verified", NodeKind.SECOND): (0.00132, 4.18e-06, 0.0, 0.000832, 6.22e-08, 5.52e-09),
}

MEMORY: dict[Costed, tuple[float, ...]] = {
    ("clear", NodeKind.PARTY): (0.0, 0.0, 0.0, 0.0),
    ("clear", NodeKind.COORDINATOR): (0.0, 0.0, 0.0, 0.0),
    ("secure", NodeKind.PARTY): (0.0, 0.0, 0.0, 0.0),
    ("secure", NodeKind.COORDINATOR): (0.0, 0.0, 0.0, 0.0, 0.0),
    ("distributed", NodeKind.PARTY): (0.0, 0.0, 0.0, 0.0),
    ("distributed", NodeKind.COORDINATOR): (0.0, 0.0, 0.0, 0.0, 0.0),
    ("verified", NodeKind.PARTY): (23100.0, 25.7, 7.11),
    ("verified", NodeKind.COORDINATOR): (15400.0, 21.5, 48.9, 16.5, 0.0, 0.0, 2290.0),
    ("verified", NodeKind.SECOND): (37400.0, 26.0, 26.4, 11.0, 0.0, 2820.0),
}

MEASURED: dict[CostedMode, tuple[int, int, int]] = {
    "clear": (5000, 12_000, 1_800_000),
    "secure": (250, 10_000, 100_000),
    "distributed": (60, 10_000, 100_000),
    "verified": (5000, 12_000, 720_000),
}
"""Most parties, votes of a party, and votes times classes that were ever measured; more is extrapolated."""
