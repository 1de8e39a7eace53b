"""Ways to collect votes, at one epsilon towards the student, over five seeds: AUC, and the epsilon towards each node.

Teachers are trained once for each seed. Every way is replayed on their votes with the program's own label service,
ledger and student; where the noise is in the sums, every giver's share of it is drawn.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import get_args

import numpy as np

from benchmarks.cells import spread
from consilium.coordinator.privacy import promised_to_nodes, promised_to_student
from consilium.protocol.messages import CollectionMode
from consilium.report.disclosure import epsilon_text
from consilium.simulations.divide import Case, make_case
from consilium.simulations.release import replay
from consilium.simulations.scenario import load_scenario
from consilium.simulations.vote import train_ensemble
from consilium.sums.roster import least_sum
from docs.figures import Table, figure

SEEDS = range(5)
DRAWS = {"pneumonia": 16}
"""Of noise and student, for each seed; else 4. Fifty votes make a student that varies much."""
SCENARIOS = ("stroke", "pneumonia")
MODES: tuple[CollectionMode, ...] = get_args(CollectionMode)
COLUMNS = (
    "scenario and votes", "student AUC", "beside plaintext votes, seed by seed", "labels or histograms",
    "epsilon towards student and public", "towards the coordinator", "towards the second aggregator",
)  # fmt: skip


def collected(case: Case, collection: CollectionMode) -> Case:
    """The case with its votes collected so, by as many parties as there are."""
    federation = case.scenario.federation.model_copy(update={"collection": collection})
    shares = federation.sure_givers(least_sum(len(case.parties), federation.colluders))
    roster = "" if collection == "plaintext" else "0" * 64
    config = case.config.model_copy(update={"collection": collection, "roster": roster, "noise_shares": shares})
    return replace(case, config=type(config).model_validate(config.model_dump()))


def epsilons(case: Case) -> list[str]:
    """Towards the student, the coordinator and the second aggregator; what is not bounded has none."""
    votes, nodes = case.config.collection, epsilon_text(promised_to_nodes(case.config).epsilon)
    seen = nodes if case.config.noise_in_sums else "none"
    return [
        epsilon_text(promised_to_student(case.config).epsilon),
        seen,
        nodes if votes == "verified" else "no such node",
    ]


def rows(name: str, seeds: Sequence[int]) -> Iterator[list[str]]:
    """One for each way: mean over the draws, and standard deviation over the seeds; the epsilons are guarantees."""
    found: dict[str, list[tuple[float, float]]] = {mode: [] for mode in MODES}
    stated: dict[str, list[str]] = {}
    for seed in seeds:
        case = make_case(load_scenario(name), seed, 0.0)
        said = train_ensemble(case).pool
        for mode in MODES:
            one = collected(case, mode)
            draws = [replay(replace(one, seed=seed + 1000 * draw), said) for draw in range(DRAWS.get(name, 4))]
            answered = [sum(int(batch.answered.sum()) for batch in each.batches) for each in draws]
            found[mode].append(
                (float(np.mean([(each.metrics or {})["auc"] for each in draws])), float(np.mean(answered)))
            )
            stated[mode] = epsilons(one)
    clear = np.array([auc for auc, _ in found["plaintext"]])
    for mode in MODES:
        auc, answered = (np.array(each) for each in zip(*found[mode], strict=True))
        beside = spread((auc - clear).tolist())
        beside = beside.removeprefix("-") if beside.startswith("-0.000") else beside
        yield [f"{name}, {mode}", spread(auc.tolist()), beside, spread(answered.tolist(), 0), *stated[mode]]


def tabulate(table: Table, seeds: Sequence[int], scenarios: Sequence[str]) -> None:
    """Into the table, as they come."""
    for name in scenarios:
        for row in rows(name, seeds):
            table.add(*row)


def main(seeds: Sequence[int] = SEEDS, scenarios: Sequence[str] = SCENARIOS) -> None:
    """Print the table."""
    split = "AUC on rows of parties that took no part; nothing was chosen on them"
    note = (
        f"Mean of four draws of the noise for each seed, of {DRAWS['pneumonia']} in pneumonia. Epsilons are promised"
        " before the run, at delta 1e-5; towards another party it is at most that of the coordinator."
    )
    name, command = "results/vote-modes", "python -m benchmarks.vote_modes"
    with figure(name, command, COLUMNS, seeds=seeds, split=split, note=note) as table:
        tabulate(table, seeds, scenarios)


if __name__ == "__main__":
    main(scenarios=sys.argv[1:] or SCENARIOS)
