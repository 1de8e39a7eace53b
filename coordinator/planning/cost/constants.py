"""Constants of the model of cost, in the order of `terms`, as `python -m benchmarks cost` fitted them."""

from __future__ import annotations

from consilium.coordinator.planning.cost.load import CostedMode
from consilium.coordinator.planning.cost.terms import Costed, NodeKind

MACHINE = "an AMD EPYC (2 virtual cores, shared), Python 3.11, one thread"
"""Where they were measured."""

SECONDS: dict[Costed, tuple[float, ...]] = {
    ("clear", NodeKind.PARTY): (0.000154, 2.5e-06, 0.0),
    ("clear", NodeKind.COORDINATOR): (0.267, 0.0, 1.26e-05, 0.00215, 2.88e-07),
    ("secure", NodeKind.PARTY): (0.0133, 9.52e-06, 0.000423, 0.0, 2.32e-10, 1.26e-05),
    ("secure", NodeKind.COORDINATOR): (0.0128, 0.00229, 9.01e-06, 2.32e-10, 2.32e-10, 1.35e-05),
    ("distributed", NodeKind.PARTY): (0.0133, 9.52e-06, 0.000423, 0.0, 2.32e-10, 1.26e-05),
    ("distributed", NodeKind.COORDINATOR): (0.0128, 0.00229, 9.01e-06, 2.32e-10, 2.32e-10, 1.35e-05),
    ("verified", NodeKind.PARTY): (0.0014, 3.32e-06, 0.0, 2.74e-08),
    ("verified", NodeKind.COORDINATOR): (0.0068, 0.0, 1.36e-05, 0.000711, 0.0, 6.42e-08),
    ("verified", NodeKind.SECOND): (0.00132, 4.18e-06, 0.0, 0.000832, 6.22e-08, 5.52e-09),
}

# What grows with the parties at the coordinator of clear votes is the accountant's, for noise of a twentieth of them.
MEMORY: dict[Costed, tuple[float, ...]] = {
    ("clear", NodeKind.PARTY): (0.0, 256.0, 5.44, 0.26),
    ("clear", NodeKind.COORDINATOR): (4510000.0, 0.0, 150.0, 189000.0),
    ("secure", NodeKind.PARTY): (16300.0, 23.5, 5.11, 409.0, 28.1),
    ("secure", NodeKind.COORDINATOR): (0.0, 33.5, 25.3, 499.0, 0.758),
    ("distributed", NodeKind.PARTY): (16300.0, 23.5, 5.11, 409.0, 28.1),
    ("distributed", NodeKind.COORDINATOR): (0.0, 33.5, 25.3, 499.0, 0.758),
    ("verified", NodeKind.PARTY): (23100.0, 25.7, 7.11),
    ("verified", NodeKind.COORDINATOR): (40700.0, 0.0, 35.6, 27.8, 0.705, 208.0, 0.0),
    ("verified", NodeKind.SECOND): (44900.0, 3.1, 16.5, 27.7, 310.0, 0.0),
}

MEASURED: dict[CostedMode, tuple[int, int, int]] = {
    "clear": (800, 12_000, 240_000),
    "secure": (120, 10_000, 100_000),
    "distributed": (60, 1000, 10_000),
    "verified": (100, 12_000, 720_000),
}
"""Most parties, votes of a party, and votes times classes of what was measured; more is extrapolated."""
