"""Interactive against Confident at the same thresholds, sigmas and query budget: answers, epsilon, label and student
accuracy.

First on the default scenario, then on the published votes of 250 MNIST teachers (skipped where they are not at hand):
there the student is a logistic regression on the pixels of the 9,000 images that the votes are for.
"""

from __future__ import annotations

import contextlib
import gzip
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cells import spread
from consilium.accounting.units import Unit
from consilium.coordinator.collection.clear import Histogram
from consilium.coordinator.config import FederationConfig, QueryBudget
from consilium.coordinator.events import EventLog
from consilium.coordinator.label_service import LabelService, noise_for
from consilium.coordinator.ledger import Ledger
from consilium.coordinator.mechanisms import Confident, Interactive
from consilium.coordinator.privacy import promised, spent
from consilium.coordinator.stages import Privacy
from consilium.models.specs import LogisticRegressionStudent
from consilium.protocol.label_source import Outcome, Progress
from consilium.protocol.queries import query_set_hash
from consilium.protocol.schema import Schema
from consilium.simulations.run import run_scenario
from consilium.simulations.scenario import load_scenario
from consilium.student.config import StudentSpec
from consilium.student.pool import Pool
from consilium.student.run import run_student
from docs.figures import figure

SEEDS = range(5)
LINEAR = LogisticRegressionStudent(C=0.1)
DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
TEACHERS = 250
POOL = 9000
COLUMNS = ("", "asked", "answered", "reinforced", "promised", "data-dependent", "labels right", "student")
STROKE = {
    "confident": [],
    "confident, 3 rounds, margin": ["student.rounds=3", "student.selection=margin"],
    "interactive, 3 rounds, margin": [
        "federation.mechanism={name='interactive', threshold=150, sigma1=300, sigma2=108, confidence=0.9}",
        "student.rounds=3",
        "student.selection=margin",
    ],
}


def stroke(overrides: list[str], seed: int, folder: Path) -> list[float]:
    """One run of the default scenario; the student's figure is AUC."""
    scenario = load_scenario("stroke", overrides)
    summary = run_scenario("stroke", scenario, "local", seed, folder, lambda _: contextlib.nullcontext())
    queries, privacy = summary["queries"], summary["privacy"]
    return [
        queries["asked"],
        queries["answered"],
        queries["reinforced"],
        privacy["epsilon_guaranteed"],
        privacy["epsilon_data_dependent"],
        privacy["released_label_accuracy"],
        summary["student"]["auc"],
    ]


def read_idx(path: Path, header: int) -> np.ndarray:
    """Bytes of an idx file after its header."""
    return np.frombuffer(gzip.decompress(path.read_bytes()), dtype=np.uint8, offset=header)


class Published:
    """A collector of published votes. votes: int64 (queries, classes); index: hash of an image -> its row."""

    def __init__(self, votes: np.ndarray, index: dict[str, int]) -> None:
        self._votes, self._index = votes, index

    def __call__(self, queries: np.ndarray, query_set: str, progress: Progress, phase: int = 1) -> Histogram:
        rows = [self._index[query_set_hash(row[np.newaxis])] for row in queries]
        return Histogram(self._votes[rows], tuple(map(str, range(TEACHERS))), TEACHERS)

    def settle(self) -> None:
        """Nothing is kept between requests."""


def mnist(mechanism: Confident | Interactive, spec: StudentSpec, seed: int, folder: Path) -> list[float]:
    """640 queries against the published votes; the student's figure is accuracy on the last 1,000 test images."""
    votes = np.load(DATA / "pate2018_votes_mnist.npz")["votes"].astype(np.int64)
    images = read_idx(DATA / "mnist" / "t10k-images-idx3-ubyte.gz", 16).reshape(-1, 784).astype(np.float32)
    labels = read_idx(DATA / "mnist" / "t10k-labels-idx1-ubyte.gz", 8).astype(np.int64)
    index = {query_set_hash(row[np.newaxis]): number for number, row in enumerate(images[:POOL])}
    names = tuple(f"pixel{number}" for number in range(784))
    config = FederationConfig(
        name="mnist votes",
        collection="plaintext",
        rows=Schema(features=names, classes=tuple("0123456789"), center=(0.0,) * 784, scale=(255.0,) * 784),
        minimum_parties=TEACHERS,
        mechanism=mechanism,
        privacy=Privacy(unit=Unit.RECORD, delta=1e-5),
        query_budget=QueryBudget(queries=640, answers=640),
        simulation=True,
        noise_seed=seed,
    )

    folder.mkdir()
    ledger = Ledger(folder / "ledger.db", config.digest(), "{}")
    log = EventLog(folder / "events.jsonl")
    service = LabelService(config, ledger, noise_for(config), Published(votes, index), TEACHERS, log)
    pool = Pool(names, images[:POOL], images[POOL:], labels[POOL:])
    result = run_student(service, pool, spec, folder, seed)
    import polars as pl

    frame = pl.read_parquet(folder / "labels.parquet").filter(pl.col("outcome") == Outcome.ANSWERED.name.lower())
    right = (frame["label"].cast(pl.Int64).to_numpy() == labels[frame["row"].to_numpy()]).mean()
    guarantees = spent(config, ledger.batches())
    ledger.close()
    metrics: dict[str, Any] = result.metrics or {}
    epsilon = guarantees["data_dependent"].epsilon
    return [
        result.queries, result.answered, result.reinforced, promised(config).epsilon, epsilon, right,
        metrics["accuracy"],
    ]  # fmt: skip


def cells(name: str, runs: list[list[float]]) -> list[str]:
    """One row: mean and standard deviation over the seeds; of the first three columns whole numbers."""
    return [name, *(spread(values, 0 if at < 3 else 3) for at, values in enumerate(zip(*runs, strict=True)))]


def rows(seeds: Iterable[int] = SEEDS) -> Iterator[list[str]]:
    """Both halves of the table; without the data sets the first alone."""
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, overrides) in enumerate(STROKE.items()):
            runs = [stroke(overrides, seed, Path(folder) / f"{number}-{seed}") for seed in seeds]
            yield cells(f"stroke: {name}", runs)
        if not DATA.is_dir():
            return
        confident = Confident(threshold=200, sigma1=150, sigma2=40)
        interactive = Interactive(threshold=200, sigma1=150, sigma2=40, confidence=0.98)
        margin = StudentSpec(trainer=LINEAR, rounds=3, selection="margin")
        cases = {
            "confident": (confident, StudentSpec(trainer=LINEAR)),
            "confident, 3 rounds, margin": (confident, margin),
            "interactive, 3 rounds, random": (interactive, StudentSpec(trainer=LINEAR, rounds=3)),
            "interactive, 3 rounds, margin": (interactive, margin),
        }
        for number, (name, (mechanism, spec)) in enumerate(cases.items()):
            runs = [mnist(mechanism, spec, seed, Path(folder) / f"m{number}-{seed}") for seed in seeds]
            yield cells(f"MNIST: {name}", runs)


def main() -> None:
    """Print the table."""
    split = "stroke: AUC on patients of hospitals that took no part; MNIST: accuracy on the last 1,000 test images"
    with figure("results/interactive", "python -m benchmarks.interactive", COLUMNS, seeds=SEEDS, split=split) as table:
        for row in rows():
            table.add(*row)


if __name__ == "__main__":
    main()
