"""FedAvg as a method of a study: what it predicts, what it tells, and what it refuses."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from consilium.models.evaluation import evaluate
from consilium.simulations.divide import Case, make_case
from consilium.simulations.methods import federated
from consilium.simulations.methods.averaging import Federated
from consilium.simulations.methods.base import Predicted
from consilium.simulations.methods.federated import FedAvgMethod
from consilium.simulations.scenario import load_scenario

QUICK: dict[str, Any] = {"rounds": 3, "learning_rate": 0.2}
SIXTEEN = ["data.least_rows=150", "federation.minimum_parties=5"]


@pytest.fixture(scope="module")
def case() -> Case:
    """Sixteen hospitals."""
    return make_case(load_scenario("stroke", SIXTEEN), seed=0, home_share=0.2)


def auc(found: Predicted, case: Case) -> float:
    return evaluate(np.asarray(found.test), case.test_y, case.classes)["auc"]


@pytest.mark.parametrize(("epsilon", "expected"), [(2.0, 2.0), ("federation", 0.7974)])
def test_the_epsilon_is_the_one_that_was_asked_for(case: Case, epsilon: float | str, expected: float) -> None:
    method = FedAvgMethod.model_validate({**QUICK, "epsilon": epsilon, "clip": 0.1})
    figures = method.predict(case, None).figures
    assert figures["epsilon"] == pytest.approx(expected, abs=1e-4)
    assert figures["delta"] == 1e-5 and figures["parties_left_out"] == 0
    assert method.depends_on(case)["neighbouring"] == "replace"


def test_rate_and_norm_are_the_best_on_the_pool(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[tuple[float, float | None]] = []
    federate = federated.federate

    def run(parties: Any, classes: int, training: Any, rounds: int, seed: int, privacy: Any) -> Any:
        tried.append((training.learning_rate, privacy.clip if privacy else None))
        return federate(parties, classes, training, rounds, seed, privacy)

    monkeypatch.setattr(federated, "federate", run)
    values: list[float] = []
    judge = federated.row_scores

    def judged(probabilities: np.ndarray, y: np.ndarray, metric: Any) -> np.ndarray:
        assert (y == case.pool_y).all() and metric == "auc"
        scores = judge(probabilities, y, metric)
        values.append(scores.mean())
        return scores

    monkeypatch.setattr(federated, "row_scores", judged)
    figures = FedAvgMethod(rounds=2, epsilon=1.0).predict(case, None).figures
    rates, clips = federated.LEARNING_RATES, federated.CLIPS
    assert figures["learning_rate"] == rates[int(np.argmax(values[: len(rates)]))]
    assert figures["clip"] == clips[int(np.argmax(values[len(rates) :]))]
    rate, clip = figures["learning_rate"], figures["clip"]
    assert tried == [*((each, None) for each in rates), *((rate, each) for each in clips), (rate, clip)]


def test_a_federation_that_promises_nothing_is_absent(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    class Promise:
        epsilon = math.inf

    monkeypatch.setattr(federated, "promised", lambda config: Promise)
    method = FedAvgMethod(epsilon="federation")
    assert "no epsilon" in method.predict(case, None).absent


def test_without_a_round_that_gave_a_model_there_is_none(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(federated, "federate", lambda *_: Federated(np.zeros(1), 0, (0, 1)))
    assert "no round" in FedAvgMethod(**QUICK).predict(case, None).absent


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"epsilon": 0}, "epsilon"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"clip": 1.0}, "clip"),
        ({"rounds": 0}, "rounds"),
    ],
)
def test_keys_that_make_no_sense_are_refused(keys: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        FedAvgMethod.model_validate(keys)
