"""Which audit speaks against which planted fault of `benchmarks.attack`, 20 times each, and against none.

    python -m benchmarks.attack_audits

`consilium audit RUN` reads what a coordinator left: ledger, log and summary. `consilium audit mechanism` plays against
a mechanism and its noise, `consilium audit teachers` against what a party trains. No audit sees what another one reads.
"""

from __future__ import annotations

import logging
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext, suppress
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.attack import PLANTED, RELEASES, SHARED_ROWS, SMALL, SPLIT, votes_of
from consilium.accounting.units import Neighbouring, Unit
from consilium.coordinator import label_service
from consilium.coordinator.conclusion import Participation, conclude
from consilium.coordinator.distinguish import GameSetup, audit_mechanism
from consilium.coordinator.events import EventLog
from consilium.coordinator.label_service import LabelService
from consilium.coordinator.ledger import Ledger
from consilium.coordinator.mechanisms import GNMax
from consilium.protocol.errors import BudgetExceeded
from consilium.protocol.noise import SeededNoise
from consilium.simulations.attack.faults import LESS, REUSED
from consilium.simulations.attack.membership import OnRows
from consilium.simulations.audit import audit_path
from consilium.simulations.audit_teachers import AuditEffort, audit_teachers, subject_of_scenario
from consilium.simulations.release import RecordedVotes
from docs.figures import figure

RUN, MECHANISM, TEACHERS = "`audit RUN`", "`audit mechanism`", "`audit teachers`"
NOISY = ("", REUSED, LESS)
MANY_TEACHERS = ("federation.teachers_per_party=20",)
"""Of few rows each, so that one row decides votes."""


def audit_of_run(seed: int, mechanism: str, plant: Callable[[], Any]) -> list[str]:
    """What `consilium audit` says does not hold of a coordinator's run whose student asks for more than it may."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with plant():
            everything = votes_of(seed, mechanism)
            case = everything.case
            config = case.config.model_copy(update={"noise_seed": seed})
            votes = OnRows(everything.rows, everything.whole.sum(axis=0, dtype=np.int64))
            with (
                closing(EventLog(folder / "events.jsonl")) as log,
                closing(
                    Ledger(folder / "ledger.db", config.digest(), config.model_dump_json(exclude={"noise_seed"}))
                ) as ledger,
            ):
                noise, parties = label_service.noise_for(config), case.parties
                service = LabelService(config, ledger, noise, RecordedVotes(case, votes), len(parties), log)
                log.write("promised", **service.promised.to_json())
                step = config.query_budget.queries // 2
                with suppress(BudgetExceeded):
                    for start in range(0, 4 * step, step):
                        service.ask(case.pool_x[start : start + step])
                part = Participation(weights=dict.fromkeys(parties, 1), counted=[len(parties)])
                conclude(config, folder, ledger, log, part)
        return [finding.check for finding in audit_path(folder).findings if not finding.holds]


def audit_of_mechanism(seed: int, plant: Callable[[], Any]) -> bool:
    """Whether `consilium audit mechanism` refutes what it claims."""
    with plant():
        return audit_mechanism(GNMax(sigma=5), SeededNoise(seed), GameSetup(queries=10, runs=4000)).violated


def audit_of_teachers(seed: int, plant: Callable[[], Any]) -> bool:
    """Whether `consilium audit teachers` finds a record that moves more votes than it may."""
    overrides = [*SMALL, RELEASES[1], *MANY_TEACHERS]
    with tempfile.TemporaryDirectory() as name, plant():
        home, config, rows = subject_of_scenario("stroke", overrides, None, seed, Path(name))
        plan = AuditEffort(Unit.RECORD, Neighbouring.ADD_OR_REMOVE, changes=60, queries=20, runs=1000, seed=seed)
        return audit_teachers(home, config, rows, plan, SeededNoise(seed)).violated


def audited(runs: int) -> Iterator[tuple[str, list[str]]]:
    """Each fault, and how often each audit speaks against it: that of a mechanism where the fault is in noise, that of
    teachers where it is in their rows. Neither runs through any other."""
    logging.getLogger("consilium.party").setLevel(logging.ERROR)
    for name, (_, plant, mechanisms) in {"nothing": ("", nullcontext, RELEASES), **PLANTED}.items():
        failed = [audit_of_run(run, mechanisms[run % len(mechanisms)], plant) for run in range(runs)]
        checks = Counter(check for one in failed for check in one)
        noise, rows = ("" if name == "nothing" else PLANTED[name][0]), name in ("nothing", SHARED_ROWS)
        yield (
            name,
            [
                f"{sum(map(bool, failed))} of {runs}",
                "; ".join(sorted(checks)) or "–",
                f"{sum(audit_of_mechanism(run, plant) for run in range(runs))} of {runs}" if noise in NOISY else "–",
                f"{sum(audit_of_teachers(run, plant) for run in range(runs))} of {runs}" if rows else "–",
            ],
        )


def main(runs: int = 20) -> None:
    """Print the table."""
    columns = ["planted", RUN, "what does not hold", MECHANISM, TEACHERS]
    command, note = "python -m benchmarks.attack_audits", "An audit of a mechanism plays labels, sigma 5."
    with figure("attacks/audits", command, columns, seeds=range(runs), quick=False, split=SPLIT, note=note) as table:
        for name, cells in audited(runs):
            table.add(name, *cells)


if __name__ == "__main__":
    main()
