"""Every odd input has its exact value or its own error, and no NumPy warning."""

from __future__ import annotations

import math

import numpy as np
import pytest

from consilium.accounting import errors
from consilium.accounting.checks import check_votes
from consilium.accounting.curves import gaussian
from consilium.accounting.curves.conversion import EpsilonBound, rdp_to_epsilon
from consilium.accounting.curves.discrete import log_pr_loss_table
from consilium.accounting.curves.gaussian import log_pr_answered, log_q_gnmax, public_offsets, rdp_data_dependent
from consilium.accounting.curves.gdp import sigma_needed
from consilium.accounting.curves.gnss import gnss_cost
from consilium.accounting.curves.laplace import log_q_lnmax, rdp_lnmax
from consilium.accounting.mechanisms import Confident, GNMax, LNMax
from consilium.accounting.outcome import argmax
from consilium.accounting.vote_costs import epsilon
from consilium.accounting.worst.laplace import rdp_argmax_laplace
from consilium.accounting.worst.renyi import rdp_argmax, rdp_check

GOOD = np.array([[6, 3, 1], [10, 0, 0]])

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")


@pytest.mark.parametrize(
    ("votes", "message"),
    [
        (GOOD.astype(np.uint8), r"unsigned counts \(uint8\)"),
        (GOOD.astype(np.uint64), r"unsigned counts \(uint64\)"),
        (GOOD.astype(np.float64), r"float counts \(float64\) are not exact"),
        (np.array([[6.0, math.nan, 1.0]]), r"float counts \(float64\) hold NaN"),
        (GOOD > 0, "bool counts"),
        (np.array([["6", "4"]]), "not whole numbers"),
        (np.array([6, 3, 1]), "1 dimension"),
        (GOOD[None], "3 dimension"),
        (np.array([[10], [10]]), "at least 2 classes, got 1"),
        (np.array([[11, -1, 0]]), "negative count"),
        (np.array([[6, 3, 1], [6, 3, 2]]), r"do not sum to the 10 teachers \(first: query 1\)"),
    ],
)
def test_bad_votes(votes, message):
    with pytest.raises(errors.VotesError, match=message):
        check_votes(votes, 10)
    if "sum" not in message:
        with pytest.raises(errors.VotesError, match=message):
            log_q_gnmax(votes, 4.0, "discrete")
        with pytest.raises(errors.VotesError, match=message):
            log_q_lnmax(votes, 0.1, "continuous")


NAN, INF = math.nan, math.inf
WORST = (rdp_argmax, rdp_check, rdp_argmax_laplace)
REFUSED = [
    (errors.OrdersError, "order", lambda v: gaussian.rdp_gaussian(4.0, v), ([1.0], [NAN], [INF], [], [[2]])),
    *((errors.OrdersError, "order", lambda v, f=f: f(1.0, v, "discrete"), ([1.0], [])) for f in WORST),
    (errors.OrdersError, "order", lambda v: argmax.sum_rdp(GOOD, 4.0, "discrete", "gaussian", v), ([1.0],)),
    (errors.OrdersError, "rdp", lambda v: rdp_to_epsilon(v, [2.0], 1e-5), ([-0.1], [NAN])),
    (
        errors.NoiseError,
        "must be a finite",
        lambda v: gaussian.rdp_gaussian(v, [2.0]),
        (0.0, -1.0, NAN, INF, True, "4"),
    ),
    (errors.NoiseError, "must be a finite", lambda v: log_q_gnmax(GOOD, v, "discrete"), (0.0,)),
    (errors.NoiseError, "must be a finite", lambda v: log_q_lnmax(GOOD, v, "discrete"), (0.0,)),
    (errors.NoiseError, "must be a finite", lambda v: log_pr_answered([5], 4.0, v, "discrete"), (0.0,)),
    (errors.NoiseError, "must be a finite", lambda v: argmax.sum_rdp(GOOD, v, "discrete", "gaussian", [2.0]), (0.0,)),
    *((errors.NoiseError, "must be a finite", lambda v, f=f: f(v, [2.0], "discrete"), (0.0, NAN)) for f in WORST),
    (errors.NoiseError, "beta", lambda v: gnss_cost([2.0], v, 5.0), (0.0, -0.1, NAN)),
    (errors.DeltaError, "delta", lambda v: rdp_to_epsilon([0.1], [2.0], v), (0.0, 1.0, -1e-5, NAN, True, "1e-5")),
    (errors.DeltaError, "delta", lambda v: sigma_needed(10, 1.0, v), (0.0,)),
    (errors.CalibrationError, "needs noise above", lambda v: sigma_needed(10**6, v, 1e-15), (1e-30,)),
    (errors.NoiseError, "'discrete' or", lambda v: log_q_gnmax(GOOD, 4.0, v), ("gaussian", None, "DISCRETE")),
    (errors.NoiseError, "'discrete' or", lambda v: log_pr_answered([5], 4.0, 2.0, v), ("",)),
    (errors.NoiseError, "'discrete' or", lambda v: argmax.sum_rdp(GOOD, 4.0, v, "gaussian", [2.0]), ("pink",)),
    *((errors.NoiseError, "'discrete' or", lambda v, f=f: f(1.0, [2.0], v), ("pink",)) for f in WORST),
    (errors.UnitError, "one unit moves", lambda v: gaussian.rdp_gaussian(4.0, [2.0], v), (0, 1.5, True, "2", 1001)),
    *((errors.UnitError, "one unit moves", lambda v, f=f: f(1.0, [2.0], "discrete", v), (0, 1001)) for f in WORST),
    (
        errors.ThresholdError,
        "threshold",
        lambda v: log_pr_answered([5], v, 2.0, "discrete"),
        (-1.0, NAN, INF, "5", True),
    ),
    (
        errors.VotesError,
        "signed",
        lambda v: log_pr_answered(v, 4.0, 2.0, "discrete"),
        (GOOD[0].astype("u1"), [5.0], [[5]]),
    ),
    (errors.AccountingError, "log_q", lambda v: rdp_data_dependent(v, 4.0, [2.0]), ([NAN], [0.1], [[-1.0]])),
    (errors.AccountingError, "log_q", lambda v: rdp_lnmax(v, 0.1, [2.0], noise="discrete"), ([0.1],)),
    (
        errors.AccountingError,
        "weights",
        lambda v: gaussian.sum_over_queries(lambda q: rdp_data_dependent(q, 4.0, [2.0]), [-1.0], v),
        ([1.5], [NAN], [1, 1]),
    ),
]


