"""``consilium accounting``: numbers, JSON on stdout, errors in one or two lines with their exit code."""

from __future__ import annotations

import inspect
import json

import numpy as np
import pytest

from consilium.accounting import cli
from consilium.accounting.curves.conversion import conversion_cost
from consilium.accounting.units import Noise
from consilium.accounting.vote_costs import calibrate, epsilon, guarantee
from tests.command_line import consilium

CONFIDENT = ["--mechanism", "confident", "--threshold", 60, "--sigma1", 30, "--sigma2", 10, "--delta", "1e-5"]
GNMAX = ["--mechanism", "gnmax", "--sigma", 20, "--delta", "1e-5"]
HISTOGRAM = ["--mechanism", "histogram", "--sigma", 20, "--delta", "1e-5"]
JSON = ["--format", "json"]


@pytest.fixture
def votes_file(tmp_path):
    votes = np.random.default_rng(2).multinomial(100, [0.8, 0.15, 0.05], size=60)
    np.savez(tmp_path / "votes.npz", votes=votes)
    return tmp_path / "votes.npz"


def invoke(*args):
    return consilium("accounting", *args)


def test_one_noise_unless_another_is_asked_for():
    for function in (epsilon, guarantee, calibrate, cli._given):
        assert inspect.signature(function).parameters["noise"].default is Noise.DISCRETE, function


def test_what_may_be_published_is_of_the_most_answers(votes_file):
    every, few = (
        json.loads(invoke("epsilon", "--votes", votes_file, *CONFIDENT, *more, *JSON).stdout)
        for more in ([], ["--answers", 5])
    )
    assert few["guarantee"]["epsilon"] < every["guarantee"]["epsilon"] and few["secret"] == every["secret"]
    assert every["guarantee"]["publishable"] and 0 < every["secret"]["exact"] <= every["guarantee"]["epsilon"]
    shown = invoke("epsilon", "--votes", votes_file, *CONFIDENT, "--answers", 5).stdout
    (cap,) = (line for line in shown.splitlines() if "at most 5 labels for 60 queries" in line)
    assert cap.rstrip().endswith("may be published")
    secret = [line for line in shown.splitlines() if line.startswith(("exact", "published bound,"))]
    assert all(line.rstrip().endswith("secret") for line in secret)
    assert "Unit:" in shown


def test_each_mechanism_has_its_options(votes_file):
    for options, name in (
        (GNMAX, "GNMax(sigma=20)"),
        (["--mechanism", "LNMax", "--gamma", 0.1, "--delta", "1e-5"], "LNMax(gamma=0.1)"),
        ([*CONFIDENT, "--unit", "party", "--teachers-per-party", 4], "Confident(threshold=60, sigma1=30, sigma2=10)"),
    ):
        assert json.loads(invoke("epsilon", *options, "--votes", votes_file, *JSON).stdout)["mechanism"] == name


def test_what_cannot_be_sanitised_is_a_refusal_not_a_failure(votes_file):
    options = ["--votes", votes_file, "--sanitised"]
    refused = json.loads(invoke("epsilon", *HISTOGRAM, *options, *JSON).stdout)["sanitised"]
    assert "no data-dependent bound with a known sensitivity" in refused["refused"]
    released = json.loads(invoke("epsilon", *GNMAX, *options, *JSON).stdout)["sanitised"]
    assert released["epsilon"] == pytest.approx(
        released["released_rdp"] + released["release_cost"] + float(conversion_cost([released["order"]], 1e-5)[0])
    )
    assert "No sanitised value: " in invoke("epsilon", *HISTOGRAM, *options).stdout
    assert "Planned without these votes: order" in invoke("epsilon", *GNMAX, *options).stdout


@pytest.mark.parametrize("more", [[], ["--answers", "40"], ["--unit", "party", "--teachers-per-party", "2"]])
def test_calibrate_meets_its_target(more):
    command = ["calibrate", *HISTOGRAM, "--epsilon", 1, "--queries", 40, *more]
    found = json.loads(invoke(*command, *JSON).stdout)
    assert 0.99 < found["guarantee"]["epsilon"] <= 1.0
    options = ["guarantee", *HISTOGRAM, "--sigma", found["sigma"], "--queries", 40, *more]
    assert json.loads(invoke(*options, *JSON).stdout) == found
    assert "at delta 1e-05 towards" in invoke(*options).stdout
    shown = invoke(*command).stdout
    assert found["mechanism"] in shown and "Unit:" in shown
