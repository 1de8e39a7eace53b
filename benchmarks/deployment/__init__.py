"""Faults of machines and networks, one after another, with what was observed; seconds and memory of a deployment.

Every node is in a network namespace of its own, from kits, over TLS: Linux, root and iproute2 are needed. Killing
a node kills every process of its machine, as a power cut does. About half an hour in all; one part at a time:

    python -m benchmarks.deployment [coordinator | parties | links | nodes | timing] ...
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable

from benchmarks.deployment.coordinator import coordinator_faults
from benchmarks.deployment.federation import row
from benchmarks.deployment.links import link_faults
from benchmarks.deployment.nodes import node_faults
from benchmarks.deployment.parties import party_faults
from benchmarks.deployment.timing import timing
from consilium.protocol.errors import ConsiliumError
from tests.deploy import netns

PARTS: dict[str, Callable[[], None]] = {
    "coordinator": coordinator_faults,
    "parties": party_faults,
    "links": link_faults,
    "nodes": node_faults,
    "timing": timing,
}


def main(parts: list[str] | None = None) -> None:
    """Print the table; a part that breaks does not keep the others from running."""
    why = netns.why_not()
    if why:
        print(f"not run: {why}")
        return
    unknown = set(parts or ()) - set(PARTS)
    if unknown:
        sys.exit(f"no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    print("| fault | observed | seconds |\n|---|---|---|")
    for name in parts or list(PARTS):
        begun = time.monotonic()
        try:
            PARTS[name]()
        except (TimeoutError, subprocess.SubprocessError, OSError, ConsiliumError) as error:
            row(f"{name}: the script stopped", f"{type(error).__name__}: {str(error)[-1500:]}", begun)
