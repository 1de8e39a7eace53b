"""The cost of the sanitised release against the golden files."""

from __future__ import annotations

import pytest

from consilium.accounting.curves.gnss import gnss_cost
from tests.accounting.papers import gnss_cost_published

close = pytest.approx


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
