"""Rounds, batches and the plan: what a student asks, also after a crash, and after others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from consilium.coordinator.config import QueryBudget
from consilium.coordinator.label_service import LabelService
from consilium.coordinator.ledger import Ledger
from consilium.protocol.errors import BudgetExceeded, DataError
from consilium.protocol.label_source import NO_LABEL, Answers, LabelLaw, Outcome
from consilium.protocol.noise import SeededNoise
from consilium.protocol.pool import PoolTree
from consilium.protocol.queries import canonical_queries, query_ids
from consilium.student.pool import Pool
from consilium.student.run import UNKNOWN, AskingPlan, run_student
from consilium.student.selection import choose
from tests.coordinator.labels.test_service import T, Votes
from tests.federation import FEATURES, make_config, make_rows
from tests.specs import student_of
from tests.student.test_run import Source, pool


class Rounds(Source):
    """Remembers requests; reinforces confident predictions, and can break or run out at a given request. What it says
    of the noise takes what the student predicted."""

    def __init__(self, break_at: int = -1, out_at: int = -1, **terms: Any) -> None:
        law = LabelLaw(50, 1.0, threshold=5.0, check_deviation=80.0, predicted=True)
        super().__init__(law=law, **terms)
        self.probabilities: list[np.ndarray | None] = []
        self.break_at, self.out_at = break_at, out_at

    def ask(self, queries, probabilities=None) -> Answers:
        if len(self.asked) == self.break_at:
            raise KeyboardInterrupt
        if len(self.asked) == self.out_at:
            raise BudgetExceeded("nothing is left")
        answers = super().ask(queries)
        self.probabilities.append(probabilities)
        if probabilities is not None:
            sure = (answers.labels == NO_LABEL) & (probabilities.max(axis=1) > 0.9)
            answers.outcomes[sure] = Outcome.REINFORCED
            answers.labels[sure] = probabilities[sure].argmax(axis=1)
        return answers


def test_rounds_send_probabilities_from_the_second_on(tmp_path: Path) -> None:
    source = Rounds()
    spec = student_of(C=1.0, rounds=3, selection="margin")
    result = run_student(source, pool(), spec, tmp_path, seed=0)
    assert [len(asked) for asked in source.asked] == [34, 33, 33]
    assert source.probabilities[0] is None
    for probabilities, asked in zip(source.probabilities[1:], source.asked[1:], strict=True):
        assert probabilities is not None
        assert probabilities.shape == (len(asked), 2)
    rows = np.concatenate(source.asked)
    assert len(np.unique(rows, axis=0)) == 100  # nothing is asked twice
    assert result["reinforced"] > 0
    assert result["answered"] + result["reinforced"] < 100
    frame = pl.read_parquet(tmp_path / "labels.parquet")
    assert frame.filter(pl.col("outcome") == "reinforced")["label"].null_count() == 0
    assert (frame["outcome"] == "reinforced").sum() == result["reinforced"]
    predictions = np.array(frame["predictions"].to_list())
    assert not predictions[:34].any()
    np.testing.assert_array_equal(predictions[34:], np.concatenate([p for p in source.probabilities if p is not None]))


@pytest.mark.parametrize("break_at", [0, 1, 3])
def test_after_a_crash_it_begins_with_what_it_had_decided_to_ask(tmp_path: Path, break_at: int) -> None:
    spec = student_of(C=1.0, queries=60, rounds=3, batch=10, selection="margin")
    broken, again = Rounds(break_at=break_at), Rounds()
    with pytest.raises(KeyboardInterrupt):
        run_student(broken, pool(), spec, tmp_path, seed=0)
    again.queries_left = 7  # most of the cap is spent on what was charged, and free now
    decided = 20 * (break_at // 2 + 1)
    assert run_student(again, pool(), spec, tmp_path, seed=0)["asked"] == decided + 7
    asked = np.concatenate(again.asked)
    assert len(np.unique(asked, axis=0)) == len(asked)
    for before, now in zip(broken.asked, again.asked, strict=False):
        np.testing.assert_array_equal(before, now)


def test_what_others_asked_comes_without_a_prediction_and_the_own_rows_with_theirs(tmp_path: Path) -> None:
    """What others were told hangs on predictions that nobody keeps."""
    source = Rounds(recorded=tuple(query_ids(canonical_queries(pool().queries, 3))[::10]))
    run_student(source, pool(), student_of(C=1.0, queries=30), tmp_path, seed=0)
    predictions = np.array(pl.read_parquet(tmp_path / "labels.parquet")["predictions"].to_list())
    assert (predictions[:10] == UNKNOWN).all()
    np.testing.assert_array_equal(predictions[10:], source.probabilities[1])


ROWS = canonical_queries(make_rows(100, 5)[0], 3)
IDS = query_ids(ROWS)


def served(fixed: bool = True, spent: tuple[str, ...] = ()) -> LabelService:
    """A label service over a pool of 100 rows with a cap of 60 queries."""
    config = make_config(query_budget=QueryBudget(queries=60, answers=60))
    fixed_pool = PoolTree.of_rows(ROWS) if fixed else None
    return LabelService(config, Ledger.in_memory(config), Votes(), SeededNoise, T, pool=fixed_pool, spent_before=spent)


def ask(source: LabelService, out: Path, seed: int, **settings: Any) -> tuple[int, list[str]]:
    """How many rows a student got an outcome for, and what it was told."""
    told: list[str] = []
    result = run_student(source, Pool(FEATURES, ROWS), student_of(C=1.0, **settings), out, seed, tell=told.append)
    return result["asked"], told


@pytest.mark.parametrize("seed", [0, 1])
def test_the_second_student_gets_what_the_first_asked_and_what_is_left(tmp_path: Path, seed: int) -> None:
    """45 labels instead of 150: what was left was all that it asked for, and the first of them were recorded ones."""
    service = served()
    assert ask(service, tmp_path / "1", 0, queries=45) == (45, [])
    found = ask(service, tmp_path / "2", seed)
    assert found == (60, ["45 public rows were asked before: their outcomes are free; 15 queries are left"])
    assert service.describe().queries_left == 0
    assert ask(service, tmp_path / "3", 7)[0] == 60  # the query budget is used up, and all of it is still free


def test_without_a_fixed_pool_nobody_is_told_what_others_asked(tmp_path: Path) -> None:
    service = served(fixed=False)
    ask(service, tmp_path / "1", 0, queries=45)
    assert service.describe().recorded == ()
    assert ask(service, tmp_path / "2", 1, queries=15) == (15, [])


def test_rows_of_an_earlier_federation_are_left_out_and_refused_and_so_are_other_rows(tmp_path: Path) -> None:
    service = served(spent=tuple(IDS[:90]))
    asked, told = ask(service, tmp_path / "1", 0)
    assert (asked, told) == (10, ["90 rows were answered in an earlier federation of these parties and are left out"])
    terms = service.describe()
    assert ({*terms.spent}, {*terms.recorded}) == ({*IDS[:90]}, {*IDS[90:]})
    with pytest.raises(DataError, match=r"2 of 4 queries were answered in an earlier federation.*first: row 0"):
        service.ask(ROWS[[0, 95, 96, 3]])
    with pytest.raises(DataError, match=r"1 of 2 queries are none of the public rows .*first: row 1"):
        service.ask(np.stack([ROWS[95], ROWS[96] + 1]))
    assert service.describe().queries_left == terms.queries_left
    assert len(service.ask(ROWS[90:])) == 10  # its own are free as ever


def test_caps_that_run_out_end_the_asking(tmp_path: Path) -> None:
    spec = student_of(C=1.0, queries=60, batch=20)
    result = run_student(Rounds(out_at=2), pool(), spec, tmp_path, seed=0)
    assert result["asked"] == 40
    (tmp_path / "other").mkdir()
    with pytest.raises(BudgetExceeded):
        run_student(Rounds(out_at=0), pool(), spec, tmp_path / "other", seed=0)


@pytest.mark.parametrize("content", ["{", '{"federation": "f"}', '{"federation": "x", "rows": [1]}'])
def test_damaged_plans_are_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "plan.json").write_text(content)
    with pytest.raises(DataError, match=r"damaged|another federation"):
        AskingPlan(tmp_path / "plan.json", "f")


PROBABILITIES = np.array([[0.5, 0.5, 0.0], [0.9, 0.05, 0.05], [0.4, 0.3, 0.3], [0.49, 0.02, 0.49], [0.6, 0.2, 0.2]])


def test_the_doubtful_come_first() -> None:
    rows, generator = np.zeros((5, 1)), np.random.default_rng(0)
    chosen = choose("margin", np.arange(5), 5, rows, np.zeros(0, int), PROBABILITIES, generator, np.arange(5))
    assert sorted(chosen) == list(range(5))
    assert set(chosen[:2]) == {0, 3} and chosen[-1] == 1


SIZES = (80, 60, 50, 30)
BOUNDS = np.array([0, 80, 140, 190, 220])


def crowds(seed: int = 0) -> np.ndarray:
    """Four crowds of 80, 60, 50 and 30 rows, and ten rows far from all and from each other."""
    generator = np.random.default_rng(seed)
    places = np.eye(4, 6) * 10
    inside = [place + generator.normal(size=(size, 6)) for place, size in zip(places, SIZES, strict=True)]
    return np.concatenate([*inside, generator.normal(size=(10, 6)) * 60])


def choose_typical(rows: np.ndarray, candidates: np.ndarray, count: int, asked: list[int], seed: int = 0) -> np.ndarray:
    before = np.array(asked, dtype=np.int64)
    generator = np.random.default_rng(seed)
    return choose("typical", candidates, count, rows, before, None, generator, np.arange(len(rows)))


@pytest.mark.parametrize("seed", range(2))
def test_typical_rows_stand_for_the_crowds(seed: int) -> None:
    rows = crowds(seed)
    chosen = choose_typical(rows, np.arange(len(rows)), 8, [], seed)
    assert len(set(chosen.tolist())) == 8
    crowd = np.searchsorted(BOUNDS, chosen, side="right") - 1
    assert set(range(4)) <= set(crowd.tolist())  # every crowd has one
    for index in np.unique(crowd[crowd < 4]):  # and one of its middle, not of its edge
        members = rows[BOUNDS[index] : BOUNDS[index + 1]]
        distance = np.linalg.norm(members - members.mean(axis=0), axis=1)
        first = chosen[crowd == index] - BOUNDS[index]
        assert distance[first].min() < np.quantile(distance, 0.6)


@pytest.mark.parametrize("rows", [np.zeros((2, 3)), np.repeat(np.eye(3), 20, axis=0)[:55]])
@pytest.mark.parametrize("count", [1, 7, 50])
def test_typical_rows_are_enough_whatever_the_rows_are(rows: np.ndarray, count: int) -> None:
    candidates = np.arange(len(rows))[::-1]
    chosen = choose_typical(rows, candidates, min(count, len(rows)), [])
    assert len(chosen) == len(set(chosen.tolist())) == min(count, len(rows))
    assert (choose_typical(rows, candidates, min(count, len(rows)), []) == chosen).all()
