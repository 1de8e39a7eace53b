"""What parties gain on their own rows: each row is judged by a teacher that has not seen it, and none is left out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from consilium.models.keys import LogisticRegressionSpec, MlpSpec
from consilium.protocol.schema import Schema
from consilium.simulations import own_rows as module
from consilium.simulations.own_rows import LEAST_ROWS, OwnRows, at_home, chosen

SPEC = LogisticRegressionSpec()


def parties(sizes: list[int], classes: int = 2, signal: float = 1.0, seed: int = 0) -> tuple[list[OwnRows], Schema]:
    generator = np.random.default_rng(seed)
    found = []
    for index, size in enumerate(sizes):
        y = generator.integers(classes, size=size)
        x = generator.normal(size=(size, 4)) + signal * np.eye(4)[y]
        found.append(OwnRows(f"p{index}", SPEC, x.astype(np.float32), y, np.zeros(size, dtype=np.int64)))
    rows = np.concatenate([party.x for party in found])
    names = tuple(f"class {index}" for index in range(classes))
    return found, Schema.from_public_rows(("a", "b", "c", "d"), names, rows.astype(np.float64))


def told(found: list[OwnRows], schema: Schema, student: Any) -> dict[str, Any]:
    return at_home(found, {party.name: len(party.y) for party in found}, schema, student, SPEC, 0)


def by_truth(classes: int) -> Any:
    """Scores by the features that made the classes: as good as can be."""
    return lambda rows: np.exp(rows[:, :classes]) / np.exp(rows[:, :classes]).sum(axis=1, keepdims=True)


def by_chance(rows: np.ndarray) -> np.ndarray:
    return np.full((len(rows), 2), 0.5)


def test_small_parties_gain_and_large_ones_hardly() -> None:
    found, schema = parties([8] * 12 + [400] * 4)
    result = told(found, schema, by_truth(2))
    small, large = (np.mean([more for rows, more in result["by_party"] if rows == size]) for size in (8, 400))
    assert small > 0.05 > abs(large)
    assert (result["metric"], result["judged"], result["parties"]) == ("auc", 16, 16)


def test_a_student_that_knows_nothing_loses() -> None:
    found, schema = parties([200] * 6)
    whole = told(found, schema, by_chance)["all"]
    assert whole["student"] == 0.5 and whole["interval"][1] < 0


@pytest.mark.parametrize("classes", [2, 3])
def test_every_party_is_judged_from_small_to_large(classes: int) -> None:
    sizes = [7, 9, 30, 31, 60, 100, 100]
    found, schema = parties(sizes[::-1], classes)
    result = told(found, schema, by_truth(classes))
    assert [rows for rows, _ in result["by_party"]] == sizes
    assert result["metric"] == ("auc" if classes == 2 else "accuracy")


def test_no_row_is_in_its_own_training(monkeypatch: pytest.MonkeyPatch) -> None:
    found, schema = parties([25])
    seen: list[np.ndarray] = []
    real = module.fit_teachers

    def spy(spec: Any, rows: Any, parts: Any, seeds: Any, classes: int) -> Any:
        seen.append(parts[0])
        return real(spec, rows, parts, seeds, classes)

    monkeypatch.setattr(module, "fit_teachers", spy)
    told(found, schema, by_truth(2))
    assert len(seen) == module.FOLDS
    left_out = np.concatenate([np.setdiff1d(np.arange(25), part) for part in seen])
    assert sorted(left_out.tolist()) == list(range(25))


def test_rows_of_one_patient_are_held_out_together() -> None:
    owner = np.repeat(np.arange(10), 3)
    folds = module._folds(owner, 0)
    for fold in folds:
        rest = np.setdiff1d(np.arange(30), fold)
        assert not set(owner[fold]) & set(owner[rest])
    assert sorted(np.concatenate(folds).tolist()) == list(range(30))


def test_parties_of_one_class_and_tiny_ones_are_counted_and_do_no_harm() -> None:
    found, schema = parties([40, 40, 40])
    one_class = OwnRows("single", SPEC, found[0].x, np.zeros(40, dtype=np.int64), found[0].owner)
    sizes = {"p0": 40, "p1": 40, "p2": 40, "single": 40, "tiny": 1, "small": LEAST_ROWS - 1}
    result = at_home([*found, one_class], sizes, schema, by_truth(2), SPEC, 0)
    assert (result["judged"], result["too_small"], result["parties"]) == (3, 2, 6)


@pytest.mark.parametrize(
    ("spec", "sizes", "why"),
    [(MlpSpec(), {"a": 100}, "take long to train again"), (SPEC, {"a": 2, "b": 5}, "no 6 rows")],
)
def test_why_there_is_none(spec: Any, sizes: dict[str, int], why: str) -> None:
    _, schema = parties([10])
    assert chosen(sizes, module.most_parties(spec)) == []
    assert why in at_home([], sizes, schema, by_chance, spec, 0)["absent"]


def test_none_where_no_party_has_both_classes() -> None:
    found, schema = parties([10])
    only = OwnRows("only", SPEC, found[0].x, np.zeros(10, dtype=np.int64), found[0].owner)
    assert "two classes" in at_home([only], {"only": 10}, schema, by_chance, SPEC, 0)["absent"]
