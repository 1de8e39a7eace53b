"""Where a student is right and wrong, and what else the report draws: open figures, and secret ones.

Open ones take its probabilities and the true labels of public test rows alone, so the guarantee of the released labels
covers all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from consilium.coordinator.config import FederationConfig
from consilium.coordinator.ledger.store import Batch
from consilium.models.base import Shares
from consilium.models.published.model import Published
from consilium.party.home import open_home
from consilium.protocol.label_source import NO_LABEL, Progress, no_progress
from consilium.protocol.releases import ReleaseKind
from consilium.simulations.compare.at_home import FEW_PARTIES, OwnRows, at_home, chosen, most_parties
from consilium.simulations.compare.learning import MOST_LOTS, CurveLearner, GivenAnswers, by_epsilon, by_labels
from consilium.simulations.divide import Case
from consilium.simulations.methods.manual_labels import FEWEST_DRAWS, PublicTruth, effort
from consilium.simulations.metrics import area_interval, metric_intervals, one_against_rest, wilson
from consilium.simulations.population.specs import HandLabelMode
from consilium.simulations.workspace import Workspace
from consilium.student.config import StudentSpec

BINS = 10
"""Of the calibration curve, with equally many rows each."""
_POINTS = 101
"""Of a ROC curve: at false alarms in steps of a hundredth."""


def student_figures(probabilities: np.ndarray, y: np.ndarray, class_names: Sequence[str]) -> dict[str, Any]:
    """confusion, roc and calibration of `probabilities` float64 (n, classes) on `y` int64 (n,), at least one row."""
    return {
        "confusion": confusion(y, probabilities.argmax(axis=1), len(class_names)),
        "roc": roc_curves(probabilities, y, class_names),
        "calibration": calibration_curve(probabilities, y),
    }


def confusion(y: np.ndarray, predicted: np.ndarray, classes: int) -> list[list[int]]:
    """Rows of each true class (first index) that were called each class (second index).

    >>> confusion(np.array([0, 0, 1]), np.array([0, 1, 1]), 2)
    [[1, 1], [0, 1]]
    """
    counts = np.zeros((classes, classes), dtype=np.int64)
    np.add.at(counts, (y, predicted), 1)
    return counts.tolist()


def roc_curves(probabilities: np.ndarray, y: np.ndarray, class_names: Sequence[str]) -> list[dict[str, Any]]:
    """One curve for the second of two classes; of more, one for each that occurs, against all others.

    name; found: recall at false alarms 0, 0.01, ..., 1, between thresholds by the straight line; auc with its interval.
    """
    curves = []
    for index in [1] if len(class_names) == 2 else range(len(class_names)):
        positive, scores = y == index, probabilities[:, index]
        if positive.all() or not positive.any():
            continue
        areas = one_against_rest(scores, positive)
        order = np.argsort(-scores, kind="stable")
        last = np.r_[np.flatnonzero(np.diff(scores[order])), len(scores) - 1]
        caught = np.r_[0, np.cumsum(positive[order])[last]] / positive.sum()
        alarms = np.r_[0, np.cumsum(~positive[order])[last]] / (~positive).sum()
        curves.append(
            {
                "name": class_names[index],
                "found": _at(alarms, caught).round(4).tolist(),
                "auc": float(areas.mean()),
                "interval": area_interval(areas, int(min(positive.sum(), (~positive).sum()))),
            }
        )
    return curves


def _at(alarms: np.ndarray, caught: np.ndarray) -> np.ndarray:
    """Recall on a grid of false alarms: the highest at each, straight lines between."""
    grid = np.linspace(0, 1, _POINTS)
    found = np.interp(grid, alarms, caught)
    exact = np.searchsorted(alarms, grid, side="right") - 1
    same = np.isclose(alarms[exact], grid)
    return np.where(same, caught[exact], found)


def calibration_curve(probabilities: np.ndarray, y: np.ndarray) -> list[dict[str, Any]]:
    """How often it is so where the student says so: bins of equally many rows by its probability.

    Of two classes the probability is the second's; of more that of the class it calls. mean: of the probabilities;
    rate: of what was so; interval of the rate; rows.
    """
    if probabilities.shape[1] == 2:
        scores, so = probabilities[:, 1], y == 1
    else:
        scores, so = probabilities.max(axis=1), probabilities.argmax(axis=1) == y
    parts = np.array_split(np.argsort(scores, kind="stable"), min(BINS, len(scores)))
    return [
        {
            "mean": float(scores[part].mean()),
            "rate": float(so[part].mean()),
            "interval": wilson(int(so[part].sum()), len(part)),
            "rows": len(part),
        }
        for part in parts
    ]


TOO_SLOW = 'a student of this kind takes long to train again; simulation.hand_labels = "full" does it all the same'
NOT_WANTED = "simulation.hand_labels is none, so that nothing is trained again"


def class_counts(y: np.ndarray, class_names: tuple[str, ...]) -> dict[str, int]:
    """Class -> test rows of it."""
    return dict(zip(class_names, np.bincount(y, minlength=len(class_names)).tolist(), strict=True))


def open_figures(space: Workspace, truth: PublicTruth, student: np.ndarray) -> dict[str, Any]:
    """What the guarantee covers, of a run that has ended; `student` float64 (test, classes): its probabilities.

    test: class -> test rows. student: see `student_figures`. intervals: of its metrics. labels: true class by released
    label, of the answered queries.
    """
    names = truth.schema.classes
    released = pl.read_parquet(space.run_dir / "labels.parquet").filter(pl.col("outcome") == "answered")
    given = np.array([names.index(name) for name in released["label"].to_list()], dtype=np.int64)
    return {
        "test": class_counts(truth.test_y, names),
        "student": student_figures(student, truth.test_y, names),
        "intervals": metric_intervals(student, truth.test_y, names),
        "labels": confusion(truth.labels[released["row"].to_numpy()], given, len(names)),
    }


def learning_curves(
    truth: PublicTruth,
    spec: StudentSpec,
    seed: int,
    mode: HandLabelMode,
    config: FederationConfig,
    answered: GivenAnswers,
    votes: np.ndarray,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """By labels (open) and by epsilon (secret), or {"absent": why}; `votes` int64 (asked, classes), exact."""
    if mode == "none":
        return {"absent": NOT_WANTED}, {"absent": NOT_WANTED}
    width = len(truth.schema.features) if spec.inputs == "features" else truth.schema.inputs(truth.queries[:1]).shape[1]
    whole = effort(spec.trainer, len(truth.queries), width, len(truth.schema.classes), mode)
    if not whole.bisected:
        return {"absent": TOO_SLOW}, {"absent": TOO_SLOW}
    learner = CurveLearner(truth, spec, seed)
    lots = MOST_LOTS if whole.draws > FEWEST_DRAWS else 1
    return by_labels(learner, answered), by_epsilon(learner, config, answered.rows, votes, lots, seed)


def answers(space: Workspace, config: FederationConfig, batches: list[Batch]) -> tuple[GivenAnswers, list[str]]:
    """What the student was answered, in the order in which it asked, and the ids of these queries.

    Rows that are alike are one query: they may stand here several times, and in the ledger once.
    """
    table = pl.read_parquet(space.run_dir / "labels.parquet").filter(pl.col("outcome") != "not_asked")
    names = {name: index for index, name in enumerate(config.rows.classes)}
    labels = np.array([NO_LABEL if name is None else names[name] for name in table["label"].to_list()], dtype=np.int64)
    rows = table["row"].to_numpy()
    if config.disclosure.release is not ReleaseKind.COUNTS:
        return GivenAnswers(rows, labels), table["query_id"].to_list()
    told = {
        query: (counts / total, config.mechanism.count_sigma(config.givers(batch.parties)) / total)
        for batch in batches
        if batch.counts is not None
        for query, counts in zip(batch.query_ids, batch.counts, strict=True)
        for total in (batch.votes or batch.parties * config.teachers_per_party,)
    }
    queries = table["query_id"].to_list()
    shares = Shares(np.array([told[query][0] for query in queries]), np.array([told[query][1] for query in queries]))
    return GivenAnswers(rows, labels, shares), queries


def judged_at_home(
    space: Workspace, case: Case, student: Published, progress: Progress = no_progress
) -> dict[str, Any]:
    """See `at_home`, of the run's parties that trained a teacher."""
    dataset, partition, config = case.dataset, case.partition, case.config
    trained = {
        party: index
        for index, party in enumerate(partition.parties)
        if any((space.home(index) / "state").glob("teachers-*"))
    }
    sizes = {party: len(partition.parties[party]) for party in trained}
    specs = {party: open_home(space.home(index)).teacher or config.teacher for party, index in trained.items()}
    slowest = min(specs.values(), key=most_parties, default=config.teacher)
    most = most_parties(slowest)
    if config.rows.representation != "none":  # of thousands of inputs, which take longer to compute than to learn from
        most = min(most, FEW_PARTIES)
    parties = [
        OwnRows(party, specs[party], dataset.x[rows], dataset.y[rows], dataset.owner[rows])
        for party in chosen(sizes, most)
        for rows in (partition.parties[party],)
    ]
    return at_home(parties, sizes, config.rows, student.predict_proba, slowest, case.seed, progress)


def votes_by_class(votes: np.ndarray, y: np.ndarray) -> list[list[float] | None]:
    """Of each true class (first index) the mean share of the votes that each class got; None without such a query.

    `votes` int64 (asked, classes), `y` int64 (asked,).
    """
    shares = votes / np.maximum(votes.sum(axis=1, keepdims=True), 1)
    return [shares[y == index].mean(axis=0).tolist() if (y == index).any() else None for index in range(votes.shape[1])]
