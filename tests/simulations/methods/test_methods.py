"""Every method that a study compares: one contract, what each depends on, and what each is. And what a student is worth
in manual labels, on made-up rows where that is known."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import joblib
import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from consilium.coordinator.privacy import promised
from consilium.models.keys import GraphCnnStudent, LogisticRegressionStudent, RidgeSpec
from consilium.protocol.errors import ConfigError
from consilium.protocol.label_source import Outcome
from consilium.protocol.schema import Schema
from consilium.simulations.divide import Case, make_case
from consilium.simulations.methods.base import Predicted
from consilium.simulations.methods.manual_labels import (
    LADDER,
    LabelEquivalent,
    ManualLabels,
    by_lot,
    label_equivalent,
    worth,
)
from consilium.simulations.methods.teachers import pooled_probabilities
from consilium.simulations.release import replay
from consilium.simulations.study.spec import METHODS, method_of
from consilium.student.config import StudentSpec
from consilium.student.learn import train
from tests.simulations.methods.cases import SEED, few, made_up, student_on, taught

CONFIDENT = "federation.mechanism={name='confident', threshold=9, sigma1=20.0, sigma2=8.0}"
SHARE = 0.2
NEVER: Any = False  # scikit-learn takes it; its annotations know "auto" alone
GIVEN = (
    "local",
    "pooled",
    {"name": "pooled", "kind": "boosted"},
    "plurality",
    "pate",
    "noisy_average",
    {"name": "private_gradient", "rounds": 3, "clip": 0.1, "step": 0.3},
    {"name": "manual_labels", "labels": 60},
    {"name": "fedavg", "rounds": 3, "learning_rate": 0.2},
    {"name": "fedavg", "rounds": 3, "learning_rate": 0.2, "epsilon": "federation", "clip": 0.3},
)
HAS_NONE_ON = {"local": "test"}
"""Methods without probabilities on public test rows, "test", or on parties' own held-out rows, "home"."""


def other(*changes: str) -> Case:
    """The same division and teachers, with other keys."""
    return make_case(few(CONFIDENT, *changes), SEED, SHARE)


def predicted(given: object, case: Case | None = None) -> Predicted:
    return method_of(given).predict(case or taught(SHARE, CONFIDENT)[0], taught(SHARE, CONFIDENT)[1])


@pytest.mark.parametrize("given", GIVEN, ids=str)
def test_what_every_method_gives(given: object) -> None:
    case, ensemble = taught(SHARE, CONFIDENT)
    method = method_of(given)
    found = method.predict(case, ensemble if method.needs_ensemble else None)
    assert not found.absent
    for rows, probabilities, y in (("test", found.test, case.test_y), ("home", found.home, case.home_y)):
        if probabilities is None:
            assert HAS_NONE_ON.get(method.name) == rows
            continue
        assert (probabilities.dtype, probabilities.shape) == (np.float64, (len(y), 2))
        assert (probabilities >= 0).all()
        np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-6)
        assert roc_auc_score(y, probabilities[:, 1]) > 0.6
    assert all(not math.isnan(value) for value in found.figures.values())
    stated = method.guarantee(case)
    assert ({"epsilon", "delta"} <= found.figures.keys()) == (stated is not None)
    if stated is not None:
        assert (stated.epsilon, stated.delta) == pytest.approx((found.figures["epsilon"], found.figures["delta"]))
    assert joblib.hash(method.predict(case, ensemble)) == joblib.hash(found)
    assert {type(method_of(given)) for given in GIVEN} == set(METHODS.values())


@pytest.mark.parametrize(
    ("given", "unit"),
    [
        ("pate", "record"),
        ("noisy_average", "record"),
        ("private_gradient", "record"),
        ({"name": "fedavg", "epsilon": "federation"}, "party"),
    ],
    ids=str,
)
def test_each_says_whose_data_it_protects(given: object, unit: str) -> None:
    """Federated averaging is accounted for whole parties, whatever the federation's own unit is."""
    case = other("federation.privacy.unit=record")
    stated, privacy = method_of(given).guarantee(case), case.config.privacy
    assert stated is not None and (stated.unit, stated.epsilon) == (unit, promised(case.config).epsilon)
    assert (stated.delta, stated.neighbouring) == (privacy.delta, privacy.neighbouring)


