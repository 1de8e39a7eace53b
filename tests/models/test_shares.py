"""Students of what a mechanism released: noisy shares, and labels, abstentions and confirmations as a likelihood of the
votes, against draws, closed forms and differences."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import softmax
from scipy.stats import multivariate_normal

from consilium.models.base import Outcomes, Shares, Told
from consilium.models.evidence import column_scales, contrasts, fit_softmax, graph_functions, most_probable, regress
from consilium.models.images.graph_cnn import smooth_shares
from consilium.models.kernel import nearest_rows, neighbour_graph, smoothest
from consilium.models.likelihood import SCATTER, likelihood_of
from consilium.models.table import trainer_of
from consilium.protocol.label_source import NO_LABEL, LabelLaw, Outcome
from consilium.student.config import StudentSpec
from consilium.student.learn import train
from tests.marks import third
from tests.specs import student_of

SPECS = {
    "logistic regression": student_of(C=1.0),
    "graph": student_of(trainer="graph"),
    "estimator": student_of(trainer="estimator", factory="sklearn.linear_model.LogisticRegression"),
    "estimator without weights": student_of(trainer="estimator", factory="tests.strangers:Nearest"),
    "torch": student_of(trainer="torch", factory="tests.strangers:Net", epochs=30, parameters={"hidden": 8}),
}


def told_of(shares: np.ndarray, deviation: float | np.ndarray, seed: int) -> Shares:
    """Shares (n, classes) with Gaussian noise of this deviation on each."""
    spread = np.broadcast_to(np.asarray(deviation, dtype=float), (len(shares),)).copy()
    return Shares(shares + np.random.default_rng(seed).normal(size=shares.shape) * spread[:, None], spread)


def linear_truth(count: int, inputs: int, classes: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows, and shares that are the softmax of linear scores of them."""
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(count, inputs))
    return x, softmax(x @ generator.normal(size=(inputs, classes)), axis=1)


def by_train(spec: StudentSpec, x: np.ndarray, told: Shares, rest: np.ndarray) -> Any:
    """As a student does it."""
    return train(x, told.shares.argmax(axis=1), rest, told.classes, spec, 0, told=told)


class TestRegression:
    @pytest.mark.parametrize("classes", [2, 4])
    @pytest.mark.parametrize("inputs", [3, 30])
    def test_evidence_is_the_marginal_likelihood(self, classes: int, inputs: int) -> None:
        """Against the density of all contrasts at once, after an orthonormal turn that removes the offset."""
        x, shares = linear_truth(12, inputs, classes, 1)
        told = told_of(shares, np.linspace(0.1, 0.4, 12), 2)
        found = regress(x, told)

        def density(scale: float, excess: float) -> float:
            unit = (1 / told.deviation)[:, None]
            turn = np.linalg.svd(unit, full_matrices=True)[0][:, 1:]
            rows, seen = turn.T @ (x * unit), turn.T @ (told.shares @ contrasts(classes) * unit)
            covariance = excess * np.eye(11) + scale * rows @ rows.T
            return sum(float(multivariate_normal(cov=covariance).logpdf(column)) for column in seen.T)  # pyright: ignore[reportArgumentType]

        assert found.evidence == pytest.approx(density(found.scale, found.excess), abs=1e-6)
        for factor in (0.3, 3.0):
            assert density(found.scale * factor, found.excess) < found.evidence

    @pytest.mark.parametrize("classes", [2, 3])
    def test_without_noise_it_is_least_squares(self, classes: int) -> None:
        x, shares = linear_truth(50, 4, classes, 3)
        found = regress(x, Shares(shares, np.full(50, 1e-9)))
        design = np.c_[np.ones(50), x]
        expected = np.linalg.lstsq(design, shares, rcond=None)[0]
        np.testing.assert_allclose(found.shares(x), design @ expected, atol=0.04)
        exact = x @ np.ones((4, classes)) * np.arange(classes) / 100
        exact += (1 - exact.sum(axis=1, keepdims=True)) / classes
        np.testing.assert_allclose(regress(x, Shares(exact, np.full(50, 1e-9))).shares(x), exact, atol=1e-6)


class TestSoftmax:
    @pytest.mark.parametrize("classes", [2, 5])
    def test_without_noise_it_finds_the_truth(self, classes: int) -> None:
        x, shares = linear_truth(300, 4, classes, 5)
        model = fit_softmax(x, told_of(shares, 1e-4, 1))[0]
        np.testing.assert_allclose(model.predict_proba(x), shares, atol=0.005)

    def test_evidence_is_that_of_the_regression_where_shares_hardly_vary(self) -> None:
        """There a softmax is a line, and both evidences are of the same observations."""
        generator = np.random.default_rng(2)
        x = generator.normal(size=(400, 5)) / column_scales(generator.normal(size=(400, 5)))
        told = told_of(softmax(x @ generator.normal(size=(5, 2)) * 0.03, axis=1), 0.05, 3)
        linear = regress((x - x.mean(axis=0)) * column_scales(x), told)
        assert fit_softmax(x, told)[1] == pytest.approx(linear.evidence, abs=0.3)


