"""How far teachers agree beyond chance: Cohen's kappa in the mean over all pairs of teachers, and Fleiss' of all.

Cohen, A coefficient of agreement for nominal scales, 1960; Fleiss, Measuring nominal scale agreement among many raters,
1971. kappa = (agreement - chance) / (1 - chance): 0 where teachers agree as often as two that vote independently with
the same shares of classes, 1 where they always do. A vote that is shared among classes (`measures.spoken`) agrees with
another as often as two independent lots would.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from consilium.simulations.study.measures.spoken import shares_for
from consilium.simulations.study.said import Said

MOST_OPERATIONS = 1e11
"""Floating point operations, some seconds, of all pairs; else they are compared on fewer rows, by lot."""
_PURPOSE = 0x6B617070


@dataclass(frozen=True)
class Kappas:
    """agreement: mean over pairs of the share of rows on which they say the same. cohen: mean over the pairs whose
    kappa exists (not where both always say the same one class), NaN where none does. fleiss: NaN where all say one
    class. pairs: share of pairs whose kappa exists. by_party: float64 (parties,), mean over the pairs of one of its
    teachers with one of another party; NaN where none exists.
    """

    agreement: float
    cohen: float
    fleiss: float
    pairs: float
    by_party: np.ndarray = field(repr=False)


def agreement(said: Said, classes: int, seed: int) -> Kappas:
    """Of at least two teachers, on at least one row. Counts are products of matrices, not loops over pairs."""
    parties, each, rows = said.said.shape
    teachers = parties * each
    most = int(MOST_OPERATIONS / (2.0 * teachers**2 * classes))
    taken = np.arange(rows)
    if most < rows:
        taken = np.sort(np.random.default_rng([seed, _PURPOSE]).permutation(rows)[: max(most, 1)])
    same, chance = np.zeros((teachers, teachers)), np.zeros((teachers, teachers))
    together, alone, expected = 0.0, 0.0, 0.0
    for label in range(classes):
        votes = shares_for(said, label).reshape(teachers, rows)[:, taken]
        same += votes @ votes.T / len(taken)
        shares = votes.mean(axis=1, dtype=np.float64)
        chance += np.outer(shares, shares)
        together += float((votes.sum(axis=0, dtype=np.float64) ** 2).sum())
        alone += float((votes.astype(np.float64) ** 2).sum())
        expected += shares.mean() ** 2
    pairs = np.triu(np.ones((teachers, teachers), dtype=bool), 1)
    kappa, exists = _kappa(same, chance)
    observed = (together - alone) / (len(taken) * teachers * (teachers - 1))
    fleiss, has_fleiss = _kappa(np.array(observed), np.array(expected))
    party = np.repeat(np.arange(parties), each)
    return Kappas(
        agreement=float(same[pairs].mean()),
        cohen=float(kappa[pairs & exists].mean()) if (pairs & exists).any() else float("nan"),
        fleiss=float(fleiss) if has_fleiss else float("nan"),
        pairs=float(exists[pairs].mean()),
        by_party=_by_party(np.where(exists, kappa, 0), exists & (party[:, None] != party), parties, each),
    )


def _kappa(same: np.ndarray, chance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Kappa, and where it exists."""
    exists = chance < 1 - 1e-9
    return (same - chance) / np.where(exists, 1 - chance, 1), exists


def _by_party(kappa: np.ndarray, counts: np.ndarray, parties: int, each: int) -> np.ndarray:
    total = (kappa * counts).sum(axis=1).reshape(parties, each).sum(axis=1)
    pairs = counts.sum(axis=1).reshape(parties, each).sum(axis=1)
    return np.where(pairs > 0, total / np.maximum(pairs, 1), np.nan)