@pytest.mark.parametrize(
    ("given", "change", "differs"),
    [
        ("pate", "federation.mechanism.sigma2=9.0", True),
        ("pate", "federation.privacy.delta=1e-6", True),
        ("pate", "federation.timeouts.vote=1", False),
        ("local", "federation.mechanism.sigma2=9.0", False),
        ("plurality", "student.trainer.C=0.1", False),
        ("noisy_average", "federation.mechanism.sigma2=9.0", True),
        ({"name": "private_gradient", "rounds": 2}, "federation.privacy.unit=record", True),
        ("manual_labels", "federation.mechanism.sigma2=9.0", False),
        ("manual_labels", "student.trainer.C=0.1", True),
    ],
    ids=str,
)
def test_what_a_method_depends_on(given: object, change: str, differs: bool) -> None:
    """Where nothing differs, the predictions are the same too: what is kept of one case serves the other."""
    method, case = method_of(given), taught(SHARE, CONFIDENT)[0]
    there, here = (json.dumps(method.depends_on(each)) for each in (other(change), case))
    assert (there != here) == differs
    if not differs:
        before, after = predicted(given), predicted(given, other(change))
        for one, two in ((before.test, after.test), (before.home, after.home)):
            np.testing.assert_array_equal(np.asarray(one), np.asarray(two))
        assert before.figures == after.figures


@pytest.mark.parametrize("kind", ["teacher", "boosted"])
def test_pooled_is_one_model_on_what_the_parties_train_on(kind: str) -> None:
    case, _ = taught(SHARE, CONFIDENT)
    rows = np.concatenate(list(case.partition.parties.values()))
    held_out = np.concatenate(list(case.home.values()))
    assert not np.intersect1d(rows, held_out).size
    own: Any = {
        "teacher": LogisticRegression(solver="newton-cholesky", tol=1e-10),
        "boosted": HistGradientBoostingClassifier(
            max_iter=100, max_depth=4, learning_rate=0.1, early_stopping=NEVER, random_state=0
        ),
    }[kind]
    schema = case.config.rows
    own.fit(schema.inputs(case.dataset.x[rows]), case.dataset.y[rows])
    found = predicted({"name": "pooled", "kind": kind})
    assert found.figures == {"rows": len(rows)}
    np.testing.assert_allclose(np.asarray(found.test), own.predict_proba(schema.inputs(case.test_x)), atol=1e-9)
    np.testing.assert_allclose(np.asarray(found.home), own.predict_proba(schema.inputs(case.home_x)), atol=1e-9)


@pytest.mark.parametrize("alpha", [1.0, 1e-6])
def test_ridge_on_features_that_are_nearly_the_same(alpha: float) -> None:
    """Sums in float32 of features that hang together are singular, whatever penalty is too small to be seen in them."""
    generator = np.random.default_rng(0)
    y = generator.integers(2, size=5000)
    base = generator.normal(size=(5000, 3)) + y[:, None]
    x = np.concatenate([base, base + 1e-6 * generator.normal(size=(5000, 3)), np.ones((5000, 2)) * 300], axis=1)
    features = tuple(f"f{index}" for index in range(x.shape[1]))
    schema = Schema.of_images(features, ("well", "ill"), "none")
    rows = x.astype(np.float32)
    found = pooled_probabilities(schema, RidgeSpec(alpha=alpha), rows, y, schema.inputs(rows))
    np.testing.assert_allclose(found.sum(axis=1), 1)
    assert (found.argmax(axis=1) == y).mean() > 0.75


