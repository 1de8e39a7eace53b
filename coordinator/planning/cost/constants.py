"""Constants of the model of cost, in the order of `terms`, as `python -m benchmarks cost` fitted them.

Those of verified votes' aggregators with two more measurements, 1,000 and 5,000 parties of `benchmarks.scale.verified`
(noise and reading of the questions added), without which noise hides what an upload takes.
"""

from __future__ import annotations

from consilium.coordinator.planning.cost.load import CostedMode
from consilium.coordinator.planning.cost.terms import Costed, NodeKind

MACHINE = "an AMD EPYC (2 virtual cores, shared), Python 3.11, one thread"
"""Where they were measured."""

SECONDS: dict[Costed, tuple[float, ...]] = {
    ("clear", NodeKind.PARTY): (0.000125, 2.56e-06, 0.0),
    ("clear", NodeKind.COORDINATOR): (1.14, 4.36e-05, 1.38e-05, 0.000947, 0.0),
    ("secure", NodeKind.PARTY): (0.0133, 9.52e-06, 0.000423, 0.0, 2.51e-10, 1.26e-05),
    ("secure", NodeKind.COORDINATOR): (0.0128, 0.00229, 8.99e-06, 2.51e-10, 2.51e-10, 1.35e-05),
    ("distributed", NodeKind.PARTY): (0.0133, 9.52e-06, 0.000423, 0.0, 2.51e-10, 1.26e-05),
    ("distributed", NodeKind.COORDINATOR): (0.0128, 0.00229, 8.99e-06, 2.51e-10, 2.51e-10, 1.35e-05),
    ("verified", NodeKind.PARTY): (0.0014, 3.32e-06, 0.0, 2.74e-08),
    ("verified", NodeKind.COORDINATOR): (0.00573, 0.0, 1.49e-05, 0.000783, 0.0, 3.35e-09),
    ("verified", NodeKind.SECOND): (0.00105, 5.45e-06, 2.67e-08, 0.000882, 1.6e-08, 0.0),
}

# Of clear votes a whole federation was measured, with the accountant's promise at its start: a second, and 120 MB.
MEMORY: dict[Costed, tuple[float, ...]] = {
    ("clear", NodeKind.PARTY): (0.0, 256.0, 5.44, 0.26),
    ("clear", NodeKind.COORDINATOR): (126000000.0, 144.0, 10.1, 10700.0),
    ("secure", NodeKind.PARTY): (16300.0, 23.5, 5.11, 409.0, 28.1),
    ("secure", NodeKind.COORDINATOR): (0.0, 33.5, 25.3, 499.0, 0.758),
    ("distributed", NodeKind.PARTY): (16300.0, 23.5, 5.11, 409.0, 28.1),
    ("distributed", NodeKind.COORDINATOR): (0.0, 33.5, 25.3, 499.0, 0.758),
    ("verified", NodeKind.PARTY): (23400.0, 25.7, 7.12),
    ("verified", NodeKind.COORDINATOR): (46400.0, 0.0, 31.5, 18.2, 0.941, 168.0, 430.0),
    ("verified", NodeKind.SECOND): (33900.0, 14.5, 28.2, 0.0, 9.75, 581.0),
}

MEASURED: dict[CostedMode, tuple[int, int, int]] = {
    "clear": (800, 12_000, 240_000),
    "secure": (120, 10_000, 100_000),
    "distributed": (60, 1000, 10_000),
    "verified": (5000, 12_000, 720_000),
}
"""Most parties, votes of a party, and votes times classes of what was measured; more is extrapolated."""
