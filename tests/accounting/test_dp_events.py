"""To and from dp-accounting: its own accountants give what is promised here."""

from __future__ import annotations

import builtins
import math
import sys

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from scipy.optimize import brentq

from consilium import accounting
from consilium.accounting.aggregators import as_aggregator
from consilium.accounting.curves.conversion import DEFAULT_ORDERS
from consilium.accounting.curves.laplace import rdp_laplace
from consilium.accounting.errors import EventError, MissingPackageError
from consilium.accounting.events import ImmutableEvent, ImmutableGaussianEvent, StableEvent
from consilium.accounting.label_costs import worst_case, worst_case_as_histogram
from consilium.accounting.units import Neighbouring, Noise, Towards, Unit

CLAIM = {
    "unit": Unit.PARTY,
    "neighbouring": Neighbouring.REPLACE,
    "teachers_per_party": 1,
    "towards": Towards.STUDENT,
    "noise": Noise.CONTINUOUS,
}
RELEASES = [
    ("GNMax(sigma=40)", 640, 640),
    ("Confident(threshold=200, sigma1=150, sigma2=40)", 640, 283),
    ("Interactive(threshold=200, sigma1=150, sigma2=40)", 640, 0),
    ("LNMax(gamma=0.05)", 100, 100),
    ("Histogram(sigma=67)", 30, 30),
    ("Distributed(sigma=40, noise_shares=25)", 640, 640),
]
releases = pytest.mark.parametrize(("words", "asked", "answered"), RELEASES)


def rdp_there(event: dp_event.DpEvent) -> np.ndarray:
    """dp-accounting's Renyi curve: float64 (orders,)."""
    accountant = RdpAccountant(list(DEFAULT_ORDERS))
    accountant.compose(event)
    return accountant._rdp


def released(words, asked, answered, **change):
    return as_aggregator(words).event(asked, answered, **(CLAIM | change))


def rdp_of_histograms(event):
    """Of the whole histogram, by the closed forms: float64 (orders,)."""
    k = event.votes_moved
    if event.laplace_gamma is not None:
        return event.answered * rdp_laplace(event.laplace_gamma, DEFAULT_ORDERS, k, noise=event.noise)
    return sum(
        n * DEFAULT_ORDERS * k**2 / ((2 if scalar else 1) * sigma**2) for n, sigma, scalar, _ in event.gaussian_parts()
    )


@releases
@pytest.mark.parametrize("k", [1, 3])
def test_the_same_curve_there(words, asked, answered, k):
    event = released(words, asked, answered, teachers_per_party=k)
    np.testing.assert_allclose(rdp_there(accounting.to_dp_event(event)), rdp_of_histograms(event), rtol=1e-9)


@releases
def test_the_same_epsilon_there(words, asked, answered):
    """The published worst case, on the same orders."""
    event = released(words, asked, answered)
    accountant = RdpAccountant(list(DEFAULT_ORDERS))
    accountant.compose(accounting.to_dp_event(event))
    here = worst_case_as_histogram(event, 1e-5)
    there = accountant.get_epsilon(1e-5)
    if event.gaussian_parts() is None:
        assert here.epsilon == pytest.approx(there, rel=1e-9)
    else:
        assert here.epsilon < there  # composed exactly, without Renyi curves


@pytest.mark.parametrize(("words", "asked", "answered"), [row for row in RELEASES if "LNMax" not in row[0]])
@pytest.mark.parametrize("k", [1, 3])
def test_there_and_back(words, asked, answered, k):
    event = released(words, asked, answered, teachers_per_party=k)
    there = accounting.to_dp_event(event)
    back = accounting.from_dp_event(there, **(CLAIM | {"teachers_per_party": k}))
    np.testing.assert_allclose(rdp_there(accounting.to_dp_event(*back)), rdp_there(there), rtol=1e-12)
    assert {one.teachers_per_party for one in back} == {k}


def test_discrete_laplace_noise_is_said_to_be_discrete():
    event = released("LNMax(gamma=0.05)", 100, 100, noise=Noise.DISCRETE, teachers_per_party=3)
    there = accounting.to_dp_event(event)
    assert there == dp_event.SelfComposedDpEvent(dp_event.DiscreteLaplaceDpEvent(0.05, 3), 200)