@pytest.mark.parametrize("count", [5, 200])
def test_few_and_many_rows_have_the_weights_of_ridge_regression(count: int) -> None:
    """40 inputs: by the products of rows, and by those of inputs; against the penalised least squares themselves."""
    generator = np.random.default_rng(count)
    schema = Schema.of_images(tuple(f"f{index}" for index in range(40)), ("a", "b", "c"), "none")
    x, test = generator.normal(size=(count, 40)), schema.inputs(generator.normal(size=(9, 40)))
    y, seen = generator.integers(3, size=count), schema.inputs(x)
    mean, shares = seen.mean(axis=0), np.eye(3)[y].mean(axis=0)
    penalised = np.concatenate([seen - mean, np.sqrt(0.5) * np.eye(40)])
    weights = np.linalg.lstsq(penalised, np.concatenate([np.eye(3)[y] - shares, np.zeros((40, 3))]), rcond=None)[0]
    scores = np.maximum((test - mean) @ weights + shares, 0)
    found = pooled_probabilities(schema, RidgeSpec(alpha=0.5), x, y, test)
    np.testing.assert_allclose(found, scores / scores.sum(axis=1, keepdims=True), atol=2e-4)


def test_local_is_each_party_on_rows_it_has_not_seen() -> None:
    case, ensemble = taught(SHARE, CONFIDENT)
    found, own, auc = predicted("local"), [], []
    for index, party in enumerate(case.parties):
        x, y = case.train_rows(party)
        spec = case.config.teacher.model_dump()
        teacher = LogisticRegression(
            C=spec["C"], class_weight=spec["class_weight"], solver="newton-cholesky", tol=1e-10
        )
        teacher.fit(case.config.rows.inputs(x), y)
        own.append(teacher.predict_proba(case.config.rows.inputs(case.home_x))[case.home_party == index])
        auc.append(roc_auc_score(case.test_y, ensemble.test_scores[index]))
    assert found.test is None
    np.testing.assert_allclose(np.asarray(found.home), np.concatenate(own), atol=1e-6)
    assert found.figures["auc"] == pytest.approx(np.mean(auc), abs=1e-9)
    assert found.figures["auc_p10"] == pytest.approx(np.percentile(auc, 10), abs=1e-9)
    assert found.figures["accuracy"] == pytest.approx(ensemble.test_right.mean())
    by_row = {name: array.mean() for name, array in found.by_row.items()}
    assert by_row == pytest.approx({name: found.figures[name] for name in ("accuracy", "auc")}, abs=1e-6)


def test_pate_counts_what_became_of_its_queries_and_states_every_epsilon() -> None:
    (case, ensemble), found = taught(SHARE, CONFIDENT), predicted("pate")
    replayed, figures = replay(case, ensemble.pool), found.figures
    assert figures["epsilon_data_dependent"] <= figures["epsilon_spent"] <= figures["epsilon"]
    assert figures["epsilon_data_dependent"] < figures["epsilon_published"] and "epsilon_sanitised" not in figures
    immutable = "federation.mechanism={name='immutable', gamma=0.1, constant=20, unsafe_not_private=true}"
    unsafe = predicted("pate", other(immutable, "federation.query_budget.answers=60")).figures
    assert unsafe["epsilon"] == math.inf and "epsilon_published" not in unsafe
    outcome, labels = replayed.outcomes, replayed.labels
    truth, answered = case.pool_y[replayed.rows], outcome == Outcome.ANSWERED
    assert 0 < answered.sum() < len(outcome)
    assert found.figures["answered"] == answered.sum()
    assert found.figures["asked"] == (outcome != Outcome.NOT_ASKED).sum()
    assert found.figures["labels_right"] == (labels[answered] == truth[answered]).mean()


@pytest.mark.parametrize(
    ("given", "change", "told"),
    [
        ("pate", "federation.mechanism.threshold=99", "federation.mechanism.threshold 99 is above the 16 votes"),
        ("noisy_average", "federation.teacher={model='random_forest', trees=3}",
         "teachers of kind random_forest are not linear"),
        ("noisy_average", "federation.mechanism={name='immutable', gamma=0.1, constant=20, unsafe_not_private=true}",
         "the run promises no epsilon"),
        ("private_gradient",
         "federation.mechanism={name='immutable', gamma=0.1, constant=20, unsafe_not_private=true}",
         "the run promises no epsilon that private gradient descent could keep"),
        ({"name": "manual_labels", "labels": 100_000}, "student.batch=0", "the pool has 1930 rows, and 100000 were"),
    ],
    ids=str,
)  # fmt: skip
def test_where_a_method_does_not_apply(given: object, change: str, told: str) -> None:
    found = predicted(given, other(change))
    assert found.absent.startswith(told)
    assert (found.test, found.home, found.figures, found.drawn) == (None, None, {}, None)


