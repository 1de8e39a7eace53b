"""The contract of every teacher; networks of images; the ridge teacher against scikit-learn's. From scores to votes:
one vote of each teacher, relative to its own scores, and ties that favour no class."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from consilium.data.private_rows import Rows
from consilium.models.keys import CnnSpec, EstimatorSpec, MlpSpec, NetworkSpec, TeacherKind
from consilium.models.linear import RidgeTeacher, Teacher
from consilium.models.own_model import OwnClassifier
from consilium.models.table import fit_teachers
from consilium.models.torch_classifier import NetworkTeacher
from consilium.party.node import PartyNode
from consilium.party.voting import Lot, TeacherSet, class_scores, thresholds_of, votes_of_teachers
from consilium.protocol.choices import counted
from consilium.protocol.images import ImageShape, image_shape
from consilium.protocol.queries import canonical_queries, query_ids
from consilium.protocol.refusals import Rule
from consilium.protocol.schema import Schema
from consilium.protocol.voting_rule import RelativeRule, TopRule, VotingRule
from tests.federation import cast, hello_of, make_home, make_relative, make_rows, node_at, vote_request
from tests.party.test_node import refused
from tests.specs import teacher_of

SIDE = 16
SPECS = {
    "mlp": MlpSpec(hidden=16, epochs=15, batch=16, learning_rate=0.01),
    "cnn": CnnSpec(hidden=16, channels=4, epochs=8, batch=16, learning_rate=0.01),
}


def images(count: int, seed: int = 0, classes: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """A bright bar whose height tells the class, on noise."""
    generator = np.random.default_rng(seed)
    y = generator.integers(0, classes, count)
    x = generator.uniform(0, 0.4, size=(count, SIDE, SIDE))
    for index, label in enumerate(y):
        x[index, 2 + 4 * label : 5 + 4 * label, generator.integers(0, 4) :] += 0.6
    return x.reshape(count, -1), y


@pytest.fixture(params=SPECS)
def spec(request: pytest.FixtureRequest) -> NetworkSpec:
    return SPECS[request.param]


@pytest.mark.parametrize(
    "model", ["logistic_regression", "random_forest", "gradient_boosting", "ridge", "mlp", "cnn", "own"]
)
def test_the_contract_of_every_teacher(model: str) -> None:
    own = EstimatorSpec(factory="tests.strangers:Nearest")
    spec = own if model == "own" else SPECS.get(model) or teacher_of(model, trees=10)
    x, y = images(120)
    seen = np.where(y == 1, 3, y)  # of five classes, this party has 0, 2 and 3
    teacher: Teacher = fit_teachers(spec, Rows(x, seen), [np.arange(120)], [3], 5)[0]
    other, truth = images(200, seed=1)
    predicted, probabilities = teacher.predict(other), teacher.predict_proba(other)
    assert teacher.classes_.tolist() == [0, 2, 3]
    if isinstance(teacher, OwnClassifier):  # whole numbers from 0, as xgboost insists on
        assert teacher.estimator.classes_.tolist() == [0, 1, 2]
    assert probabilities.shape == (200, 3)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-6)
    assert (probabilities >= 0).all()
    assert (teacher.classes_[probabilities.argmax(axis=1)] == predicted).all()
    assert (predicted == np.where(truth == 1, 3, truth)).mean() > 0.85
    loaded = pickle.loads(pickle.dumps(teacher))
    assert (loaded.predict_proba(other) == probabilities).all()
    again = fit_teachers(spec, Rows(x, seen), [np.arange(120)], [3], 5)[0]
    assert (again.predict_proba(other) == probabilities).all()


def uneven() -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """Parts of other sizes, one with a batch more than the rest, one smaller than a batch, one without a class."""
    x, y = images(110)
    lacking = np.flatnonzero(y[:40] != 1)
    return x, y, [lacking, np.arange(40, 73), np.arange(73, 100), np.arange(100, 110)]


@pytest.mark.parametrize("weight", ["none", "balanced"])
def test_a_teacher_is_the_same_whatever_others_are_trained_with_it(spec: NetworkSpec, weight: str) -> None:
    """To the last bit. Steps move its weights, and weights of classes count."""
    x, y, parts = uneven()
    spec = spec.model_copy(update={"class_weight": weight, "epochs": 3})
    together = fit_teachers(spec, Rows(x, y), parts, [5, 6, 7, 8], 3)
    for teacher, part, seed in zip(together, parts, [5, 6, 7, 8], strict=True):
        alone = NetworkTeacher(spec, seed).fit(x[part], y[part])
        assert isinstance(teacher, NetworkTeacher) and teacher.classes_.tolist() == np.unique(y[part]).tolist()
        assert (teacher.predict_proba(x) == alone.predict_proba(x)).all()
        for changed in ({"learning_rate": 1e-9}, {"class_weight": "balanced" if weight == "none" else "none"}):
            other = NetworkTeacher(spec.model_copy(update=changed), seed).fit(x[part], y[part])
            assert (other.predict_proba(x) != alone.predict_proba(x)).any()


@pytest.mark.parametrize(
    ("inputs", "least", "expected"),
    [
        (256, 16, (1, 16)), (768, 16, (3, 16)), (192, 16, None), (2, 1, None), (3071, 1, None),
    ],
)  # fmt: skip
def test_what_a_row_is(inputs: int, least: int, expected: tuple[int, int] | None) -> None:
    assert image_shape(inputs, least) == expected


def test_planes_of_pixels_beside_each_other() -> None:
    rows = np.arange(2 * 12).reshape(2, 12)
    planes = ImageShape(3, 2).planes(rows)
    assert planes[1].tolist() == [[[12, 15], [18, 21]], [[13, 16], [19, 22]], [[14, 17], [20, 23]]]
    assert ImageShape(1, 2).planes(rows[:, :4]).tolist() == rows[:, :4].reshape(2, 1, 2, 2).tolist()
    assert ImageShape(3, 2).planes(rows[:0]).shape == (0, 3, 2, 2)


def blobs(count: int, inputs: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    y = generator.integers(0, 3, count)
    return generator.normal(size=(count, inputs)) + 1.5 * np.eye(3, inputs)[y], y


@pytest.mark.parametrize(("count", "inputs"), [(40, 200), (40, 40), (300, 20)], ids=["dual", "square", "primal"])
@pytest.mark.parametrize("balanced", [False, True])
def test_the_numbers_of_scikit_learn(count: int, inputs: int, balanced: bool) -> None:
    x, y = blobs(count, inputs)
    y[: count // 2] = 0  # classes of different sizes, so that balancing matters
    weights = len(y) / (3 * np.bincount(y)[y]) if balanced else None
    expected = Ridge(alpha=2.5).fit(x, np.eye(3)[y], sample_weight=weights)
    found = RidgeTeacher(2.5, balanced=balanced).fit(x, y)
    np.testing.assert_allclose(found.weights, expected.coef_.T, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(found.intercept, expected.intercept_, rtol=1e-8, atol=1e-10)
    assert (found.predict(x) == expected.predict(x).argmax(axis=1)).all()
    small = RidgeTeacher(2.5, balanced=balanced).fit(x.astype(np.float32), y)
    assert small.weights.dtype == small.intercept.dtype == np.float32
    np.testing.assert_allclose(small.weights, found.weights, atol=1e-4)


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
