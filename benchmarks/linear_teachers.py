"""Logistic regression as a teacher against scikit-learn's own: votes that differ, and processor time beside it.

    python -m benchmarks.linear_teachers [--rounds 3] [--cases NAME ...]

A teacher of each party by `models.linear` and by `sklearn.linear_model.LogisticRegression`, on the same rows: trained,
its thresholds from the reference rows, pickled, read again, and its votes on the same queries. Milliseconds of
processor time for one teacher, both in turn in one process and on one thread; medians over rounds.
"""

from __future__ import annotations

import argparse
import pickle
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from benchmarks.papers import Place
from consilium.data.private_rows import Rows
from consilium.models.naming import unpickled
from consilium.party.teach import class_shares, train
from consilium.party.voting import Lot, TeacherSet, thresholds_of, votes_of_teachers
from consilium.protocol.queries import canonical_queries, query_ids
from consilium.protocol.teachers import LogisticRegressionSpec
from consilium.protocol.voting_rule import RelativeRule

LINEAR = ("federation.teacher={model='logistic_regression'}",)
PIXELS = ("data.representation=none", "data.standardise=false", "student.trainer={name='graph'}")
CASES: dict[str, tuple[str, tuple[str, ...]]] = {
    "stroke": ("stroke", ()),
    "heart": ("stroke", ("data.set=heart", "data.classes=['none','narrowed']", "federation.minimum_parties=2")),
    "adult, 250 parties": ("adult-250", LINEAR),
    "diabetes": ("diabetes-rf", LINEAR),
    "MNIST, pixels": ("mnist-250", (*LINEAR, *PIXELS)),
    "MNIST, scattering (float32)": ("mnist-250", LINEAR),
}
"""Name -> a scenario and what is changed in it."""


@dataclass(frozen=True)
class Comparison:
    """votes: how many were compared. differing: of them. peer, ours: milliseconds of processor time for one teacher."""

    teachers: int
    votes: int
    differing: int
    peer: float
    ours: float


@dataclass
class _Side:
    """One way to make a teacher, with the time that it took and what its teachers voted."""

    make: Callable[[Rows], Any]
    seconds: float = 0.0
    votes: list[np.ndarray] = field(default_factory=list, repr=False)


def compare(place: Place, parties: int | None = None, queries: int = 1000) -> Comparison:
    """Both kinds of teachers of the first so many parties, on the first so many rows of the pool."""
    spec, rule = place.scenario.federation.teacher, place.scenario.federation.voting_rule
    assert isinstance(spec, LogisticRegressionSpec)
    schema = place.schema
    classes, pool = len(schema.classes), place.pool[:queries]
    reference = place.pool[: rule.reference_rows] if isinstance(rule, RelativeRule) else pool[:0]
    inputs, ids = schema.inputs(pool), query_ids(pool)

    def of_scikit_learn(rows: Rows) -> Any:
        if len(np.unique(rows.y)) < 2:
            return DummyClassifier(strategy="most_frequent").fit(rows.x, rows.y)
        weight = None if spec.class_weight == "none" else spec.class_weight
        return LogisticRegression(C=spec.C, class_weight=weight, max_iter=spec.iterations).fit(rows.x, rows.y)

    sides = [_Side(of_scikit_learn), _Side(lambda rows: train(rows, spec, np.arange(len(rows.y)), 0, classes))]
    chosen = dict(list(place.partition.parties.items())[:parties])
    for name, members in chosen.items():
        x = schema.inputs(canonical_queries(place.dataset.x[members], len(schema.features)))
        rows = Rows(x, place.dataset.y[members])
        for side in sides:
            start = time.process_time()
            teacher = side.make(rows)
            own = class_shares(rows, [np.arange(len(rows.y))], schema)
            limits = thresholds_of([teacher], schema, rule, reference, own)
            loaded = TeacherSet(schema, "", "", [unpickled(pickle.dumps(teacher))], limits)
            side.votes.append(votes_of_teachers(loaded, inputs, Lot(name, "f" * 64, ids)))
            side.seconds += time.process_time() - start
    theirs, ours = (np.concatenate(side.votes) for side in sides)
    spent = [1000 * side.seconds / len(chosen) for side in sides]
    return Comparison(len(chosen), theirs.size, int((theirs != ours).sum()), *spent)


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Logistic regression as a teacher, beside scikit-learn's.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cases", nargs="*", default=list(CASES), choices=list(CASES))
    chosen = parser.parse_args(arguments or [])
    print("| | teachers | votes | differ | scikit-learn, ms | ms | ratio |\n|---|---|---|---|---|---|---|")
    with threadpool_limits(1):
        for name in chosen.cases:
            scenario, changes = CASES[name]
            place = Place(scenario, 0, changes)
            found = [compare(place) for _ in range(chosen.rounds)]
            peer, ours = (statistics.median(getattr(each, side) for each in found) for side in ("peer", "ours"))
            first = found[0]
            print(
                f"| {name} | {first.teachers} | {first.votes:,} | {first.differing} | {peer:.2f} | {ours:.2f} |"
                f" {ours / peer:.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main(sys.argv[1:])