def test_manual_labels_are_the_students_own_training_on_the_truth() -> None:
    case, found = taught(SHARE, CONFIDENT)[0], predicted({"name": "manual_labels", "labels": 60, "draws": 3})
    rows, y = case.config.rows.inputs(case.pool_x), case.pool_y
    expected = []
    for draw in range(3):
        chosen = by_lot(SEED, draw, len(y))[:60]
        model = train(rows[chosen], y[chosen], rows[:0], 2, case.scenario.student, SEED + draw)
        expected.append(model.predict_proba(case.config.rows.inputs(case.test_x)))
    np.testing.assert_array_equal(np.asarray(found.drawn), np.stack(expected).astype(np.float32))
    np.testing.assert_array_equal(np.asarray(found.test), expected[0])
    assert found.figures == {"labels": 60, "draws": 3}


def test_a_case_without_rows_at_home_or_for_the_test() -> None:
    case, ensemble = taught(0.0, CONFIDENT)
    bare = replace(case, partition=replace(case.partition, test=np.zeros(0, dtype=np.int64)))
    for given in GIVEN:
        found = method_of(given).predict(bare, ensemble)
        assert (found.test, found.home) == (None, None)
        assert not found.absent


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("fedsgd", "methods: no method 'fedsgd'. Choose one of fedavg, local, manual_labels, noisy_average, pate"),
        ({"name": ["pate"]}, r"methods: no method \['pate'\]. Choose"),
        ({"name": "pooled", "kind": "boost"}, "methods: pooled: kind: .*teacher.*boosted"),
        ({"name": "manual_labels", "label": 10}, "methods: manual_labels: label: unknown key.*labels"),
    ],
    ids=str,
)
def test_what_is_no_method(given: object, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        method_of(given)


SPEC = StudentSpec(trainer=LogisticRegressionStudent(C=1.0))
ROWS = np.random.default_rng(8).permutation(600)
"""That a student asked for."""


@pytest.mark.nightly
@pytest.mark.parametrize(("labels", "classes"), [(40, 2), (150, 2), (60, 3)])
def test_a_student_of_true_labels_is_worth_about_as_many(labels: int, classes: int) -> None:
    """The 95 % interval misses two or more of ten with a chance of 9 %; the seeds are fixed."""
    public = made_up(classes=classes)
    found = [
        worth(public, student_on(public, labels, SPEC, seed), SPEC, labels, ROWS[:labels], seed) for seed in range(10)
    ]
    held = [(block["low"] or 0) <= labels <= (block["high"] or block["most"]) for block in found]
    assert sum(held) >= 9
    middle = np.median([block["most"] if block["manual_labels"] is None else block["manual_labels"] for block in found])
    assert labels / 2 < middle < labels * 2


def perfect(y: np.ndarray) -> np.ndarray:
    return np.eye(2)[y]


@pytest.mark.parametrize(
    ("change", "student", "expected"),
    [
        ({}, lambda y: 1 - perfect(y), (0, 0, 0)),
        ({}, perfect, (None, None, None)),
        ({"labels": np.zeros(600, dtype=np.int64)}, perfect, (None, None, None)),
        ({"labels": np.zeros(600, dtype=np.int64)}, lambda y: np.full((len(y), 2), 0.5), (0, 0, 0)),
    ],
    ids=["worse than anything", "better than all", "one class in the pool", "one class, and nothing learnt"],
)
def test_ends(change: dict, student, expected: tuple) -> None:
    public = replace(made_up(), **change)
    told: list[tuple[str, int, int]] = []
    block = worth(public, student(public.test_y), SPEC, 20, ROWS[:50], 0, lambda *step: told.append(step))
    assert [step[1] for step in told] == sorted({step[1] for step in told})  # how far it is never falls
    assert {step[2] for step in told} == {told[-1][1]} and told[0][1] == 0
    assert (block["manual_labels"], block["low"], block["high"]) == expected


@pytest.mark.parametrize(("released", "asked"), [(3, 3), (0, 2), (0, 0)])
def test_a_pool_of_three_rows(released: int, asked: int) -> None:
    public = made_up(pool=3)
    block = worth(public, perfect(public.test_y), SPEC, released, np.arange(asked), 0)
    assert (block["manual_labels"], block["fewest"], block["most"], block["public_rows"]) == (None, 3, 3, 3)
    assert (block["released"]["labels"], block["asked"]["labels"]) == (released, asked)


def test_points_take_the_rows_that_were_asked_where_the_rows_decide() -> None:
    public = made_up(pool=200)
    typical = StudentSpec(trainer=SPEC.trainer, selection="typical")
    asked = np.flatnonzero(public.labels == 1)
    by_lot, chosen = (ManualLabels(public, spec, asked, 0) for spec in (SPEC, typical))
    assert by_lot.metrics_of(8)["draws"] == 20 and by_lot.metrics_of(8)["auc"] > 0.5
    # labels of one class teach nothing
    assert chosen.metrics_of(8)["draws"] == 1 and chosen.metrics_of(8)["auc"] == 0.5


def test_manual_labels_of_many_classes_are_not_held_down_by_a_penalty_for_two() -> None:
    public, spec = made_up(classes=20), StudentSpec(trainer=LogisticRegressionStudent())
    usual = LogisticRegression().fit(public.queries, public.labels).score(public.test_x, public.test_y)
    assert ManualLabels(public, spec, ROWS, 0).metrics_of(600)["accuracy"] > 0.95 * usual


def test_a_slow_student_has_a_baseline_and_no_equivalent() -> None:
    public = made_up()
    slow = StudentSpec(trainer=GraphCnnStudent())
    block = worth(public, student_on(public, 50, SPEC, 0), slow, 20, ROWS[:40], 0)
    assert "manual_labels" not in block and block["released"]["auc"] > 0.6


TEST, COUNTS = 400, np.array(LADDER)


def height(count: float) -> float:
    """Accuracy with so many labels."""
    return 0.9 - 0.8 / math.sqrt(count)


def found(student: np.ndarray, counts: np.ndarray = COUNTS, luck: np.ndarray = np.zeros(3)) -> LabelEquivalent:  # noqa: B008
    """Of a student's row scores; every other row's score is the accuracy itself. luck: of each draw."""
    heights = np.array([height(count) for count in counts])[:, None] + luck
    return label_equivalent(student, counts, np.repeat(heights[:, :, None], TEST, axis=2), np.random.default_rng(0))


@pytest.mark.parametrize(
    ("level", "counts", "expected"),
    [
        (0.1, COUNTS, LabelEquivalent(0, 0, 0)),
        (height(LADDER[0]), COUNTS, LabelEquivalent(0, 0, 0)),
        (0.899, COUNTS, LabelEquivalent(math.inf, math.inf, math.inf)),
        (height(2000), COUNTS, LabelEquivalent(2000, 2000, 2000)),
        (0.9, np.array([3]), LabelEquivalent(math.inf, math.inf, math.inf)),
        (height(3), np.array([3]), LabelEquivalent(0, 0, 0)),
    ],
    ids=["worse than anything", "as the fewest", "better than all", "as all", "3 rows, better", "3 rows"],
)
def test_ends_of_the_ladder(level: float, counts: np.ndarray, expected: LabelEquivalent) -> None:
    assert found(np.full(TEST, level), counts) == expected


def test_the_interval_holds_the_luck_of_draws_and_of_test_rows() -> None:
    """Draws that differ by +-0.02 in accuracy lie where the known curve is that much higher or lower."""
    result = found(np.full(TEST, height(100)), luck=np.linspace(-0.02, 0.02, 21))
    assert result.labels == 100
    assert result.low == pytest.approx((0.8 / 0.1) ** 2, rel=0.15)  # 0.08 is missing at 100 labels, 0.10 there
    assert result.high == pytest.approx((0.8 / 0.06) ** 2, rel=0.15)

    rows = np.random.default_rng(1)
    student = (rows.random(TEST) < height(100)).astype(float)
    student += height(100) - student.mean()
    by_rows = found(student)
    assert by_rows.low < 80 and by_rows.high > 130
