"""GNMax and Confident against the published reference code, to 1e-9 relative."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from consilium.accounting.curves.conversion import DEFAULT_ORDERS, REFERENCE_ORDERS, rdp_to_epsilon
from consilium.accounting.curves.gaussian import (
    log_pr_answered,
    log_q_gnmax,
    log_q_threshold,
    rdp_data_dependent,
    rdp_gaussian,
    sum_rdp_data_dependent,
)

close = pytest.approx


def confident(votes, threshold, sigma1, sigma2, orders, k=1):  # pyright: ignore
    """(total, check) curves with the expected answered set, as the paper computes them."""
    top = votes.max(axis=1)
    log_p, _ = log_pr_answered(top, threshold, sigma1, "continuous")
    log_q_check = log_q_threshold(top, threshold, sigma1, "continuous")
    check = sum_rdp_data_dependent(log_q_check, sigma1, orders, k, scalar=True)
    log_q = log_q_gnmax(votes, sigma2, "continuous")
    label = sum_rdp_data_dependent(log_q, sigma2, orders, k, weights=np.exp(log_p))
    return check + label, check, float(np.exp(log_p).sum())


def test_gnmax(golden, golden_votes):
    for case in golden("gnmax.json"):
        votes = golden_votes(case["votes"])
        log_q = log_q_gnmax(votes, case["sigma"], "continuous")
        orders = np.array(case["orders"])
        assert log_q[:20] == close(np.array(case["logq_first20"]), rel=1e-9)
        assert log_q.sum() == close(case["logq_sum"], rel=1e-9)
        assert rdp_data_dependent(log_q[:20], case["sigma"], orders) == close(np.array(case["rdp_first20"]), rel=1e-9)
        total = sum_rdp_data_dependent(log_q, case["sigma"], orders)
        assert total == close(np.array(case["rdp_sum"]), rel=1e-9)
        first = sum_rdp_data_dependent(log_q[:1000], case["sigma"], orders)
        assert first == close(np.array(case["rdp_sum_first1000"]), rel=1e-9)
        curve = sum_rdp_data_dependent(log_q, case["sigma"], REFERENCE_ORDERS)
        bound = rdp_to_epsilon(curve, REFERENCE_ORDERS, case["delta"], "classic")
        assert bound.epsilon == close(case["eps_all_grid"], rel=1e-9)
        assert bound.order == close(case["order_all_grid"])
        worst = rdp_to_epsilon(
            case["n"] * rdp_gaussian(case["sigma"], REFERENCE_ORDERS), REFERENCE_ORDERS, case["delta"], "classic"
        )
        assert worst.epsilon == close(case["eps_all_data_independent"], rel=1e-9)


def test_confident(golden, golden_votes):
    for case in golden("confident_gnmax.json"):
        votes = golden_votes(case["votes"])[: case["n"]]
        args = case["T"], case["sigma1"], case["sigma2"]
        total, check, _ = confident(votes, *args, np.array(case["orders"]))
        assert total == close(np.array(case["rdp_total"]), rel=1e-9)
        assert check == close(np.array(case["rdp_step1"]), rel=1e-9)
        for point in case["checkpoints"]:
            total, check, expected = confident(votes[: point["queries"]], *args, REFERENCE_ORDERS)
            bound = rdp_to_epsilon(total, REFERENCE_ORDERS, case["delta"], "classic")
            assert expected == close(point["expected_answered"], rel=1e-9)
            assert bound.epsilon == close(point["eps"], rel=1e-9)
            assert bound.order == close(point["order"])
            at = int(np.flatnonzero(np.isclose(REFERENCE_ORDERS, point["order"]))[0])
            assert total[at] == close(point["rdp_total_at_order"], rel=1e-9)
            assert check[at] == close(point["rdp_step1_at_order"], rel=1e-9)
            worst = point["queries"] * rdp_gaussian(case["sigma1"], REFERENCE_ORDERS, scalar=True)
            worst = worst + expected * rdp_gaussian(case["sigma2"], REFERENCE_ORDERS)
            bound = rdp_to_epsilon(worst, REFERENCE_ORDERS, case["delta"], "classic")
            assert bound.epsilon == close(point["eps_data_independent"], rel=1e-9)


def test_conversion_cks_beats_classic_and_matches(golden, golden_votes):
    cases = {
        "mnistlike conf 640 T200 s150 s40": ("mnistlike", 640, 200, 150, 40),
        "mnistlike conf 8500 T300 s200 s40": ("mnistlike", 8500, 300, 200, 40),
        "mnistlike conf 1500 T300 s200 s40": ("mnistlike", 1500, 300, 200, 40),
        "glyphlike conf 12000 T1000 s500 s100": ("glyphlike", 12000, 1000, 500, 100),
        "glyphlike conf 12000 T5000 s1500 s100": ("glyphlike", 12000, 5000, 1500, 100),
    }
    seen = 0
    for row in golden("theory_checks.json")["conversion"]:
        if row["case"] not in cases:
            continue
        seen += 1
        name, n, *args = cases[row["case"]]
        curve, _, _ = confident(golden_votes(name)[:n], *args, REFERENCE_ORDERS)
        classic = rdp_to_epsilon(curve, REFERENCE_ORDERS, row["delta"], "classic")
        cks = rdp_to_epsilon(curve, REFERENCE_ORDERS, row["delta"])
        assert [classic.epsilon, classic.order] == close(row["mironov_grid"], rel=1e-9)
        assert [cks.epsilon, cks.order] == close(row["cks_grid"], rel=1e-9)
        assert cks.epsilon < classic.epsilon
    assert seen == len(cases)


def test_party_level(golden, golden_votes):
    parameters = {"mnistlike": (200, 150, 40, 1e-5), "glyphlike": (3500, 1500, 100, 1e-8)}
    for row in golden("theory_checks.json")["party_k"]:
        threshold, sigma1, sigma2, delta = parameters[row["votes"]]
        votes = golden_votes(row["votes"])[: row["n"]]
        epsilon, order = row["eps_dd"]
        curve, _, expected = confident(votes, threshold, sigma1, sigma2, [order], row["k"])
        assert rdp_to_epsilon(curve, [order], delta).epsilon == close(epsilon, rel=1e-9)
        epsilon, order = row["eps_ind"]
        worst = row["n"] * rdp_gaussian(sigma1, [order], row["k"], scalar=True)
        worst = worst + expected * rdp_gaussian(sigma2, [order], row["k"])
        assert rdp_to_epsilon(worst, [order], delta).epsilon == close(epsilon, rel=1e-9)


def test_published_mnist_votes(golden, mnist_votes):
    """The paper's table says 286 answers and epsilon 1.97; its own votes and formulas give these."""
    (row,) = golden("real_votes_mnist.json")
    assert hashlib.sha256(mnist_votes.tobytes()).hexdigest() == row["sha256_votes_int64"]
    votes = mnist_votes[: row["queries"]]
    total, _, expected = confident(votes, row["T"], row["sigma1"], row["sigma2"], REFERENCE_ORDERS)
    assert expected == close(row["expected_answered"], rel=1e-9)
    classic = rdp_to_epsilon(total, REFERENCE_ORDERS, row["delta"], "classic")
    assert [classic.epsilon, classic.order] == close(row["mironov"], rel=1e-9)
    epsilon, order = row["cks"]
    curve, _, _ = confident(votes, row["T"], row["sigma1"], row["sigma2"], [order])
    assert rdp_to_epsilon(curve, [order], row["delta"]).epsilon == close(epsilon, rel=1e-9)
    total, _, _ = confident(votes, row["T"], row["sigma1"], row["sigma2"], DEFAULT_ORDERS)
    assert rdp_to_epsilon(total, DEFAULT_ORDERS, row["delta"]).epsilon == close(1.7117, abs=5e-4)