ODD: dict[str, tuple[np.ndarray, np.ndarray]] = {
    "one row": (np.array([[1.0, 2.0]]), np.array([[0.7, 0.2, 0.1]])),
    "one class": (np.random.default_rng(0).normal(size=(20, 2)), np.tile([1.0, 0, 0], (20, 1))),
    "rows that are all alike": (np.ones((20, 2)), np.tile([0.2, 0.3, 0.5], (20, 1))),
    "more inputs than rows": linear_truth(6, 40, 3, 0),
    "shares far outside": (np.random.default_rng(0).normal(size=(9, 2)), np.tile([-4.0, 2.0, 3.0], (9, 1))),
}


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS.keys())
class TestEveryKind:
    @pytest.mark.parametrize(
        ("deviation", "case"), third([(deviation, case) for deviation in (1e-3, 0.3, 1e3) for case in ODD])
    )
    def test_probabilities_whatever_the_rows(self, spec: StudentSpec, case: str, deviation: float) -> None:
        x, shares = ODD[case]
        model = by_train(spec, x, told_of(shares, deviation, 1), x[:1])
        probabilities = model.predict_proba(np.concatenate([x, 100 * x]))
        assert probabilities.shape == (2 * len(x), 3)
        np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-5)
        assert (probabilities >= 0).all()

    def test_learns(self, spec: StudentSpec) -> None:
        """200 rows of whose winners a third is wrong."""
        x, shares = linear_truth(800, 3, 3, 8)
        told = told_of(shares[:200], 0.5, 2)
        model = by_train(spec, x[:200], told, x[200:300])
        truth = shares.argmax(axis=1)
        assert (told.shares.argmax(axis=1) == truth[:200]).mean() < 0.7
        assert (model.predict_proba(x[300:]).argmax(axis=1) == truth[300:]).mean() > 0.7

    @pytest.mark.parametrize("manual", [False, True])
    def test_same_seed_same_model(self, spec: StudentSpec, manual: bool) -> None:
        x, shares = linear_truth(60, 3, 3, 8)
        told = None if manual else told_of(shares, 0.3, 2)
        y = shares.argmax(axis=1)
        first, second = (train(x, y, x[:20], 3, spec, 4, told=told).predict_proba(x) for _ in range(2))
        assert (first == second).all()

    def test_manual_labels_teach(self, spec: StudentSpec) -> None:
        x, shares = linear_truth(700, 3, 3, 8)
        y = shares.argmax(axis=1)
        model = train(x[:200], y[:200], x[200:250], 4, spec, 0)  # the fourth class never occurs
        probabilities = model.predict_proba(x[250:])
        np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-5)
        assert (probabilities.argmax(axis=1) == y[250:]).mean() > 0.6

    @pytest.mark.parametrize("count", [0, 1, 5])
    def test_labels_of_one_class_or_none(self, spec: StudentSpec, count: int) -> None:
        x = linear_truth(10, 3, 2, 1)[0]
        model = train(x[:count], np.ones(count, dtype=np.int64), x, 2, spec, seed=0)
        assert model.predict_proba(x).tolist() == [[0.5, 0.5] if count == 0 else [0.0, 1.0]] * 10


def test_a_graph_s_functions_are_its_inverse() -> None:
    """All of them together: (1 - spread S)^-1, and rows in another component have nothing in common."""
    generator = np.random.default_rng(0)
    rows = np.concatenate([generator.normal(size=(20, 2)), 100 + generator.normal(size=(20, 2))])
    functions = graph_functions(rows.astype(np.float32), 5, 0.9)
    alike = functions @ functions.T
    np.testing.assert_allclose(alike[:20, 20:], 0, atol=1e-6)
    assert alike.diagonal().min() >= 1 - 1e-6


CLOUDS, OF_EACH = 6, 120


