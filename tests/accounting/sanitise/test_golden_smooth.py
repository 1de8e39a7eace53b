"""Local sensitivities, smooth sensitivity and the cost of the sanitised release against the golden files."""

from __future__ import annotations

import numpy as np
import pytest

from consilium.accounting.curves.conversion import conversion_cost
from consilium.accounting.curves.gaussian import log_pr_answered, rdp_gaussian
from consilium.accounting.curves.gnss import gnss_cost, gnss_cost_published, published_sigma_ss
from consilium.accounting.sanitise.smooth import (
    CheckProfile,
    LabelProfile,
    conditions,
    envelope_tails,
    label_profile,
    least_log_q,
    local_sensitivity,
    log_q_sorted,
    sensitivity_curve,
    smooth_sensitivity,
    sort_rows,
)
from consilium.accounting.units import Noise

close = pytest.approx
REAL = Noise.CONTINUOUS


def at_all(profile, distances):
    return profile.at(np.zeros(len(distances), dtype=np.int64), np.asarray(distances))


def expand(runs, length):
    out = np.zeros(length)
    for (start, value), end in zip(runs, [run[0] for run in runs[1:]] + [length], strict=True):
        out[start:end] = value
    return out


def test_local_sensitivities_of_24_histograms(golden, golden_votes):
    seen = 0
    for case in golden("smooth_sensitivity_vectors.json.gz"):
        votes, teachers, order = golden_votes(case["votes"]), case["teachers"], np.array([case["order"]])
        curve = sensitivity_curve(case["sigma2"], votes.shape[1], order)
        assert curve.log_q0[0] == close(case["logq0"], rel=1e-9)
        assert curve.log_q1[0] == close(case["logq1"], rel=1e-9)
        assert curve.plateau[0] == close(case["plateau"], rel=1e-9)
        least = least_log_q(teachers, votes.shape[1], case["sigma2"], REAL)
        assert [bool(holds[0]) for holds in conditions(curve, least)] == case["conditions_C5_C6"]
        tails = envelope_tails(case["sigma2"], teachers, REAL)
        distances = np.arange(teachers)
        for row in case["vectors"]:
            one = votes[row["idx"]][None]
            log_q = log_q_sorted(sort_rows(one), tails)
            if row["logq"] > -0.2:  # the golden value carries the cap 1 - 1/m
                assert log_q[0] >= row["logq"]
            else:
                assert log_q[0] == close(row["logq"], rel=1e-9)
            label = label_profile(one, teachers, case["sigma2"], REAL, order, 1, np.ones(1))
            expected = expand(row["ls_gnmax_rle"], row["ls_gnmax_len"])
            assert at_all(label, distances) == close(expected, rel=1e-9, abs=0)
            assert label.cost()[0] == close(row["rdp"], rel=1e-9)
            # The published walk takes the sensitivity at distance d exactly; the largest within d is what must be used.
            check = CheckProfile(one.max(axis=1), case["threshold"], case["sigma1"], REAL, order, 1, 0, teachers)
            sample = {int(d): v for d, v in row["ls_threshold_sample"].items()}
            mine = at_all(check, list(sample))
            assert np.all(mine >= np.array(list(sample.values())) * (1 - 1e-9))
            assert mine[0] == close(sample[0], rel=1e-9, abs=0)
            for beta in case["betas"]:
                key = next(k for k in row["ss_gnmax"] if float(k) == beta)
                assert smooth_sensitivity([label], order, [beta], teachers)[0] == close(row["ss_gnmax"][key], rel=1e-9)
                ss_check = smooth_sensitivity([check], order, [beta], teachers)[0]
                assert ss_check == close(row["ss_threshold"][key], rel=1e-9, abs=0)
            seen += 1
    assert seen == 24


