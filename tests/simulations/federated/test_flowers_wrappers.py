"""What Flower's private wrappers do by themselves: why this project gives them equal weights, an accountant and answers
without gaps, and leaves the adaptive ones out. Where a test fails after an upgrade, docs/federated.md needs a look.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from flwr.app import Context, Error, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import (
    DifferentialPrivacyServerSideAdaptiveClipping,
    DifferentialPrivacyServerSideFixedClipping,
    FedAvg,
    Strategy,
)

from consilium.accounting.units import Neighbouring
from consilium.simulations.federated.client_app import ARRAYS, METRICS, WEIGHT, as_record
from consilium.simulations.federated.in_process_grid import InProcessGrid
from consilium.simulations.federated.party_privacy import PartyPrivacy

CLIP = 1.0
Update = Callable[[int], np.ndarray | None]


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logger = logging.getLogger("flwr")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(before)


def answering(update: Update, weights: list[int], losses: list[float] | None = None) -> ClientApp:
    """Parties that add `update(index)` to the model; None for an answer with an error."""
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        index = int(context.node_config["partition-id"])
        change = update(index)
        if change is None:
            return Message(Error(code=500, reason="failed"), reply_to=message)
        model = message.content.array_records[ARRAYS].to_numpy_ndarrays()[0] + change
        metrics: dict[str, int | float] = {WEIGHT: weights[index]}
        if losses:
            metrics["loss"] = losses[index]
        return Message(RecordDict({ARRAYS: as_record(model), METRICS: MetricRecord(metrics)}), reply_to=message)

    return app


def averaging() -> FedAvg:
    return FedAvg(1.0, 0.0, 1, 0, 1)


def without_noise(parties: int) -> Strategy:
    """Clipping alone, so that it is seen how far one party moves the average."""
    return DifferentialPrivacyServerSideFixedClipping(averaging(), 0.0, CLIP, parties)


def average(strategy: Strategy, update: Update, weights: list[int], rounds: int = 1) -> np.ndarray:
    grid = InProcessGrid(answering(update, weights), len(weights))
    arrays = strategy.start(grid, as_record(np.zeros(2)), num_rounds=rounds).arrays
    return arrays.to_numpy_ndarrays()[0] if len(arrays) else np.zeros(2)


def moved_by_the_first(weights: list[int]) -> float:
    """How far the average moves where the first party turns from one direction to the opposite."""

    def turned(sign: int) -> Update:
        return lambda index: np.array([sign * 50.0, 0.0]) if index == 0 else np.array([0.0, 50.0])

    strategy = without_noise(len(weights))
    one, other = (average(strategy, turned(sign), weights) for sign in (1, -1))
    return float(np.linalg.norm(one - other))


@pytest.mark.parametrize(
    ("weights", "expected"),
    [([10, 10, 10, 10], 2 * CLIP / 4), ([97, 1, 1, 1], 2 * CLIP * 0.97), ([1, 33, 33, 33], 2 * CLIP * 0.01)],
)
def test_with_unequal_weights_the_noise_is_for_another_sensitivity(weights: list[int], expected: float) -> None:
    """Flower's noise is that of C / n; a party with most of the rows moves the average almost four times as far."""
    assert moved_by_the_first(weights) == pytest.approx(expected)


def test_with_an_accountant_flower_refuses_unequal_weights() -> None:
    privacy = PartyPrivacy(1.0, 1e-5, Neighbouring.REPLACE, CLIP)
    strategy = privacy.around(averaging(), 2, 1, privacy.accountant(2))
    with pytest.raises(ValueError, match="equal client weights"):
        average(strategy, lambda index: np.ones(2), [5, 6])


def test_a_party_that_fails_is_neither_replaced_nor_left_out_the_round_is_lost() -> None:
    failing: Update = lambda index: None if index == 2 else np.ones(2)  # noqa: E731
    assert average(averaging(), failing, [1, 1, 1]).tolist() == [1.0, 1.0]
    assert average(without_noise(3), failing, [1, 1, 1], rounds=3).tolist() == [0.0, 0.0]


def test_an_update_of_zero_ends_the_run() -> None:
    with pytest.raises(ZeroDivisionError):
        average(without_noise(2), lambda index: np.zeros(2), [1, 1])


def test_an_update_that_is_no_number_passes_the_clipping() -> None:
    assert np.isnan(average(without_noise(2), lambda index: np.full(2, np.nan), [1, 1])).all()


def test_metrics_of_the_parties_get_no_noise() -> None:
    strategy = DifferentialPrivacyServerSideFixedClipping(averaging(), 50.0, CLIP, 2)
    grid = InProcessGrid(answering(lambda index: np.ones(2), [1, 1], losses=[0.25, 0.75]), 2)
    result = strategy.start(grid, as_record(np.zeros(2)), num_rounds=1)
    assert dict(result.train_metrics_clientapp[1]) == {"loss": 0.5}


class TestAdaptive:
    """Andrew et al. 2021 (arXiv 1905.03871): a norm below which a given share of the updates lies."""

    @pytest.mark.parametrize(("length", "grows"), [(50.0, False), (1e-3, True)])
    def test_the_norm_runs_away_from_the_quantile(self, length: float, grows: bool) -> None:
        """Where all updates are longer than the norm it should grow, where all are shorter it should fall."""
        strategy = DifferentialPrivacyServerSideAdaptiveClipping(averaging(), 0.0, 4, initial_clipping_norm=CLIP)
        average(strategy, lambda index: np.array([length, 0.0]), [1] * 4, rounds=5)
        assert (strategy.clipping_norm > CLIP) is grows

    def test_the_noise_is_for_the_next_norm_and_not_for_the_one_that_clipped(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        strategy = DifferentialPrivacyServerSideAdaptiveClipping(
            averaging(), 1e-3, 4, initial_clipping_norm=CLIP, clipped_count_stddev=1e-3
        )
        at: list[float] = []
        add = strategy._add_noise_to_aggregated_arrays
        monkeypatch.setattr(
            strategy,
            "_add_noise_to_aggregated_arrays",
            lambda arrays: at.append(strategy.clipping_norm) or add(arrays),
        )
        average(strategy, lambda index: np.array([50.0, 0.0]), [1] * 4)
        assert at[0] < 0.95 * CLIP