def clouds(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Six clouds of 120 rows that do not touch, of three classes; float32 (720, 5) by lot, and the classes."""
    generator = np.random.default_rng(seed)
    centres = 10 * np.eye(CLOUDS, 5) - 10 * (np.arange(CLOUDS) == 5)[:, None]
    cloud = generator.permutation(np.repeat(np.arange(CLOUDS), OF_EACH))
    rows = centres[cloud] + generator.normal(size=(len(cloud), 5))
    return rows.astype(np.float32), cloud % 3


def told(y: np.ndarray, deviation: float, seed: int) -> Shares:
    noise = deviation * np.random.default_rng(seed).normal(size=(len(y), 3))
    return Shares(np.eye(3)[y] + noise, np.full(len(y), deviation))


@pytest.mark.parametrize(
    ("asked", "deviation"), [(720, 1e-3), (720, 1.5), (200, 0.8), (30, 0.2)], ids=["exact", "all", "some", "few"]
)
def test_like_rows_share_what_they_were_told(asked: int, deviation: float) -> None:
    """With noise 1.5 the largest share of a single row is right in half of the cases; here every row's is. A cloud of
    120 rows has a mean with deviation 0.14, a gap of 1 is seven times as much as that of a difference: one false alarm
    in 10^10."""
    rows, y = clouds(0)
    shares = smooth_shares(rows, told(y[:asked], deviation, 1), neighbours=10)
    assert shares.shape == (720, 3)
    assert (shares.argmax(axis=1) == y).mean() == 1


@pytest.mark.parametrize("total", [300, 900], ids=["dense", "sparse"])
def test_smoothest_functions_are_eigenvectors(total: int) -> None:
    rows = np.random.default_rng(0).normal(size=(total, 3)).astype(np.float32)
    graph = neighbour_graph(*nearest_rows(rows, 10))
    values, vectors = smoothest(graph, 8)
    assert values[0] == pytest.approx(1, abs=1e-4)
    assert (np.diff(values) <= 0).all()
    np.testing.assert_allclose(graph @ vectors, vectors * values, atol=1e-3)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(8), atol=1e-6)


@pytest.mark.parametrize("classes", [2, 3])
def test_the_most_probable_softmax_is_where_an_optimiser_without_slopes_ends(classes: int) -> None:
    """Rows with noise of their own, so that each must weigh as it should; the loss is written down anew."""
    generator = np.random.default_rng(classes)
    features, deviation = generator.standard_normal((30, 2)), generator.uniform(0.05, 0.6, 30)
    truth = softmax(features @ generator.standard_normal((2, classes)), axis=1)
    told = Shares(truth + deviation[:, None] * generator.standard_normal(truth.shape), deviation)
    basis = contrasts(classes)

    def loss(flat: np.ndarray) -> float:
        missed = (softmax(flat[0:classes] + features @ flat[classes:].reshape(2, -1), axis=1) - told.shares) @ basis
        prior = (flat[:classes] ** 2).sum() / 9 + (flat[classes:] ** 2).sum()
        return float((missed**2 / deviation[:, None] ** 2).sum() + prior) / 2

    slow = minimize(loss, np.zeros(3 * classes), method="BFGS", options={"gtol": 1e-8}).x
    expected = softmax(slow[:classes] + features @ slow[classes:].reshape(2, -1), axis=1)
    np.testing.assert_allclose(most_probable(features, told), expected, atol=1e-3)


VOTES, DRAWS = 200, 200_000
DEVIATIONS = 5.0
"""A right likelihood fails a comparison with draws once in 1,700,000 seeds; seeds are fixed."""

GNMAX = LabelLaw(votes=VOTES, deviation=40.0)
CONFIDENT = replace(GNMAX, threshold=120.0, check_deviation=60.0)
IN_SUMS = replace(CONFIDENT, cell_deviation=35.0)
INTERACTIVE = replace(CONFIDENT, threshold=30.0, predicted=True)
LAWS = {"GNMax": GNMAX, "Confident": CONFIDENT, "noise in sums": IN_SUMS, "Interactive": INTERACTIVE}
WINNER = replace(GNMAX, deviation=0.0)


def shares_of(rows: int, classes: int, seed: int = 0) -> np.ndarray:
    return softmax(np.random.default_rng(seed).normal(size=(rows, classes)), axis=1)


def outcomes_of(law: LabelLaw, rows: int, classes: int, seed: int = 0) -> Outcomes:
    """Some of each outcome that the law has."""
    generator = np.random.default_rng(seed)
    kinds = [Outcome.ANSWERED] if law.threshold is None else [Outcome.ANSWERED, Outcome.ABSTAINED, Outcome.REINFORCED]
    outcomes = generator.choice(np.array(kinds, dtype=np.int64), rows)
    labels = np.where(outcomes == Outcome.ABSTAINED, NO_LABEL, generator.integers(0, classes, rows))
    return Outcomes(labels, outcomes, classes, law, shares_of(rows, classes, seed + 1) if law.predicted else None)


def probability(law: LabelLaw, shares: np.ndarray, label: int, predictions: np.ndarray | None = None) -> float:
    """Of this label, or of no answer, at shares (classes,)."""
    outcome = Outcome.ABSTAINED if label == NO_LABEL else Outcome.ANSWERED
    predicted = None if predictions is None else predictions[None]
    told = Outcomes(np.array([label]), np.array([outcome]), len(shares), law, predicted)
    return math.exp(-likelihood_of(told).loss(shares[None])[0])


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS.keys())
@pytest.mark.parametrize("classes", [2, 5])
def test_an_outcome_is_as_probable_as_it_is_among_draws(law: LabelLaw, classes: int) -> None:
    """The scatter is drawn for the check and for the label, as the likelihood has it."""
    generator = np.random.default_rng(3)
    shares, predicted = shares_of(1, classes, 4)[0], shares_of(1, classes, 5)[0]
    expected = predicted if law.predicted else np.zeros(classes)

    def noisy(deviation: float) -> np.ndarray:
        spread = math.hypot(deviation, SCATTER * VOTES)
        return VOTES * shares + spread * generator.standard_normal((DRAWS, classes))

    labels = noisy(law.deviation).argmax(axis=1)
    if law.threshold is not None:
        top = (noisy(law.cell_deviation) - VOTES * expected).max(axis=1)
        passed = top + law.check_deviation * generator.standard_normal(DRAWS) >= law.threshold
        labels = np.where(passed, labels, NO_LABEL)
    for label in range(NO_LABEL if law.threshold is not None else 0, classes):
        found, share = probability(law, shares, label, predicted), float((labels == label).mean())
        assert abs(found - share) < DEVIATIONS * math.sqrt(found * (1 - found) / DRAWS)


@pytest.mark.parametrize("classes", [2, 35, 150])
@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS.keys())
def test_outcomes_are_all_that_can_happen(law: LabelLaw, classes: int) -> None:
    shares, predicted = shares_of(1, classes, 4)[0], shares_of(1, classes, 5)[0]
    labels = range(NO_LABEL if law.threshold is not None else 0, classes)
    assert sum(probability(law, shares, label, predicted) for label in labels) == pytest.approx(1, abs=3e-4)


TOLD: dict[str, Told] = {
    f"{name}, {classes}": outcomes_of(law, 12, classes) for name, law in LAWS.items() for classes in (2, 4)
}
TOLD["counts"] = Shares(shares_of(12, 4) + 0.1, np.linspace(0.1, 0.5, 12))


@pytest.mark.parametrize("told", TOLD.values(), ids=TOLD.keys())
def test_the_slope_is_that_of_differences(told: Told) -> None:
    likelihood, shares = likelihood_of(told), shares_of(len(told), told.classes, 7)
    for direction in np.random.default_rng(0).normal(size=(4, *shares.shape)):
        direction -= direction.mean(axis=1, keepdims=True)
        ahead, behind = (likelihood.loss(shares + step * direction)[0] for step in (1e-5, -1e-5))
        expected = (ahead - behind) / 2e-5
        assert float((likelihood.loss(shares)[1] * direction).sum()) == pytest.approx(expected, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS.keys())
def test_the_information_is_the_mean_square_of_the_slope(law: LabelLaw) -> None:
    """Over all that can happen; so it is positive semi-definite, and of the shares' differences alone."""
    classes = 4
    shares, predicted = shares_of(1, classes, 4), shares_of(1, classes, 5)
    expected = np.zeros((classes, classes))
    for label in range(NO_LABEL if law.threshold is not None else 0, classes):
        outcome = Outcome.ABSTAINED if label == NO_LABEL else Outcome.ANSWERED
        likelihood = likelihood_of(Outcomes(np.array([label]), np.array([outcome]), classes, law, predicted))
        loss, slope = likelihood.loss(shares)
        expected += math.exp(-loss) * np.outer(slope[0], slope[0])
    root = likelihood.information(shares, slice(None))[0]
    np.testing.assert_allclose(root.T @ root, expected, rtol=1e-4, atol=1e-4)


ABSTAINED = np.full(12, Outcome.ABSTAINED)
ODD_OUTCOMES = {
    "some of each": outcomes_of(CONFIDENT, 12, 3),
    "no answer": Outcomes(np.full(12, NO_LABEL), ABSTAINED, 3, CONFIDENT),
    "one class": Outcomes(np.zeros(12, dtype=np.int64), np.full(12, Outcome.ANSWERED), 3, WINNER),
}


@pytest.mark.parametrize("case", ODD_OUTCOMES)
@pytest.mark.parametrize("spec", [SPECS[name] for name in ("logistic regression", "graph", "estimator")])
def test_every_student_makes_probabilities_of_whatever_it_was_told(spec: StudentSpec, case: str) -> None:
    told, x = ODD_OUTCOMES[case], np.random.default_rng(0).normal(size=(12, 3))
    trainer = trainer_of(spec.trainer, x + 1)
    first = replace(told, labels=told.labels[:1], outcomes=told.outcomes[:1])
    for rows, part in ((x, told), (x[:1], first), (0 * x, told)):
        probabilities = trainer.fit_told(rows, part, 0).predict_proba(np.concatenate([x, 100 * x]))
        assert probabilities.shape == (24, 3)
        np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-5)
        assert (probabilities >= 0).all()
