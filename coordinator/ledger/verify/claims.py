"""Numbers and guarantees that somebody claims, against those that the ledger gives."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from consilium.coordinator.ledger.verify.files import entry
from consilium.coordinator.ledger.verify.findings import Contradiction, Damaged, agree
from consilium.protocol.strict_json import is_infinite

TOLERANCE = 1e-9
"""Relative difference between a claimed and a recomputed number that rounding may explain."""


def same(left: np.ndarray | None, right: np.ndarray | None) -> bool:
    """Whether two float64 arrays are equal up to rounding, or both are not there."""
    if left is None or right is None:
        return left is right
    return left.shape == right.shape and np.allclose(left, right, rtol=TOLERANCE, atol=TOLERANCE)


def number(table: dict[str, Any], name: str, *keys: str) -> float:
    """A number below `keys`, which may be infinite as in `protocol.strict_json`. Raises Damaged where there is none."""
    value = entry(table, name, *keys)
    if is_infinite(entry(table, name, *keys[:-1]) if keys[1:] else table, keys[-1]):
        return math.inf
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        raise Damaged(f"{name}: {'.'.join(keys)} is no number")
    return float(value)


def close_to(what: str, claimed: float, truth: float, *, secret: bool = False) -> None:
    """Raise Contradiction unless the numbers are equal up to rounding. A secret one is not told."""
    if claimed != truth and not math.isclose(claimed, truth, rel_tol=TOLERANCE):
        told = "" if secret else f": claimed {claimed:.6g}, the ledger gives {truth:.6g}"
        raise Contradiction(f"{what} is not the ledger's{told}")


def check_guarantee(name: str, claim: object, truth: dict[str, Any]) -> None:
    """Raise unless a claimed guarantee says what the ledger gives: epsilon, and every word that belongs to it."""
    if not isinstance(claim, dict):
        raise Damaged(f"{name} is no guarantee")
    secret = not truth.get("publishable", False)
    close_to(f"{name}: epsilon", number(claim, name, "epsilon"), number(truth, name, "epsilon"), secret=secret)
    agree(f"{name}: fields", sorted(claim), sorted(truth))
    for key, value in truth.items():
        if key != "epsilon" and claim[key] != value:
            raise Contradiction(f"{name}: {key} is not that of the ledger's guarantee")


def check_claims(name: str, claims: object, truth: dict[str, dict[str, Any]]) -> str:
    """Every guarantee that should be claimed is, and says what the ledger gives; there is no other."""
    if not truth:
        raise Contradiction("the ledger gives no epsilon to compare with")
    if not isinstance(claims, dict):
        raise Damaged(f"{name} has no guarantees")
    agree(f"{name}: its guarantees", sorted(claims), sorted(truth))
    for key, claim in claims.items():
        check_guarantee(f"{name}: {key}", claim, truth[key])
    return ", ".join(claims)
