"""What hidden sums and more parties cost: the same federation in each way of collection, in one run of this script.

    python -m benchmarks.scale [--parties 100 371 1000] [--collections plaintext secure verified]

Each party has 40 made-up rows of ten numbers, and 3,000 more rows are public; the rest is as in the scenario `stroke`.
Seconds are those of the whole run and of collecting votes; the ratio is to plaintext votes of as many parties. The
plain loop is what anybody would write without Flower, policies or accounts: scikit-learn's logistic regression on each
party's rows, and what it says of the public rows. The epsilons are guarantees: towards the student, and towards whoever
sees the sums.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression

from benchmarks.results import command_of, table
from consilium.report.disclosure import epsilon_text
from consilium.simulations.datasets.base import Dataset
from consilium.simulations.divide import divide
from consilium.simulations.run import run_scenario
from consilium.simulations.scenario import Scenario, load_scenario

PARTIES = (100, 371, 1000)
COLLECTIONS = ("plaintext", "secure", "verified")
COLUMNS = (
    "parties, collection", "seconds", "of them votes", "beside plaintext", "plain loop", "towards student",
    "towards nodes",
)  # fmt: skip
SPLIT = "made-up rows, 40 a party; nothing is judged"
ROWS, FEATURES, PUBLIC = 40, 10, 75


def made_up(parties: int) -> Dataset:
    """Rows of so many parties, and of `PUBLIC` more that are held out."""
    generator, owners = np.random.default_rng(0), parties + PUBLIC
    x = generator.normal(size=(owners * ROWS, FEATURES)).astype(np.float32)
    y = (x @ generator.normal(size=FEATURES) + generator.normal(size=len(x)) > 0).astype(np.int64)
    return Dataset(
        name="made up", title="Made up", attribution="nobody", owner_label="party", classes=("no", "yes"),
        features=tuple(map(str, range(FEATURES))), x=x, y=y, owner=np.repeat(range(owners), ROWS),
    )  # fmt: skip


def scenario_of(parties: int, collection: str) -> Scenario:
    """The federation, whose threshold is the same share of the parties as in the scenario `stroke`."""
    changes = [f"federation.collection={collection}", f"federation.minimum_parties={parties // 2}"]
    changes += [f"federation.mechanism.threshold={parties * 250 // 371}", "data.classes=[]"]
    changes += [f"data.public_share={PUBLIC / (parties + PUBLIC)}"]
    return load_scenario("stroke", [*changes, "simulation.manual_labels=none"])


def plain_loop(scenario: Scenario, rows: Dataset) -> float:
    """Seconds of teachers and votes in one process, once the rows are divided."""
    case = divide(scenario, 0, rows)
    schema = case.config.rows
    public, start = schema.inputs(case.pool_x), time.monotonic()
    votes = np.zeros((len(public), len(case.classes)), dtype=np.int64)
    for party in case.parties:
        x, y = case.train_rows(party)
        one = np.full(len(public), y[0])
        said = LogisticRegression().fit(schema.inputs(x), y).predict(public) if len(set(y)) > 1 else one
        votes[np.arange(len(public)), said] += 1
    return time.monotonic() - start


def seconds(scenario: Scenario, rows: Dataset) -> tuple[float, float, list[str]]:
    """Of a whole run, of its votes; and its two guarantees."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        summary = run_scenario("stroke", scenario, "local", 0, out, source=rows)
    privacy = summary["privacy"]
    towards = [privacy["epsilon_guaranteed"], privacy.get("epsilon_nodes")]
    told = ["none" if epsilon is None else epsilon_text(epsilon) for epsilon in towards]
    return time.monotonic() - start, summary["seconds"]["vote"], told


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Seconds by parties and way of collection.")
    parser.add_argument("--parties", type=int, nargs="*", default=list(PARTIES))
    parser.add_argument("--collections", nargs="*", default=list(COLLECTIONS), choices=COLLECTIONS)
    chosen = parser.parse_args(arguments or [])
    with table("scale", command_of("benchmarks.scale", arguments or []), COLUMNS, split=SPLIT, seeds=[0]) as lines:
        for parties in chosen.parties:
            rows, plain = made_up(parties), 0.0
            loop = plain_loop(scenario_of(parties, "plaintext"), rows)
            for collection in chosen.collections:
                whole, votes, guarantees = seconds(scenario_of(parties, collection), rows)
                plain = plain or whole
                cells = [f"{whole:.1f}", f"{votes:.1f}", f"{whole / plain:.1f}", f"{loop:.1f}"]
                lines.add(f"{parties:,}, {collection}", *cells, *guarantees)


if __name__ == "__main__":
    main(sys.argv[1:])
