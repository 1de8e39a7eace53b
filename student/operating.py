"""The operating point of a student of two classes: above which probability a row is flagged as the last class."""

from __future__ import annotations

from typing import Any

import numpy as np

DECLARED = "declared prevalence"
"""How a threshold was chosen, if not as one half."""

EVEN = 0.5
"""The threshold where nobody has declared how frequent the classes are."""

SPECIFICITIES = (0.8, 0.9)
"""At which the recall is reported: for the reader to compare with other models, nothing is chosen by it."""


def threshold_for(scores: np.ndarray, share: float) -> float:
    """The threshold above which the share of `scores` float64 (n,) in [0, 1] is as close to `share` as ties allow.

    It lies half-way between two scores, so that rounding moves no row across it.

    >>> round(threshold_for(np.array([0.1, 0.2, 0.4, 0.8]), 0.25), 3), threshold_for(np.array([0.3, 0.3]), 0.1)
    (0.6, 0.65)
    """
    values, counts = np.unique(scores, return_counts=True)
    above = len(scores) - np.concatenate([[0], np.cumsum(counts)])  # rows above a threshold just below value i
    at = int(np.argmin(np.abs(above - share * len(scores))))
    bounds = np.concatenate([[0.0], values, [1.0]])
    return float((bounds[at] + bounds[at + 1]) / 2)


def at_threshold(scores: np.ndarray, positive: np.ndarray, threshold: float) -> dict[str, float | None]:
    """Flagged share, recall, specificity and precision: scores float64 (n,), `positive` bool (n,).

    None where there is nothing to take a share of.
    """
    flagged = scores > threshold
    return {
        "flagged": float(flagged.mean()),
        "recall": _share(flagged[positive]),
        "specificity": _share(~flagged[~positive]),
        "precision": _share(positive[flagged]),
    }


def recall_at_specificity(scores: np.ndarray, positive: np.ndarray, least: float) -> float | None:
    """The largest recall of any threshold that leaves a share of `least` of the others unflagged.

    None where one of the two kinds does not occur.

    >>> recall_at_specificity(np.array([0.1, 0.2, 0.3, 0.4, 0.9]), np.array([False, False, False, True, True]), 0.9)
    1.0
    """
    if positive.all() or not positive.any():
        return None
    others = np.sort(scores[~positive])[::-1]
    may_be_flagged = int((1 - least) * len(others) + 1e-9)
    return 1.0 if may_be_flagged == len(others) else float((scores[positive] > others[may_be_flagged]).mean())


def operating_point(
    probabilities: np.ndarray, y: np.ndarray, class_names: tuple[str, ...], threshold: float | None
) -> dict[str, Any] | None:
    """What the threshold does on labelled rows; None where there are not two classes.

    `probabilities` float64 (n, 2), `y` int64 (n,). threshold: the declared prevalence's, None where none is declared.
    """
    if len(class_names) != 2:
        return None
    scores, positive, used = probabilities[:, 1], y == 1, EVEN if threshold is None else threshold
    return {
        "class": class_names[1],
        "threshold": used,
        "by": "one half" if threshold is None else DECLARED,
        **at_threshold(scores, positive, used),
        "recall_at_specificity": {f"{at:g}": recall_at_specificity(scores, positive, at) for at in SPECIFICITIES},
    }


def _share(of: np.ndarray) -> float | None:
    return float(of.mean()) if len(of) else None
