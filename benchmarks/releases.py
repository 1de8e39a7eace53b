"""Labels, labels from an interactive check, and counts at equal epsilon, and what stands beside them.

    python -m benchmarks.releases [--seeds 0 1 ...] [--kept FILE]

A federation of each seed is that of `consilium run --seed N`: the same hospitals held out, votes, noise, labels and
student (`simulations.release.replay`), judged by AUC on the same test rows. Rivals are a study's methods on the same
rows, the private ones at the same guarantee. One JSON line for each seed stands in FILE; the script goes on from there.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import patch

import numpy as np

from benchmarks.results import student_interval, table
from consilium.coordinator.config import FederationConfig
from consilium.models.evaluation import area_under_curve
from consilium.report.disclosure import epsilon_text
from consilium.simulations.divide import make_case
from consilium.simulations.judge import RUN, judged
from consilium.simulations.methods.kinds import method_of
from consilium.simulations.release import replay
from consilium.simulations.scenario import load_scenario
from consilium.simulations.vote import train_ensemble

COUNTS = "noisy counts"
AS_LABELS = "Confident, noise of labels not used"
RELEASES: dict[str, tuple[str, ...]] = {
    "Confident labels (default)": (),
    AS_LABELS: (),
    "GNMax labels": ('federation.mechanism={name="gnmax", sigma=90.25}', "federation.query_budget.queries=300"),
    "Interactive labels, four rounds": (
        'federation.mechanism={name="interactive", threshold=100, sigma1=277.1, sigma2=97.94}',
        "student.rounds=4",
    ),
    COUNTS: ('federation.mechanism={name="histogram", sigma=112.1}', "federation.query_budget.queries=300"),
}
"""Name -> what is changed in the default scenario."""
RIVALS = {
    "one party alone": "local",
    "private gradient descent": "private_gradient",
    "noisy average": "noisy_average",
    "300 manual labels": {"name": "manual_labels", "labels": 300, "draws": 20},
    "plurality": "plurality",
    "pooled": "pooled",
}
"""Name -> method of a study."""
COLUMNS = ("", "guaranteed epsilon", "labels or counts", "AUC", "95 % interval", "less counts, seed by seed")
COMMAND = "python -m benchmarks.releases"
SPLIT = (
    "judged on test rows of hospitals that took no part, each seed holding out others; threshold, queries, rounds and"
    " C were chosen on development hospitals, three in ten (benchmarks.tuned), some of which judge too; interval of the"
    " mean over seeds"
)


def measure(seed: int) -> dict[str, list[float | None]]:
    """Name -> AUC, epsilon guaranteed (None: nothing is), and how many labels or counts the student got."""
    cases = {name: make_case(load_scenario("stroke", list(keys)), seed, 0.0) for name, keys in RELEASES.items()}
    default = next(iter(cases.values()))
    said, truth, found = train_ensemble(default), default.test_y == 1, dict[str, list[float | None]]()
    for name, case in cases.items():
        untold = patch.object(FederationConfig, "label_law", lambda *_: None)
        with untold if name == AS_LABELS else nullcontext():
            # teachers hang on the seed and the hospitals alone: their votes serve all releases
            done = replay(case, said.pool)
        auc = area_under_curve(done.student.predict_proba(case.test_x)[:, 1], truth)
        found[name] = [auc, done.promised.epsilon, float((done.labels >= 0).sum())]
    for name, described in RIVALS.items():
        predicted = method_of(described).predict(default, said)
        rows = judged(name, default, predicted)
        auc = next(row.value for row in rows if row.scope == RUN and row.metric == "auc")
        found[name] = [auc, predicted.figures.get("epsilon"), None]
    return found


def lines(runs: Sequence[dict[str, list[float | None]]]) -> list[list[str]]:
    """Under COLUMNS."""
    made = []
    counts = np.array([run[COUNTS][0] for run in runs], dtype=float)
    for name in runs[0]:
        aucs, epsilons, released = (np.array([run[name][place] for run in runs], dtype=float) for place in range(3))
        (low, high), (least, most) = student_interval(aucs.tolist()), student_interval((aucs - counts).tolist())
        epsilon = "none" if np.isnan(epsilons).any() else epsilon_text(float(epsilons.max()))
        number = "none" if np.isnan(released).any() else f"{released.mean():.0f}"
        apart = "0" if name == COUNTS else f"{(aucs - counts).mean():+.4f} ({least:+.3f} to {most:+.3f})"
        made.append([name, epsilon, number, f"{aucs.mean():.4f}", f"{low:.3f} to {high:.3f}", apart])
    return made


def main(arguments: list[str] | None = None) -> None:
    """Measure what FILE does not hold yet, and print the table."""
    parser = argparse.ArgumentParser(description="Labels and counts at equal epsilon.")
    parser.add_argument("--seeds", type=int, nargs="*", default=list(range(10)))
    parser.add_argument("--kept", type=Path, default=Path("releases.jsonl"))
    chosen = parser.parse_args(arguments or [])
    kept = [json.loads(line) for line in chosen.kept.read_text().splitlines()] if chosen.kept.exists() else []
    with table("releases", COMMAND, COLUMNS, split=SPLIT, seeds=chosen.seeds) as rows:
        for seed in set(chosen.seeds) - {item["seed"] for item in kept}:
            kept.append({"seed": seed, "found": measure(seed)})
            with chosen.kept.open("a") as file:
                file.write(json.dumps(kept[-1]) + "\n")
        runs = [item for item in kept if item["seed"] in chosen.seeds]
        for line in lines([item["found"] for item in runs]):
            rows.add(*line)


if __name__ == "__main__":
    main(sys.argv[1:])
