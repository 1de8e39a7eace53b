"""LNMax against the published reference code, and against its known mistake."""

from __future__ import annotations

import numpy as np
import pytest

from consilium.accounting.curves.conversion import REFERENCE_ORDERS, rdp_to_epsilon
from consilium.accounting.curves.laplace import PAPER_MOMENTS, log_q_lnmax, rdp_laplace, rdp_lnmax, sum_rdp_lnmax

close = pytest.approx


def test_eight_moments_and_full_grid(golden, golden_votes):
    for case in golden("lnmax.json"):
        votes = golden_votes(case["label"].split()[0])[: case["n"]]
        log_q = log_q_lnmax(votes, case["gamma"], "continuous")
        assert log_q[:10] == close(np.array(case["logq_first10"]), rel=1e-9)
        orders = PAPER_MOMENTS + 1
        curve = sum_rdp_lnmax(log_q, case["gamma"], orders, noise="continuous", baseline="paper")
        assert curve * PAPER_MOMENTS == close(np.array(case["logmgf"]), rel=1e-9)
        each = [rdp_to_epsilon(c, o, case["delta"], "classic").epsilon for c, o in zip(curve, orders, strict=True)]
        assert each == close(case["eps_per_l"], rel=1e-9)
        best = rdp_to_epsilon(curve, orders, case["delta"], "classic")
        assert best.epsilon == close(case["eps"], rel=1e-9)
        assert best.order == case["best_l"] + 1
        worst = case["n"] * rdp_laplace(case["gamma"], orders, noise="continuous", baseline="paper")
        assert rdp_to_epsilon(worst, orders, case["delta"], "classic").epsilon == close(
            case["eps_data_independent"], rel=1e-9
        )
        at = np.array([2.0, 3.0, 5.0, 9.0])
        rdp = sum_rdp_lnmax(log_q, case["gamma"], at, noise="continuous", baseline="paper")
        assert rdp == close(np.array(case["rdp_at_orders_2_3_5_9"]), rel=1e-9)
        full = sum_rdp_lnmax(log_q, case["gamma"], REFERENCE_ORDERS, noise="continuous", baseline="paper")
        bound = rdp_to_epsilon(full, REFERENCE_ORDERS, case["delta"], "classic")
        assert bound.epsilon == close(case["eps_rdp_grid"], rel=1e-9)
        assert bound.order == close(case["order_rdp_grid"])
        tighter = sum_rdp_lnmax(log_q, case["gamma"], REFERENCE_ORDERS, noise="continuous")
        assert np.all(tighter <= full)


def test_the_unsound_region_of_the_2017_code_is_not_used(golden):
    """There q < 1/2 was enough, and the formula gives negative moments. The true one, for the worst (2 gamma, 0)-DP
    mechanism with that q, is positive and below what is charged here without the noise's exact curve."""
    row = golden("theory_checks.json")["logmgf2017_unsound"]
    assert row["count"] > 0
    for pure, q, moment, published, true in row["examples"]:
        assert q > 1 / (np.exp(pure) + 1)
        order = [moment + 1.0]
        mine = rdp_lnmax([np.log(q)], pure / 2, order, noise="continuous", baseline="paper")[0, 0] * moment
        assert published < 0 < mine
        assert mine >= true * (1 - 1e-9)
