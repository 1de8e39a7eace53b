"""PATE as a researcher's own script has it: scikit-learn, one process, no messages, no files, no ledger, no analysis.

    python -m benchmarks.plain_pate ROWS.npz

ROWS has x, y and party of all private rows, and pool, test and truth. One JSON object is printed: seconds of each
phase, and the student's AUC. A teacher of each party votes for its prediction; noise is added to the counts, and
logistic regression learns from the noisy winners. Only numpy and scikit-learn are imported.
"""

from __future__ import annotations

import json
import sys
import time

QUERIES, SIGMA = 300, 112.1
"""As in the scenario stroke."""


def main(arguments: list[str] | None = None) -> None:
    """Print the seconds."""
    if not arguments:
        print("the other half of `python -m benchmarks.phases`: give it a file of rows")
        return
    marks = [time.perf_counter()]
    import numpy as np
    from sklearn.dummy import DummyClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score

    marks.append(time.perf_counter())
    with np.load(arguments[0]) as rows:
        x, y, party, pool, test, truth = (rows[name] for name in ("x", "y", "party", "pool", "test", "truth"))
    generator = np.random.default_rng(0)
    asked = pool[generator.permutation(len(pool))[:QUERIES]]
    marks.append(time.perf_counter())
    teachers = []
    for each in np.unique(party):
        mine = party == each
        plural = len(np.unique(y[mine])) > 1
        teacher = LogisticRegression(C=0.3, class_weight="balanced") if plural else DummyClassifier()
        teachers.append(teacher.fit(x[mine], y[mine]))
    marks.append(time.perf_counter())
    counts = np.zeros((len(asked), 2))
    for teacher in teachers:
        counts[np.arange(len(asked)), teacher.predict(asked)] += 1
    marks.append(time.perf_counter())
    labels = (counts + generator.normal(0, SIGMA, counts.shape)).argmax(axis=1)
    student = LogisticRegression(C=0.002).fit(asked, labels)
    auc = roc_auc_score(truth, student.predict_proba(test)[:, 1])
    marks.append(time.perf_counter())
    names = ("start", "prepare", "train", "vote", "student")
    seconds = {name: after - before for name, before, after in zip(names, marks, marks[1:], strict=False)}
    print(json.dumps({"seconds": seconds, "auc": float(auc)}))


if __name__ == "__main__":
    main(sys.argv[1:])
