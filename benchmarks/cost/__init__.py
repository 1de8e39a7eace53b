"""The model of cost (`consilium plan --cost`): seconds and memory of each node, measured, fitted, and judged.

Processor time of one thread, so that a busy machine matters little; memory is traced in a second run (the clear
coordinator has processes of its own). The constants that are printed stand in
`coordinator/planning/cost/constants.py`; of what is held out nothing is fitted. Secure and distributed votes, which are
one protocol but for who adds noise, are fitted together. CONSILIUM_COST_MODES chooses modes,
CONSILIUM_COST_KEEP names a file in which measurements are kept, and read again instead of measured.
"""

from __future__ import annotations

import json
import math
import os
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.cost.fitting import constants_of
from benchmarks.cost.meter import Meter
from benchmarks.cost.sessions import SESSIONS, SIGMA
from benchmarks.cost.sizes import CLEAR_PARTIES, CLEAR_PARTY_HELD_OUT, FITTED, HELD_OUT
from benchmarks.scale.measured import in_own_process
from consilium.coordinator.planning.cost.load import COSTED_MODES, CostedMode, Load
from consilium.coordinator.planning.cost.terms import (
    KEPT_PART,
    LOST_BYTE,
    MASK_BYTE,
    MEMORY_TERMS,
    SECONDS_TERMS,
    NodeKind,
)
from consilium.protocol.noise import SystemNoise
from consilium.protocol.secagg.masks import MaskAdder, pair_key

MOST_TRACED = 300_000
"""Parties times counts: tracing takes three times as long as the work itself."""
KEPT_BYTES = 430.0
"""Of each upload's signed part, in a table: too little beside all else for small federations to tell."""
CLEAR_SIGMA = 20
"""Of clear federations, the same for all: what the accountant takes is no matter of how votes are collected."""
POOLED: dict[CostedMode, CostedMode] = {"distributed": "secure"}
"""One protocol, but for who adds noise: fitted together."""
Figures = dict[str, dict[str, float]]
"""Seconds and bytes by node."""


def measured(mode: CostedMode, load: Load) -> Figures:
    """Of one party and of each aggregator."""
    found: Figures = {"seconds": {}, "memory": {}}
    for name, traced in (("seconds", False), ("memory", True)):
        if traced and load.parties * load.cells > MOST_TRACED:
            continue
        meter = Meter(traced)
        SESSIONS[mode](load, meter)
        tracemalloc.stop()
        found[name] = dict(getattr(meter, name))
    found["seconds"][NodeKind.PARTY] /= load.parties
    return found


def clear_coordinator(load: Load) -> Figures:
    """Of a whole federation of clear votes, with noise as deployments draw it."""
    size = load.parties, load.queries, load.classes, CLEAR_SIGMA
    row = in_own_process("benchmarks.scale.clear", "federation", *size)
    memory = in_own_process("benchmarks.scale.clear", "traced", *size)["memory"]
    start = time.process_time()
    SystemNoise().gaussian(SIGMA, (load.queries, load.classes))
    noise = time.process_time() - start
    return {"seconds": {NodeKind.COORDINATOR: row["all"] + noise}, "memory": {NodeKind.COORDINATOR: memory}}


def mask_rate() -> float:
    """Seconds for a byte of a mask of one pair, best of some: what a secure sum does with the square of the parties.

    Small federations, which measurements are of, spend too little on it for a fit to tell.
    """
    shape, best = (10_000, 10), math.inf
    adder, total = MaskAdder(shape, 16), np.zeros(shape, dtype=np.uint16)
    for _ in range(5):
        start = time.process_time()
        for _ in range(50):
            adder.add(total, pair_key(bytes(32), bytes(32), 0, 1))
        best = min(best, (time.process_time() - start) / 50)
    return best / total.nbytes


def measurements(modes: list[str]) -> Iterator[tuple[CostedMode, Load, bool, Figures]]:
    """Mode, size, whether it is held out, and what was measured."""
    chosen: list[CostedMode] = [mode for mode in COSTED_MODES if mode in modes]
    for mode in chosen:
        SESSIONS[mode](FITTED[mode][0], Meter(traced=False))  # what is imported on first use
        SystemNoise().gaussian(SIGMA, (1,))
        parties = (CLEAR_PARTIES, CLEAR_PARTY_HELD_OUT) if mode == "clear" else ([], [])
        for held_out, loads, alone in ((False, FITTED[mode], parties[0]), (True, HELD_OUT[mode], parties[1])):
            for load in loads:
                yield mode, load, held_out, clear_coordinator(load) if mode == "clear" else measured(mode, load)
            for load in alone:
                yield mode, load, held_out, measured(mode, load)


def kept(path: Path | None, modes: list[str]) -> list[tuple[CostedMode, Load, bool, Figures]]:
    """All measurements, from the file where it has them."""
    if path is not None and path.exists():
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        return [(row["mode"], Load(**row["load"]), row["held_out"], row["found"]) for row in rows]
    rows = []
    for mode, load, held_out, found in measurements(modes):
        rows.append((mode, load, held_out, found))
        if path is not None:
            with path.open("a") as file:
                row = {"mode": mode, "load": vars(load), "held_out": held_out, "found": found}
                file.write(json.dumps(row) + "\n")
    return rows


def main() -> None:
    """Print what was measured beside what is fitted, and the constants."""
    modes = os.environ.get("CONSILIUM_COST_MODES", " ".join(COSTED_MODES)).split()
    place = os.environ.get("CONSILIUM_COST_KEEP")
    rows = kept(Path(place) if place else None, modes)
    rates = dict.fromkeys((MASK_BYTE, LOST_BYTE), mask_rate())
    for what, unit, table in (("seconds", "ms", SECONDS_TERMS), ("memory", "MB", MEMORY_TERMS)):
        times = {"ms": 1e3, "MB": 1e-6}[unit]
        print(f"\n{what}: {unit} of one exchange; * held out")
        print(f"{'':28}{'parties':>9}{'queries':>9}{'classes':>9}{'measured':>12}{'fitted':>12}{'off':>8}")
        constants = {}
        for (mode, node), terms in table.items():
            here = [
                (of, load, held, each[what][node])
                for of, load, held, each in rows
                if POOLED.get(of, of) == POOLED.get(mode, mode) and node in each[what]
            ]
            if not here:
                continue
            used = [(load, value) for _, load, held, value in here if not held]
            known = rates if what == "seconds" else {KEPT_PART: KEPT_BYTES}
            found = constants_of(terms, [load for load, _ in used], [value for _, value in used], known)
            constants[mode, node] = dict(zip([term.unit for term in terms], found, strict=True))
            for of, load, held, value in here:
                if of != mode:
                    continue
                fitted = sum(each * term.of(load) for each, term in zip(found, terms, strict=True))
                print(
                    f"{f'{mode}, {node}' + ' *' * held:28}{load.parties:9d}{load.queries:9d}{load.classes:9d}"
                    f"{times * value:12.2f}{times * fitted:12.2f}{fitted / value - 1:8.0%}"
                )
        print(f"\nconstants, {what if what == 'seconds' else 'bytes'}")
        for (mode, node), found in constants.items():
            print(f"    {mode}, {node}: {tuple(found.values())}")
            print("        " + ", ".join(f"{value:.3g} a {unit or 'exchange'}" for unit, value in found.items()))
