"""Federated averaging: gradients as torch finds them, rounds that are a plain loop, noise; and as a study's method."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from scipy.stats import chi2, norm

from consilium.accounting.units import Neighbouring, Unit
from consilium.protocol.errors import EngineError
from consilium.simulations.divide import Case, make_case
from consilium.simulations.methods import fedavg
from consilium.simulations.methods.base import StatedGuarantee
from consilium.simulations.methods.fedavg import FedAvgMethod, LocalTraining, Rows, federate, gradient, train_locally
from tests.simulations.methods.cases import few

INPUTS = 3
TRAINING = LocalTraining(0.3, 1, batch=8, epochs=2)
PROMISE, CLIP = StatedGuarantee(1.0, 1e-5, Unit.PARTY, Neighbouring.REPLACE), 0.1


def made_up_parties(sizes: list[int], classes: int = 2, inputs: int = INPUTS, seed: int = 0) -> list[Rows]:
    """One for each size; classes whose means differ, in shares of each party's own."""
    generator = np.random.default_rng([seed, 11])
    means = generator.normal(size=(classes, inputs))
    found = []
    for size in sizes:
        y = generator.choice(classes, size=size, p=generator.dirichlet(np.ones(classes)))
        found.append(((means[y] + generator.normal(size=(size, inputs))).astype(np.float32), y))
    return found


def averaged(parties: list[Rows], training: LocalTraining, classes: int = 2, **more: Any) -> np.ndarray:
    model, left_out = federate(parties, classes, training, **{"seed": 3, **more})
    assert model is not None and left_out == ()
    return model


@pytest.mark.parametrize("classes", [2, 4])
def test_gradient_is_torchs(classes: int) -> None:
    generator = np.random.default_rng(classes)
    model, x = generator.normal(size=(7, classes)), generator.normal(size=(9, 6))
    y = generator.integers(classes, size=9)
    layer = torch.tensor(model, requires_grad=True)
    torch.nn.functional.cross_entropy(torch.tensor(x) @ layer[:-1] + layer[-1], torch.tensor(y)).backward()
    assert layer.grad is not None
    assert gradient(model, x, y) == pytest.approx(layer.grad.numpy(), rel=1e-10, abs=1e-12)


def trained_alone(given: np.ndarray, parties: list[Rows], round_: int, seed: int) -> list[np.ndarray]:
    """What each party makes of the model in this round."""
    return [
        train_locally(given, rows, TRAINING, np.random.default_rng([fedavg._ROUND, seed, index, round_]))
        for index, rows in enumerate(parties)
    ]


@pytest.mark.parametrize("classes", [2, 3])
def test_several_rounds_are_a_plain_loop(classes: int) -> None:
    sizes = [1, 5, 12, 40]
    parties, model = made_up_parties(sizes, classes), np.zeros((4, classes))
    for round_ in range(1, 5):
        model = np.average(trained_alone(model, parties, round_, seed=7), axis=0, weights=sizes)
    found = averaged(parties, TRAINING._replace(rounds=4), classes, seed=7)
    assert found == pytest.approx(model, rel=1e-9, abs=1e-12)


def test_a_party_whose_training_diverges_is_left_out_and_told_and_of_none_nothing_is_learned() -> None:
    parties = made_up_parties([20, 20, 20])
    broken = np.full((20, 3), np.inf, dtype=np.float32), parties[1][1]
    model, left_out = federate([parties[0], broken, parties[2]], 2, TRAINING, seed=4)
    alone = trained_alone(np.zeros((4, 2)), parties, 1, seed=4)
    assert left_out == (1,) and model == pytest.approx((alone[0] + alone[2]) / 2, rel=1e-12)
    assert federate([broken, broken], 2, TRAINING, seed=4) == (None, (0, 1))


def test_the_same_seed_gives_the_same_and_leaves_global_generators_alone(capfd: pytest.CaptureFixture[str]) -> None:
    def drawn(seed: int) -> np.ndarray:
        return averaged(made_up_parties([5] * 8), TRAINING._replace(rounds=3, clip=0.1), seed=seed, promise=PROMISE)

    np.random.seed(5)  # noqa: NPY002
    random.seed(5)
    first = drawn(3)
    after = (np.random.random(), random.random())  # noqa: NPY002
    np.random.seed(5)  # noqa: NPY002
    random.seed(5)
    assert after == (np.random.random(), random.random())  # noqa: NPY002
    assert (first == drawn(3)).all()
    assert (first != drawn(2**40)).any()
    assert capfd.readouterr() == ("", "")


def test_one_party_moves_a_round_by_2_c_over_n_and_no_more() -> None:
    parties = made_up_parties([50, 3, 3, 3])
    x, y = parties[0]
    # the same seed: the same noise, so that the difference is that of the averages
    first, *others = (
        averaged([each, *parties[1:]], TRAINING._replace(clip=CLIP), promise=PROMISE)
        for each in ((x, y), (-100 * x, 1 - y), (x, 1 - y))
    )
    limit = 2 * CLIP / len(parties)
    assert 0.9 * limit < max(float(np.linalg.norm(first - each)) for each in others) <= limit * (1 + 1e-9)


def noise_after(rounds: int, sizes: list[int]) -> np.ndarray:
    """In steps of so small a rate the parties move by 1e-9: what is left is noise."""
    return averaged(made_up_parties(sizes, inputs=2000), LocalTraining(1e-12, rounds, CLIP), seed=8, promise=PROMISE)


