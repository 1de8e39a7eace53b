"""The model of cost (`consilium plan --cost`): seconds and memory of each node, measured, fitted, and judged.

Processor time of one thread, so that a busy machine matters little; memory is traced in a second run (the clear
coordinator has processes of its own). The constants that are printed stand in
`benchmarks/cost/model.py`; of what is held out nothing is fitted. Secure and distributed votes, which are
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

from benchmarks.cells import command_of
from benchmarks.cost.fitting import constants_of
from benchmarks.cost.meter import Meter
from benchmarks.cost.model import (
    COSTED_MODES,
    KEPT_PART,
    LOST_BYTE,
    MASK_BYTE,
    MEMORY_TERMS,
    SECONDS_TERMS,
    CostedMode,
    Load,
    NodeKind,
)
from benchmarks.cost.sessions import SESSIONS, SIGMA
from benchmarks.cost.sizes import CLEAR_PARTIES, CLEAR_PARTY_HELD_OUT, FITTED, HELD_OUT
from benchmarks.scale.measured import in_own_process
from consilium.protocol.noise import SystemNoise
from consilium.sums.masks.ring import MaskAdder, pair_key
from docs.figures import figure

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
Row = tuple[CostedMode, Load, bool, Figures]
"""Mode, size, whether it is held out, and what was measured."""


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
    """Of a whole federation of plaintext votes, with noise as deployments draw it."""
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


def measurements(modes: list[str]) -> Iterator[Row]:
    """All that is asked for."""
    chosen: list[CostedMode] = [mode for mode in COSTED_MODES if mode in modes]
    for mode in chosen:
        SESSIONS[mode](FITTED[mode][0], Meter(traced=False))  # what is imported on first use
        SystemNoise().gaussian(SIGMA, (1,))
        parties = (CLEAR_PARTIES, CLEAR_PARTY_HELD_OUT) if mode == "plaintext" else ([], [])
        for held_out, loads, alone in ((False, FITTED[mode], parties[0]), (True, HELD_OUT[mode], parties[1])):
            for load in loads:
                yield mode, load, held_out, clear_coordinator(load) if mode == "plaintext" else measured(mode, load)
            for load in alone:
                yield mode, load, held_out, measured(mode, load)


def kept(path: Path | None, modes: list[str]) -> list[Row]:
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


Constants = dict[str, dict[tuple[CostedMode, NodeKind], list[float]]]
"""seconds or memory -> mode and node -> a constant for each of its terms."""
TERMS = {"seconds": SECONDS_TERMS, "memory": MEMORY_TERMS}
COLUMNS = ("votes", "size", "node", "measured", "model")


def fitted(rows: list[Row]) -> Constants:
    """Constants of all terms that were measured; of what is held out nothing is used."""
    rates = dict.fromkeys((MASK_BYTE, LOST_BYTE), mask_rate())
    constants: Constants = {"seconds": {}, "memory": {}}
    for what, table in TERMS.items():
        known = rates if what == "seconds" else {KEPT_PART: KEPT_BYTES}
        for (mode, node), terms in table.items():
            used = [
                (load, figures[what][node])
                for of, load, held_out, figures in rows
                if POOLED.get(of, of) == POOLED.get(mode, mode) and node in figures[what] and not held_out
            ]
            if used:
                loads, values = zip(*used, strict=True)
                constants[what][mode, node] = constants_of(terms, loads, values, known)
    return constants


def modelled(constants: Constants, what: str, mode: CostedMode, node: NodeKind, load: Load) -> float:
    """Seconds or bytes."""
    terms = TERMS[what][mode, node]
    return sum(each * term.of(load) for each, term in zip(constants[what][mode, node], terms, strict=True))


def judged(rows: list[Row], constants: Constants) -> Iterator[list[str]]:
    """A row for each node of each federation that is held out, under COLUMNS."""
    for mode, load, held_out, figures in rows:
        for node in map(NodeKind, figures["seconds"] if held_out else ()):
            known = [what for what in TERMS if node in figures[what] and (mode, node) in constants[what]]
            measured = [_shown(what, figures[what][node]) for what in known]
            model = [_shown(what, modelled(constants, what, mode, node, load)) for what in known]
            teachers = f", {load.teachers} teachers" if load.teachers > 1 else ""
            size = f"{load.parties:,} parties, {load.queries:,} x {load.classes}{teachers}"
            yield [f"`{mode}`", size, str(node), ", ".join(measured), ", ".join(model)]


def _shown(what: str, value: float) -> str:
    if what == "memory":
        return f"{value / 1e6:.3g} MB"
    return f"{value:.3g} s" if value >= 0.15 else f"{1000 * value:.3g} ms"


def show_fit(rows: list[Row], constants: Constants) -> None:
    """Print what was measured beside what is fitted, and the constants."""
    for what, unit, times in (("seconds", "ms", 1e3), ("memory", "MB", 1e-6)):
        print(f"\n{what}: {unit} of one exchange; * held out")
        print(f"{'':28}{'parties':>9}{'queries':>9}{'classes':>9}{'measured':>12}{'fitted':>12}{'off':>8}")
        for (mode, node), values in constants[what].items():
            for of, load, held_out, figures in rows:
                if of == mode and node in figures[what]:
                    value, fit = figures[what][node], modelled(constants, what, mode, node, load)
                    print(
                        f"{f'{mode}, {node}' + ' *' * held_out:28}{load.parties:9d}{load.queries:9d}{load.classes:9d}"
                        f"{times * value:12.2f}{times * fit:12.2f}{fit / value - 1:8.0%}"
                    )
            units = [term.unit for term in TERMS[what][mode, node]]
            print(f"    {mode}, {node}: {tuple(values)}")
            print(
                "        "
                + ", ".join(f"{each:.3g} a {of or 'exchange'}" for each, of in zip(values, units, strict=True))
            )


def main() -> None:
    """Print the fit, and the table of what judges it."""
    modes = os.environ.get("CONSILIUM_COST_MODES", " ".join(COSTED_MODES)).split()
    place = os.environ.get("CONSILIUM_COST_KEEP")
    command = command_of("benchmarks", ["cost"], variables=["CONSILIUM_COST_MODES", "CONSILIUM_COST_KEEP"])
    split = "sizes that are held out: nothing is fitted to them"
    with figure("scale/held-out", command, COLUMNS, split=split, timings=COLUMNS[3:], quick=False) as table:
        rows = kept(Path(place) if place else None, modes)
        constants = fitted(rows)
        for row in judged(rows, constants):
            table.add(*row)
    show_fit(rows, constants)
