"""The parts of a plan against what they stand for: facts, students in closed form, made-up tasks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from consilium.coordinator.planning.facts import MOST_ROWS, PublicFacts
from consilium.coordinator.planning.plan import Interval
from consilium.coordinator.planning.rehearsal import Fitted, auc, made_up
from consilium.coordinator.planning.tasks import PRIOR, FeatureMap, TaskMaker, TaskPrior
from consilium.protocol.errors import ConfigError


def rows(count: int = 300, inputs: int = 6) -> np.ndarray:
    return np.random.default_rng(5).standard_normal((count, inputs)) * np.linspace(2, 0.5, inputs)


def facts(parties: int = 60, classes: int = 2, **changes: object) -> PublicFacts:
    return replace(PublicFacts.of(parties, 1, classes, "likeliest", rows()), **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("parties", "teachers", "classes", "pool", "said"),
    [
        (1, 1, 2, rows(), "at least 2 parties, not 1"),
        (5, 0, 2, rows(), "at least 1 teachers per party, not 0"),
        (5, 1, 1, rows(), "at least 2 classes, not 1"),
        (5, 1, 2, rows(1), "at least 2 different public rows, not 1"),
        (5, 1, 2, np.ones((9, 3)), "at least 2 different public rows, not 1"),
        (5, 1, 2, np.column_stack([np.arange(4.0), np.full(4, np.nan)]), "missing values"),
        (5, 1, 2, np.arange(9.0), "have shape"),
    ],
)
def test_facts_that_nothing_can_be_planned_from(parties, teachers, classes, pool, said) -> None:
    with pytest.raises(ConfigError, match=said):
        PublicFacts.of(parties, teachers, classes, "likeliest", pool)


def test_a_large_pool_is_looked_at_in_part_and_represented_once() -> None:
    seen = []

    def represent(part: np.ndarray) -> np.ndarray:
        seen.append(len(part))
        return part * 2

    pool = np.arange(2.0 * (MOST_ROWS + 7)).reshape(-1, 2)
    found = PublicFacts.of(5, 3, 2, "likeliest", pool, represent)
    assert (seen, found.available, found.rows.shape, found.votes) == ([MOST_ROWS], len(pool), (MOST_ROWS, 2), 15)
    assert set(map(tuple, found.rows)) <= set(map(tuple, pool * 2))


def test_equal_rows_are_planned_for_once() -> None:
    """They are asked, and paid for, once."""
    pool = np.arange(20.0).reshape(-1, 2)
    twice = PublicFacts.of(5, 3, 2, "likeliest", np.concatenate([pool, pool]))
    assert (twice.available, twice.different, twice.public_rows) == (20, 10, "20 public rows, 10 of them different")
    assert sorted(map(tuple, twice.rows)) == sorted(map(tuple, pool))
    assert PublicFacts.of(5, 3, 2, "likeliest", pool).public_rows == "10 public rows"


def test_a_student_of_labels_is_ridge_regression() -> None:
    x, new = rows(80), rows(30)
    labels = np.random.default_rng(1).integers(0, 3, 80)
    labels[::4] = -1
    known = labels >= 0
    for given, asked in ((labels, x), (labels[known], x[known])):
        (scores,) = Fitted.of(asked, new).from_labels(given, 3, [7.0])
        targets = np.eye(3)[labels[known]]
        mean = targets.mean(axis=0)
        weights = np.linalg.solve(x[known].T @ x[known] + 7 * np.eye(6), x[known].T @ (targets - mean))
        np.testing.assert_allclose(scores, mean + new @ weights, atol=1e-10)


def test_a_student_of_no_labels_knows_nothing() -> None:
    scores = list(Fitted.of(rows(9), rows(4)).from_labels(np.full(9, -1), 2, [1.0, 2.0]))
    assert [each.tolist() for each in scores] == [np.zeros((4, 2)).tolist()] * 2


def test_a_student_of_shares_without_noise_is_least_squares() -> None:
    x, new = rows(200), rows(50)
    x -= x.mean(axis=0)
    first = 0.5 + x @ np.linspace(-0.05, 0.05, 6)
    scores = Fitted.of(x, new).from_shares(np.column_stack([first, 1 - first]), 1e-6)
    np.testing.assert_allclose(scores[:, 0], 0.5 + new @ np.linspace(-0.05, 0.05, 6), atol=1e-4)


def test_a_student_of_shares_under_much_noise_says_the_mean() -> None:
    generator = np.random.default_rng(2)
    shares = 0.5 + 1e-3 * generator.standard_normal((200, 2))
    scores = Fitted.of(rows(200), rows(50)).from_shares(shares, 1e3)
    np.testing.assert_allclose(scores, np.tile(scores[:1], (50, 1)), atol=1e-3)


def test_what_shares_sum_to_beyond_one_is_noise_and_changes_nothing() -> None:
    x, generator = rows(200), np.random.default_rng(3)
    shares = generator.dirichlet([2, 1, 1], 200)
    offset = generator.standard_normal((200, 1))
    fitted = Fitted.of(x, rows(20))
    np.testing.assert_allclose(fitted.from_shares(shares + offset, 0.3), fitted.from_shares(shares, 0.3), atol=1e-10)


@pytest.mark.parametrize(
    ("scores", "truth", "expected"),
    [
        ([1, 2, 3, 4], [0, 0, 1, 1], 1.0),
        ([4, 3, 2, 1], [0, 0, 1, 1], 0.0),
        ([1, 1, 1, 1], [0, 1, 0, 1], 0.5),
        ([1, 2, 2, 3], [0, 0, 1, 1], 0.875),
        ([1, 2], [1, 1], 0.5),
    ],
)
def test_auc(scores, truth, expected) -> None:
    assert auc(np.array(scores, dtype=float), np.array(truth, dtype=bool)) == expected


def drawn(prior: TaskPrior, known: PublicFacts, seed: int):
    features = FeatureMap.of(known.rows)
    return TaskMaker(known, features, known.rows, prior).draw(np.random.default_rng(seed))


@pytest.mark.parametrize("voting_rule", ["likeliest", "balanced", "relative"])
@pytest.mark.parametrize("classes", [2, 4])
def test_every_teacher_of_a_task_votes_once(voting_rule, classes) -> None:
    known = facts(parties=73, classes=classes, voting_rule=voting_rule)
    task = drawn(PRIOR, known, 0)
    assert set(task.votes.sum(axis=1)) == set(task.judged_votes.sum(axis=1)) == {73}
    assert task.truth.max() < classes


def test_teachers_that_see_the_truth_agree_on_it() -> None:
    """Separation .95 and next to no change: the plurality's AUC is close to the truth's own (300 rows: +-.03)."""
    sharp = replace(PRIOR, separation=(0.95, 0.95), rarest=(0.5, 0.5), shared=(0.0, 0.0), teacher=(0.3, 0.3))
    found = [drawn(sharp, facts(), seed) for seed in range(8)]
    scores = [auc(task.judged_votes[:, 1].astype(float), task.truth == 1) for task in found]
    assert 0.9 < np.mean(scores) < 0.97


def test_the_rarer_class_has_its_share() -> None:
    rare = replace(PRIOR, rarest=(0.1, 0.1))
    shares = [np.bincount(drawn(rare, facts(), seed).truth, minlength=2).min() / 300 for seed in range(20)]
    assert 0.07 < np.mean(shares) < 0.13  # mean of 20 x 300 draws of .1, +-.004


def test_balanced_teachers_vote_for_a_rare_class_and_others_hardly() -> None:
    rare = replace(PRIOR, rarest=(0.06, 0.06), separation=(0.7, 0.7), teacher=(0.5, 0.5))

    def rarer(voting_rule: str) -> float:
        votes = [drawn(rare, facts(voting_rule=voting_rule), seed).votes.sum(axis=0) for seed in range(10)]
        return float(np.mean([each.min() / each.sum() for each in votes]))

    assert rarer("likeliest") < 0.05
    assert rarer("balanced") > 0.3
    assert rarer("relative") == pytest.approx(0.5, abs=0.02)


def test_the_same_facts_give_the_same_tasks() -> None:
    first, second = (made_up(facts(), FeatureMap.of(rows()), draws=3) for _ in range(2))
    for one, other in zip(first.tasks, second.tasks, strict=True):
        assert one.votes.tolist() == other.votes.tolist()
        assert one.truth.tolist() == other.truth.tolist()


def test_rows_that_models_see_alike_can_be_looked_at() -> None:
    known = PublicFacts.of(10, 1, 2, "likeliest", np.arange(60.0).reshape(20, 3), np.ones_like)
    assert made_up(known, FeatureMap.of(known.rows), draws=1).tasks[0].votes.sum() == 200


def test_an_interval_leaves_out_as_much_on_each_side() -> None:
    found = Interval.of(np.append(np.arange(101.0), np.nan))
    assert found is not None
    assert (found.low, found.median, found.high) == pytest.approx((2.5, 50.0, 97.5))
    assert Interval.of(np.array([np.nan])) is None