def test_pipeline_of_the_published_code(golden, golden_votes):
    """Same sums, smooth sensitivity and (unsound) cost, for the beta that it picked."""
    for case in golden("smooth_sensitivity_pipeline.json"):
        order, teachers = np.array([case["order"]]), case["teachers"]
        for point in case["checkpoints"]:
            votes = golden_votes(case["votes"])[: point["queries"]]
            top = votes.max(axis=1)
            weights = np.exp(log_pr_answered(top, case["threshold"], case["sigma1"], "continuous")[0])
            assert weights.sum() == close(point["expected_answered"], rel=1e-9)
            label = LabelProfile(votes, teachers, case["sigma2"], REAL, order, 1, weights)
            profiles, rho = [label], label.cost()[0]
            check_is_flat = case["step1_data_independent"]
            check = CheckProfile(top, case["threshold"], case["sigma1"], REAL, order, 1, 0, teachers)
            if check_is_flat:
                rho += len(votes) * rdp_gaussian(case["sigma1"], order, scalar=True)[0]
            else:
                profiles.append(check)
                rho += check.cost()[0]
            epsilon = rho + conversion_cost(order, case["delta"], "classic")[0]
            assert epsilon == close(point["eps_before_ss"], rel=1e-9)
            distances = [int(d) for d in point["ls_sum_sample"]]
            mine = sum(at_all(profile, distances) for profile in profiles)
            expected = np.array(list(point["ls_sum_sample"].values()))
            smooth = smooth_sensitivity(profiles, order, [point["beta"]], teachers)[0]
            if check_is_flat:
                assert mine == close(expected, rel=1e-9)
                assert smooth == close(point["ss"], rel=1e-9)
                sigma_ss = published_sigma_ss(case["order"], point["beta"], smooth)
                assert sigma_ss == close(point["sigma_ss"], rel=1e-9)
                assert smooth * sigma_ss == close(point["noise_std"], rel=1e-9)
                cost = gnss_cost_published(case["order"], point["beta"], sigma_ss)
                assert cost == close(point["cost_ss"], rel=1e-9)
                assert epsilon + cost == close(point["eps_with_ss"], rel=1e-9)
            else:
                # The published sum takes each check at distance d exactly, which can be too small by a few per mille.
                assert np.all(mine >= expected * (1 - 1e-9))
                assert mine == close(expected, rel=5e-3)
                assert smooth == close(point["ss"], rel=1e-3)


def test_sound_cost_against_golden(golden):
    data = golden("gnss_check.json")
    for row in data["counterexamples"]:
        cost = gnss_cost([row["order"]], row["beta"], row["sigma"])[0]
        assert cost == close(row["closed_form"], rel=1e-9)
        assert cost == close(row["numeric_counterexample"], rel=1e-9)
        published = gnss_cost_published(row["order"], row["beta"], row["sigma"])
        assert published == close(row["theorem23_as_coded"], rel=1e-9)
    for row in golden("theory_checks.json")["gnss_tightness"]:
        cost = gnss_cost([row["order"]], row["beta"], row["sigma"])[0]
        assert cost == close(row["exact_gauss"], rel=1e-9)
        published = gnss_cost_published(row["order"], row["beta"], row["sigma"])
        assert published == close(row["theorem23"], rel=1e-9)
    for row in data["pipeline_effect"]:
        true = gnss_cost([row["order"]], row["ref_beta"], row["ref_sigma"])[0]
        assert true == close(row["true_cost_at_ref_params"], rel=1e-9)
        found = row["exact_opt"]
        assert gnss_cost([row["order"]], found["beta"], found["sigma"])[0] == close(found["cost"], rel=1e-9)
        assert 2 * found["ss"] * found["sigma"] == close(found["two_std"], rel=1e-9)


def test_where_the_published_cost_is_too_small(golden):
    """The table says, for order times beta, below which sigma_ss the published formula lies; orders 3, 8, 20, 60."""
    for share, cells in golden("more_checks.json")["gnss_violation_region"]:
        for cell in cells:
            assert cell == "never" or share >= 0.3


def test_sanitised_mnist(golden, mnist_votes):
    (row,) = golden("real_votes_mnist.json")
    want = row["sound_gnss_cks"]
    votes, order = mnist_votes[: row["queries"]], np.array([want["order"]])
    weights = np.exp(log_pr_answered(votes.max(axis=1), row["T"], row["sigma1"], "continuous")[0])
    label = label_profile(votes, 250, row["sigma2"], REAL, order, 1, weights)
    rho = label.cost()[0] + len(votes) * rdp_gaussian(row["sigma1"], order, scalar=True)[0]
    assert rho == close(want["rdp"], rel=1e-9)
    smooth = smooth_sensitivity([label], order, [want["beta"]], 250)[0]
    assert smooth == close(want["ss"], rel=1e-9)
    cost = gnss_cost(order, want["beta"], want["sigma_ss"])[0]
    assert cost == close(want["gnss_cost"], rel=1e-9)
    conversion = conversion_cost(order, row["delta"])[0]
    assert rho + cost + conversion == close(want["eps_with_ss"], rel=1e-9)
    assert smooth * want["sigma_ss"] == close(want["noise_std"], rel=1e-9)


def test_conditions_of_the_brute_force_settings(golden):
    for row in golden("brute_force_ls.json"):
        curve = sensitivity_curve(row["sigma"], row["m"], [row["order"]])
        found = conditions(curve, least_log_q(row["T"], row["m"], row["sigma"], REAL))
        assert str(tuple(bool(holds[0]) for holds in found)) == row["cond"]


def test_local_sensitivity_function_has_three_regimes():
    curve = sensitivity_curve(40.0, 10, [20.0])
    log_q = np.array([-10.0, -4.0, (curve.log_q0[0] + curve.log_q1[0]) / 2, curve.log_q0[0] + 0.05, -1.0])
    values = local_sensitivity(log_q, curve)[:, 0]
    assert values[0] < values[1] < values[2] == curve.plateau[0]
    assert 0 < values[3] < values[2]
    assert values[4] == 0