def epsilon_of_one_histogram(sigma, delta):
    """Exact, of discrete Gaussian noise on the two counts that one moved vote changes."""
    x = np.arange(-math.ceil(14 * sigma) - 2, math.ceil(14 * sigma) + 3)
    one = np.exp(-(x**2) / (2 * sigma**2))
    law = np.convolve(one, one) / one.sum() ** 2
    moved = np.append(law[2:], [0.0, 0.0])
    return brentq(lambda epsilon: np.maximum(law - math.exp(epsilon) * moved, 0).sum() - delta, 0, 100)


@pytest.mark.parametrize(("sigma", "delta", "ratio"), [(0.5, 1e-2, 1.03), (5.0, 1e-5, 1.001), (10.0, 1e-5, 1.0002)])
def test_of_integer_noise_the_renyi_accountant_alone_holds(sigma, delta, ratio):
    """The PLD accountant composes the profile of continuous noise, and is too low by so much; here it is exact."""
    event = released(f"Histogram(sigma={sigma})", 1, 1, noise=Noise.DISCRETE)
    exact, renyi, profile = epsilon_of_one_histogram(sigma, delta), RdpAccountant(), PLDAccountant()
    for accountant in (renyi, profile):
        accountant.compose(accounting.to_dp_event(event))
    assert exact <= renyi.get_epsilon(delta)
    assert 1 < exact / profile.get_epsilon(delta) < ratio
    assert exact <= worst_case(event, delta).epsilon * (1 + 1e-9)


def test_several_releases_and_none():
    one, two = (released(*row) for row in RELEASES[:2])
    both = accounting.to_dp_event(one, two)
    np.testing.assert_allclose(
        rdp_there(both), rdp_there(accounting.to_dp_event(one)) + rdp_there(accounting.to_dp_event(two))
    )
    assert len(accounting.from_dp_event(dp_event.SelfComposedDpEvent(both, 2), **CLAIM)) == 3
    assert accounting.to_dp_event() == dp_event.NoOpDpEvent()
    assert accounting.to_dp_event(one.with_counts(0, 0)) == dp_event.NoOpDpEvent()
    assert accounting.from_dp_event(dp_event.NoOpDpEvent(), **CLAIM) == ()


def test_what_is_not_private_is_not_private_there():
    for event in (
        ImmutableEvent(**CLAIM, asked=3, answered=3, gamma=0.05, constant=100),
        ImmutableGaussianEvent(**CLAIM, asked=3, answered=3, sigma=40.0, constant=216),
    ):
        assert accounting.to_dp_event(event) == dp_event.NonPrivateDpEvent()


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (StableEvent(**CLAIM, asked=9, answered=9, threshold=9.0, sigma=4.0), "may fail"),
        (released("Distributed(sigma=10, noise_shares=100)", 9, 9, noise=Noise.DISCRETE), "neither Gaussian"),
    ],
)
def test_what_has_no_equal_there(event, words):
    with pytest.raises(EventError, match=words):
        accounting.to_dp_event(event)


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (dp_event.NonPrivateDpEvent(), "NonPrivateDpEvent has no equal here"),
        (dp_event.PoissonSampledDpEvent(0.1, dp_event.GaussianDpEvent(1.0)), "PoissonSampledDpEvent has no equal"),
        (dp_event.SelfComposedDpEvent(dp_event.LaplaceDpEvent(20.0), 4), "LaplaceDpEvent has no equal here"),
        (dp_event.DiscreteLaplaceDpEvent(0.05, 1), "DiscreteLaplaceDpEvent has no equal here"),
    ],
)
def test_what_has_no_equal_here(event, words):
    with pytest.raises(EventError, match=words):
        accounting.from_dp_event(event, **CLAIM)


def test_without_the_package_the_error_says_how_to_install_it(monkeypatch):
    real = builtins.__import__

    def absent(name, *rest, **more):
        if name.split(".")[0] == "dp_accounting":
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", absent)
    for module in [name for name in sys.modules if name.split(".")[0] == "dp_accounting"]:
        monkeypatch.delitem(sys.modules, module)
    for call in (lambda: accounting.to_dp_event(), lambda: accounting.from_dp_event(None, **CLAIM)):
        with pytest.raises(MissingPackageError, match="pip install 'dp-accounting"):
            call()
