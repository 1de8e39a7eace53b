"""From scores to votes: one vote of each teacher, relative to its own scores, and ties that favour no class."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from consilium.data.private_rows import Rows
from consilium.models.keys import EstimatorSpec, TeacherKind
from consilium.models.table import fit_teachers
from consilium.party.node import PartyNode
from consilium.party.voting import Lot, TeacherSet, class_scores, thresholds_of, votes_of_teachers
from consilium.protocol.choices import counted
from consilium.protocol.queries import canonical_queries, query_ids
from consilium.protocol.refusals import Rule
from consilium.protocol.schema import Schema
from consilium.protocol.voting_rule import RelativeRule, TopRule, VotingRule
from tests.federation import cast, hello_of, make_home, make_relative, make_rows, node_at, vote_request
from tests.party.test_node import refused
from tests.specs import teacher_of

KINDS: dict[str, TeacherKind] = {
    **{name: teacher_of(name, trees=7, epochs=3) for name in ("logistic_regression", "random_forest", "ridge")},
    "own, without": EstimatorSpec(factory="sklearn.svm.SVC"),
}
WIDTH = 3


def schema_of(classes: int) -> Schema:
    names = tuple(f"class {index}" for index in range(classes))
    return Schema(features=("a", "b", "c"), classes=names, center=(0, 0, 0), scale=(1, 1, 1))


def public(count: int, seed: int = 5) -> np.ndarray:
    return canonical_queries(np.random.default_rng(seed).normal(size=(count, WIDTH)), WIDTH)


def trained_labels(labels: list[int] | None, classes: int = 2) -> np.ndarray:
    generator = np.random.default_rng(1)
    x = generator.normal(size=(80, WIDTH))
    y = np.minimum((np.maximum(x[:, 0] + generator.normal(size=80) / 2 - 0.4, 0) * 2).astype(np.int64), classes - 1)
    return y if labels is None else np.resize(np.array(labels), 80)


def trained(
    spec: TeacherKind, voting_rule: VotingRule, labels: list[int] | None = None, classes: int = 2, teachers: int = 2
) -> TeacherSet:
    """Teachers on halves of 80 rows, of which few have the last class; or all with the labels that are given."""
    x, y = np.random.default_rng(1).normal(size=(80, WIDTH)), trained_labels(labels, classes)
    parts = np.array_split(np.arange(80), teachers)
    made = fit_teachers(spec, Rows(x, y), parts, list(range(teachers)), classes)
    schema = schema_of(classes)
    reference = public(voting_rule.reference_rows or 1)
    return TeacherSet(schema, "", "", made, thresholds_of(made, schema, voting_rule, reference))


def lot(rows: np.ndarray, party: str = "p", federation: str = "f" * 64) -> Lot:
    return Lot(party, federation, query_ids(rows))


@pytest.mark.parametrize("kind", KINDS)
def test_of_two_classes_the_second_is_voted_for_where_its_log_odds_exceed_the_quantile(kind: str) -> None:
    made = trained(KINDS[kind], RelativeRule(quantile=0.5, reference=101))
    x = public(300, seed=8)
    for teacher, said in zip(made.teachers, votes_of_teachers(made, x, lot(x)), strict=True):
        known, asked = (np.diff(class_scores(teacher, rows), axis=1)[:, 0] for rows in (public(101), x))
        margin = asked - np.quantile(known, 0.5)
        clear = np.abs(margin) > 1e-9
        assert (said[clear] == (margin[clear] > 0)).all()
        assert clear.any()


@pytest.mark.parametrize("voting_rule", [TopRule(), RelativeRule(reference=50), RelativeRule(quantile=0.9)])
@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("kind", KINDS)
def test_each_teacher_has_one_vote_for_each_query(kind: str, classes: int, voting_rule: VotingRule) -> None:
    made = trained(KINDS[kind], voting_rule, classes=classes)
    x = public(60, seed=9)
    votes = cast(made, x, lot(x))
    assert votes.shape == (60, classes)
    assert votes.dtype == np.int64
    assert (votes >= 0).all() and (votes.sum(axis=1) == 2).all()


@pytest.mark.parametrize("kind", KINDS)
def test_votes_do_not_depend_on_what_else_is_asked(kind: str) -> None:
    made = trained(KINDS[kind], RelativeRule(reference=51), classes=3)
    x = public(64, seed=9)
    whole = cast(made, x, lot(x))
    for part in (slice(0, 1), slice(5, 24), slice(63, 64)):
        assert (cast(made, x[part], lot(x[part])) == whole[part]).all()


def test_a_teacher_of_one_class_abstains_in_effect() -> None:
    """Its votes are those of any other such teacher, whatever the class, and of all classes alike; by the top rule it
    votes for the one that it knows. 4 standard deviations on either side of a fair lot, which is fixed."""
    x = public(4000, seed=9)
    for classes in (2, 5):
        cases = [trained(KINDS["ridge"], RelativeRule(), [label], classes, 1) for label in (0, 1)]
        first, second = (cast(made, x, lot(x)) for made in cases)
        assert (first == second).all()
        share = 1 / classes
        spread = np.sqrt(share * (1 - share) / len(x))
        np.testing.assert_allclose(first.mean(axis=0), share, atol=4 * spread)
        top = cast(trained(KINDS["ridge"], TopRule(), [1], classes, 1), x, lot(x))
        assert (top[:, 1] == 1).all()


def test_the_lot_is_another_for_each_party_teacher_federation_and_query() -> None:
    made = trained(KINDS["ridge"], RelativeRule(), [0])  # two teachers
    x = public(200, seed=9)
    said = [votes_of_teachers(made, x, each) for each in (lot(x), lot(x), lot(x, "other"), lot(x, federation="e" * 64))]
    assert (said[0] == said[1]).all()
    columns = [said[0][0], said[0][1], said[2][0], said[3][0]]
    agreement = np.array([[(one == two).mean() for one in columns] for two in columns])
    assert ((agreement > 0.3) & (agreement < 0.7)).sum() == 12  # all but the diagonal: 5.6 standard deviations


def test_equal_scores_of_trees_are_decided_by_the_lot_and_not_by_the_order_of_classes() -> None:
    """A stump has two scores: the median is one of them, and rows with it are neither above nor below."""
    stump = EstimatorSpec(factory="sklearn.tree.DecisionTreeClassifier", parameters={"max_depth": 1})
    made = trained(stump, RelativeRule(reference=51), teachers=1)
    x = public(2000, seed=9)
    (teacher,), (said,) = made.teachers, votes_of_teachers(made, x, lot(x))
    level = np.diff(class_scores(teacher, x), axis=1)[:, 0]
    limits = made.thresholds
    assert limits is not None
    equal = np.abs(level - limits[0, 1]) < 1e-9
    assert 400 < equal.sum() < 2000
    assert 0.4 < said[equal].mean() < 0.6
    assert len(np.unique(said[~equal])) == 1


def test_a_class_that_a_teacher_has_not_seen_is_not_voted_for() -> None:
    made = trained(KINDS["logistic_regression"], RelativeRule(reference=51), [0, 3, 0], classes=5)
    x = public(500, seed=9)
    assert set(np.unique(votes_of_teachers(made, x, lot(x)))) == {0, 3}


def test_shares_say_how_often_each_class_is_voted_for() -> None:
    voting_rule = RelativeRule(shares=(0.8, 0.2), reference=201)
    rows = public(201)
    votes = cast(trained(KINDS["ridge"], voting_rule, teachers=1), rows, lot(rows))
    np.testing.assert_allclose(votes.mean(axis=0), [0.8, 0.2], atol=0.01)


# -- at a party -------------------------------------------------------------------------------------------------------

CONFIG = make_relative()
X = canonical_queries(make_rows(60, 5)[0], WIDTH)


def party(folder: Path, **policy: Any) -> PartyNode:
    return node_at(folder if folder.exists() else make_home(folder, "p", **policy))


def test_thresholds_are_kept_with_the_teachers_and_voting_needs_no_reference_rows(tmp_path: Path) -> None:
    node = party(tmp_path / "home")
    node.hello(hello_of(CONFIG))
    request = CONFIG.train_request()
    node.train(request)
    digest = CONFIG.digest()
    kept = node.teachers(digest)
    assert kept.thresholds is not None and kept.thresholds.shape == (1, 2)
    first = node.vote(vote_request(CONFIG, X)).choices
    again = party(tmp_path / "home")  # a new process: only the disk remembers
    again.train(request)
    assert again.teachers(digest).digest == kept.digest
    assert (again.vote(vote_request(CONFIG, X)).choices == first).all()
    assert (counted(first, 2) == cast(kept, CONFIG.rows.standardise(X), Lot("p", digest, query_ids(X)))).all()


def with_reference(rows: np.ndarray, voting_rule: VotingRule = CONFIG.voting_rule) -> Any:
    """A coordinator that pins these rows from the start, and so is held to them alone."""
    changes = {"reference": rows.astype(np.float32), "voting_rule_json": voting_rule.model_dump_json()}
    request = CONFIG.train_request().model_copy(update=changes)
    return hello_of(CONFIG, request=request.digest()), request


GOOD = CONFIG.reference_rows()
HOSTILE: dict[str, np.ndarray] = {
    "not a number": np.where(np.arange(GOOD.size).reshape(GOOD.shape) == 7, np.nan, GOOD),
    "infinite": np.where(np.arange(GOOD.size).reshape(GOOD.shape) == 7, np.inf, GOOD),
    "all equal": np.repeat(GOOD[:1], 40, axis=0),
    "too many": np.concatenate([GOOD, GOOD + 1]),
    "none": GOOD[:0],
    "narrow": GOOD[:, :2],
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_reference_rows_are_refused(tmp_path: Path, case: str) -> None:
    node = party(tmp_path / "home")
    hello, request = with_reference(HOSTILE[case])
    node.hello(hello)
    assert refused(node.train, request) is Rule.MALFORMED
    assert refused(node.teachers, CONFIG.digest()) is Rule.NOT_TRAINED


@pytest.mark.parametrize("voting_rule", [TopRule(), RelativeRule(shares=(0.25, 0.25, 0.5))])
def test_a_ballot_that_does_not_suit_rows_or_classes_is_refused(tmp_path: Path, voting_rule: VotingRule) -> None:
    node = party(tmp_path / "home")
    hello, request = with_reference(GOOD, voting_rule)
    node.hello(hello)
    assert refused(node.train, request) is Rule.MALFORMED
