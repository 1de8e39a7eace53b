"""The benchmark of worth: half of the epsilon, and its table."""

from __future__ import annotations

import pytest

from benchmarks.worth import BASELINES, half_epsilon, row
from consilium.coordinator.privacy import promised
from consilium.simulations.scenario import load_scenario


@pytest.mark.slow
@pytest.mark.parametrize("name", ["stroke", pytest.param("adult-250", marks=pytest.mark.proofs)])
def test_half_the_epsilon_by_noise_alone(name: str) -> None:
    whole, half = load_scenario(name).federation, load_scenario(name, half_epsilon(name, [])).federation
    assert 0.49 < promised(half).epsilon / promised(whole).epsilon <= 0.5
    assert half.query_budget == whole.query_budget and half.privacy == whole.privacy


def run(seed: int, labels: int | None) -> dict:
    baselines = dict.fromkeys(BASELINES, 0.8) | {"noisy_average": None}
    return {
        **{"scenario": "trial", "half": False, "seed": seed, "epsilon": 0.9876, "metric": "auc", "released": 300},
        **{"student": 0.7 + 0.01 * seed, "by_hand": 0.75, **baselines},
        **{"hand_labels": labels, "low": 0, "high": None, "public_rows": 900},
    }


def test_a_row_has_means_deviations_and_medians() -> None:
    cells = row([run(seed, labels) for seed, labels in ((0, 100), (1, 130), (2, None))])
    means = ["0.710 ± 0.010", "0.750", "0.800", "–", "0.800", "0.800"]
    assert cells == ["trial", "3", "0.988", "AUC", "300", *means, "130 (0 to more than all)", "900"]
