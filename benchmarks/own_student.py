"""How a student that others wrote learns best from noisy histograms: labels, weights, or copies of rows.

    python -m benchmarks own_student

The stroke trial: 800 public rows, of which 400 are asked; 100 teachers, logistic regressions on equal parts of the
private rows; AUC on 4,000 rows apart from both. Noise is given as a share of the votes.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
from lightgbm import LGBMClassifier
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier

from consilium.models.base import Shares
from consilium.models.evaluation import area_under_curve
from consilium.models.guard import weight_key
from consilium.models.own_model import copied_labels
from consilium.models.shares import denoise
from consilium.models.tabular import weighted_labels
from consilium.simulations.datasets.source import load_dataset

PUBLIC, ASKED, TEST, TEACHERS = 800, 400, 4000, 100
NOISE, DRAWS = (0.1, 0.4), 3
STUDENTS: dict[str, Callable[[], Any]] = {
    "LightGBM": lambda: LGBMClassifier(verbose=-1, n_jobs=1, random_state=0),
    "histogram boosting": lambda: HistGradientBoostingClassifier(random_state=0),
    "naive Bayes": GaussianNB,
    "25 neighbours": lambda: KNeighborsClassifier(25),
    "extra trees": lambda: ExtraTreesClassifier(200, min_samples_leaf=5, random_state=0),
}


def main() -> None:
    """Print the mean AUC of each student, noise and way to learn."""
    warnings.simplefilter("ignore")
    data = load_dataset("stroke")
    found: dict[tuple[float, str, str], list[float]] = defaultdict(list)
    for draw in range(DRAWS):
        generator = np.random.default_rng(draw)
        order = generator.permutation(len(data.y))
        x, y = np.nan_to_num(data.x[order].astype(np.float64)), data.y[order]
        scale = x[:PUBLIC].std(axis=0)
        x = (x - x[:PUBLIC].mean(axis=0)) / np.where(scale > 0, scale, 1)
        rows, test, test_y = x[:PUBLIC], x[PUBLIC : PUBLIC + TEST], y[PUBLIC : PUBLIC + TEST]
        votes = np.zeros((ASKED, 2))
        for part in np.array_split(np.arange(PUBLIC + TEST, len(y)), TEACHERS):
            said = LogisticRegression(C=0.1, max_iter=200).fit(x[part], y[part]).predict(rows[:ASKED])
            votes[np.arange(ASKED), said] += 1
        for noise in NOISE:
            told = Shares(votes / TEACHERS + generator.normal(size=votes.shape) * noise, np.full(ASKED, noise))
            shares = denoise(rows[:ASKED], told, rows, draw)
            for name, make in STUDENTS.items():
                learnt = {
                    "noisy winners": make().fit(rows[:ASKED], told.shares.argmax(axis=1)),
                    "likelier class": make().fit(rows, shares.argmax(axis=1)),
                    "copies": make().fit(*copied_labels(rows, shares)),
                }
                if weight_key(make()):
                    weighted, labels, weights = weighted_labels(rows, shares)
                    learnt["weights"] = make().fit(weighted, labels, sample_weight=weights)
                for how, model in learnt.items():
                    auc = area_under_curve(model.predict_proba(test)[:, 1], test_y == 1)
                    found[noise, name, how].append(auc)
    for (noise, name, how), scores in found.items():
        print(f"noise {noise:g} of the votes  {name:20} {how:15} AUC {np.mean(scores):.3f}")


if __name__ == "__main__":
    main()
