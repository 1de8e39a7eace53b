"""The bound on local sensitivity for integer noise: where it fails, and that it is refused there."""

from __future__ import annotations

import numpy as np
import pytest

from consilium.accounting.curves.gaussian import rdp_data_dependent
from consilium.accounting.errors import NoiseError
from consilium.accounting.events import GNMaxEvent
from consilium.accounting.sanitise import smooth
from consilium.accounting.sanitise.release import SanitisedPlan, check_plan
from consilium.accounting.sanitise.smooth import (
    LabelProfile,
    conditions,
    envelope_tails,
    local_sensitivity,
    sensitivity_curve,
)
from consilium.accounting.units import Noise
from tests.accounting.events.examples import common


def excess(sigma: float, order: float, k: int) -> float:
    """Most by which one moved vote changes the cost of two-class rows beyond the bound, relative to the change."""
    tails = envelope_tails(sigma, int(15 * sigma), Noise.DISCRETE)
    curve = sensitivity_curve(sigma, 2, [order], k)
    if not all(np.all(holds) for holds in conditions(curve, float(tails[-1]))):
        return 0.0  # refused for that reason already
    cost = rdp_data_dependent(np.minimum(tails, 0.0), sigma, [order], k)[:, 0]
    bound = local_sensitivity(tails, curve)[:, 0]
    change = np.abs(cost[:-2] - cost[2:])  # (a, b) -> (a + 1, b - 1): the gap grows by 2
    return float(np.max((change - np.minimum(bound[:-2], bound[2:]))[change > 1e-9] / change[change > 1e-9]))


@pytest.mark.parametrize("sigma", [1.0, 1.5])
def test_the_bound_fails_below_2(sigma, monkeypatch):
    """The control, with the limit as it was: (11, 9) -> (12, 8) at sigma 1, order 1.5, k 2 changes 1.70984."""
    monkeypatch.setattr(smooth, "LEAST_LATTICE_SIGMA", 1.0)
    assert max(excess(sigma, order, k) for order in (1.5, 2.0, 4.0) for k in (1, 2)) > 1e-10
    tails = envelope_tails(1.0, 4, Noise.DISCRETE)
    cost = rdp_data_dependent(tails, 1.0, [1.5], 2)[:, 0]
    assert round(cost[2] - cost[4], 5) == 1.70984
    assert round(local_sensitivity(tails[2:3], sensitivity_curve(1.0, 2, [1.5], 2))[0, 0], 5) == 1.70966


@pytest.mark.parametrize("sigma", [2.0, 2.5, 4.0, 40.0])
def test_the_bound_holds_from_2_on(sigma):
    assert max(excess(sigma, order, k) for order in (1.5, 2.0, 4.0) for k in (1, 2)) < 1e-10


@pytest.mark.parametrize("sigma", [0.5, 1.0, 1.5, 1.999])
def test_every_way_to_the_bound_is_closed(sigma):
    votes = np.array([[11, 9]])
    plan = SanitisedPlan(order=1.5, beta=0.1, sigma_ss=5.0)
    for call in (
        lambda: envelope_tails(sigma, 20, Noise.DISCRETE),
        lambda: LabelProfile(votes, 20, sigma, Noise.DISCRETE, np.array([1.5]), 1, np.ones(1)),
        lambda: check_plan(plan, GNMaxEvent(sigma=sigma, **common()), teachers=20, classes=2),
    ):
        with pytest.raises(NoiseError, match="is below 2"):
            call()
    envelope_tails(sigma, 20, Noise.CONTINUOUS)