@pytest.mark.parametrize(("error", "words", "call", "values"), REFUSED)
def test_what_cannot_be_has_its_own_error(error, words, call, values):
    for value in values:
        with pytest.raises(error, match=words):
            call(value)


def test_ties_are_losses_on_the_lattice_and_coin_flips_in_the_continuum():
    tie = np.array([[5, 5]])
    assert log_q_gnmax(tie, 4.0, "continuous")[0] == pytest.approx(math.log(0.5), rel=1e-12)
    lattice = log_q_gnmax(tie, 4.0, "discrete")[0]
    assert lattice == pytest.approx(log_pr_loss_table(4.0, 0)[0])
    assert lattice > math.log(0.5)
    assert rdp_data_dependent([lattice], 4.0, [3.0])[0, 0] == 3.0 / 16


def test_threshold_above_the_teachers_and_at_zero_are_exact():
    for noise in ("discrete", "continuous"):
        high, not_high = log_pr_answered([10], 300.0, 5.0, noise)
        assert high[0] < -1000
        assert not_high[0] == 0.0
        low, not_low = log_pr_answered([300], 0.0, 5.0, noise)
        assert low[0] == 0.0
        assert not_low[0] < -1000
        p, not_p = log_pr_answered(np.arange(40), 20.0, 5.0, noise)
        assert np.exp(p) + np.exp(not_p) == pytest.approx(np.ones(40), rel=1e-12)
    # a fraction is rounded up on the lattice
    a = log_pr_answered([7], 9.2, 3.0, "discrete")[0]
    assert a == log_pr_answered([7], 10.0, 3.0, "discrete")[0]
    assert a < log_pr_answered([7], 9.0, 3.0, "discrete")[0]


def test_half_is_rounded_up_before_any_vote_is_subtracted():
    """With x just above 1/2, rounding the difference turns one moved vote into a change of 2; this does not."""
    p = np.array([[np.nextafter(0.5, 1), 1 - np.nextafter(0.5, 1)]])
    assert public_offsets(p, 1).tolist() == [[1, 0]] or public_offsets(p, 1).tolist() == [[1, 1]]
    assert public_offsets([[0.5, 0.5]], 1).tolist() == [[1, 1]]
    x = np.nextafter(0.5, 1)
    assert math.floor(2 - x + 0.5) - math.floor(1 - x + 0.5) == 2
    with pytest.raises(errors.ThresholdError, match="within"):
        public_offsets([[1.5, -0.5]], 10)
    with pytest.raises(errors.ThresholdError):
        public_offsets([[math.nan, 0.5]], 10)


def test_infinite_curve_gives_an_infinite_epsilon():
    bound = rdp_to_epsilon([math.inf, math.inf], [2.0, 3.0], 1e-5)
    assert math.isinf(bound.epsilon)
    assert math.isnan(bound.order)
    assert rdp_to_epsilon([math.inf, 0.5], [2.0, 3.0], 1e-5).order == 3.0
    assert rdp_to_epsilon([0.0], [2.0], 0.9) == EpsilonBound(0.0, 2.0)


@pytest.mark.parametrize("mechanism", [GNMax(40), LNMax(0.05), Confident(2, 40, 40)], ids=repr)
@pytest.mark.parametrize("noise", ["discrete", "continuous"])
def test_counts_that_no_table_holds_are_refused_at_once(mechanism, noise):
    votes = np.array([[2**40, 7], [2**39, 2**39 + 7]])
    with pytest.raises(
        errors.VotesError, match=r"too large for exact tables, which go to 4,194,304\..*worst case"
    ) as error:
        epsilon(votes, mechanism, 1e-5, noise=noise)
    assert not any(str(count) in str(error.value).replace(",", "") for count in votes.ravel() if count > 9)


@pytest.mark.parametrize("mechanism", [GNMax(1e6), Confident(2, 1e7, 1e7)], ids=repr)
def test_noise_that_no_table_holds_is_refused_at_once(mechanism):
    votes = np.array([[5, 3], [4, 4]])
    with pytest.raises(errors.NoiseError, match=r"sigma 1e\+0[67] needs a table of .* at most 8,388,608 .*continuous"):
        epsilon(votes, mechanism, 1e-5, noise="discrete")
    assert epsilon(votes, mechanism, 1e-5, noise="continuous").worst_case >= 0