def test_the_noise_is_there_and_each_round_has_its_own() -> None:
    """Sum of squares against chi-square, and the mean against a normal law. False alarms: 2e-6 in all, seed fixed."""
    found = noise_after(1, [4, 9, 30])
    deviation = PROMISE.noise_multiplier(1) * CLIP / 3
    squares, count = float(((found / deviation) ** 2).sum()), found.size
    assert chi2.ppf(5e-7, count) < squares < chi2.ppf(1 - 5e-7, count)
    assert abs(found.mean()) < deviation / math.sqrt(count) * norm.ppf(1 - 5e-7)
    once, often = noise_after(1, [4, 9]), noise_after(4, [4, 9])
    expected = PROMISE.noise_multiplier(4) / PROMISE.noise_multiplier(1) * 2
    assert often.std() / once.std() == pytest.approx(expected, rel=0.05)


def test_parties_count_the_same_however_many_rows_they_have() -> None:
    parties, step = made_up_parties([2, 400]), LocalTraining(1.0, 1, clip=5.0, batch=400)
    small, large = (averaged([each], step) for each in parties)
    free = replace(PROMISE, epsilon=1e6)  # clips nothing, and has next to no noise
    found, weighted = averaged(parties, step, promise=free), averaged(parties, step)
    assert found == pytest.approx((small + large) / 2, abs=0.02)
    assert weighted == pytest.approx((2 * small + 400 * large) / 402, rel=1e-9)
    assert np.abs(weighted - found).max() > 0.1


@pytest.mark.parametrize("value", [np.nan, np.inf, 0.0], ids=["missing", "diverges", "learns nothing"])
def test_whatever_a_party_has_it_takes_part(value: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it gives no model all the same, private averaging ends."""
    parties = [*made_up_parties([4, 9]), (np.full((2, 3), value, dtype=np.float32), np.array([0, 1]))]
    training = TRAINING._replace(rounds=3, clip=CLIP)
    assert np.isfinite(averaged(parties, training, promise=PROMISE)).all()
    app = fedavg.party_app
    monkeypatch.setattr(fedavg, "party_app", lambda *given, private: app(*given, private=False))
    if value:
        with pytest.raises(EngineError, match="1 parties did not answer"):
            federate(parties, 2, training, 3, PROMISE)


# -- the method -------------------------------------------------------------------------------------------------------

QUICK: dict[str, Any] = {"rounds": 3, "learning_rate": 0.2}


@pytest.fixture(scope="module")
def case() -> Case:
    """Sixteen hospitals."""
    return make_case(few(), 0, 0.2)


@pytest.mark.parametrize(("epsilon", "expected"), [(2.0, 2.0), ("federation", None)])
def test_the_epsilon_is_the_one_that_was_asked_for(case: Case, epsilon: float | str, expected: float | None) -> None:
    method = FedAvgMethod.model_validate({**QUICK, "epsilon": epsilon, "clip": 0.1})
    figures = method.predict(case, None).figures
    assert figures["epsilon"] == pytest.approx(expected or fedavg.promised(case.config).epsilon, abs=1e-4)
    assert figures["delta"] == 1e-5 and figures["parties_left_out"] == 0
    assert method.depends_on(case)["neighbouring"] == "replace"


def test_rate_and_norm_are_the_best_on_the_pool(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[tuple[float, float]] = []
    values: list[float] = []
    federate, judge = fedavg.federate, fedavg.row_scores

    def run(parties: Any, classes: int, training: LocalTraining, *given: Any) -> Any:
        tried.append((training.rate, training.clip))
        return federate(parties, classes, training, *given)

    def judged(probabilities: np.ndarray, y: np.ndarray, metric: Any) -> np.ndarray:
        assert (y == case.pool_y).all() and metric == "auc"
        values.append((scores := judge(probabilities, y, metric)).mean())
        return scores

    monkeypatch.setattr(fedavg, "federate", run)
    monkeypatch.setattr(fedavg, "row_scores", judged)
    figures = FedAvgMethod(rounds=2, epsilon=1.0).predict(case, None).figures
    rates, clips = fedavg.LEARNING_RATES, fedavg.CLIPS
    rate, clip = rates[int(np.argmax(values[: len(rates)]))], clips[int(np.argmax(values[len(rates) :]))]
    assert (figures["learning_rate"], figures["clip"]) == (rate, clip)
    assert tried == [*((each, 0.0) for each in rates), *((rate, each) for each in clips), (rate, clip)]


def test_without_a_promise_or_a_round_there_is_none(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    class Promise:
        epsilon = math.inf

    monkeypatch.setattr(fedavg, "promised", lambda config: Promise)
    assert "no epsilon" in FedAvgMethod(epsilon="federation").predict(case, None).absent
    monkeypatch.setattr(fedavg, "federate", lambda *_: (None, (0, 1)))
    assert "no round" in FedAvgMethod(**QUICK).predict(case, None).absent


@pytest.mark.parametrize("keys", [{"epsilon": 0}, {"epsilon": math.nan}, {"clip": 1.0}, {"rounds": 0}], ids=str)
def test_keys_that_make_no_sense_are_refused(keys: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=min(keys)):
        FedAvgMethod.model_validate(keys)
