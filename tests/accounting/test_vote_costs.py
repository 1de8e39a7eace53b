"""The three doors in Python and as commands: published numbers, what may be seen, and every mistake by name."""

from __future__ import annotations

import inspect
import math
import re

import numpy as np
import pytest

from consilium import accounting
from consilium.accounting import cli
from consilium.accounting.curves.conversion import conversion_cost
from consilium.accounting.errors import CalibrationError, DeltaError, EventError, ThresholdError, UnitError, VotesError
from consilium.accounting.guarantees import rounded_up
from consilium.accounting.mechanisms import Distributed
from consilium.accounting.outcome import argmax
from consilium.accounting.target import worst_case
from consilium.accounting.units import Noise
from consilium.accounting.vote_costs import as_histograms, calibrate, epsilon, guarantee
from tests.command_line import consilium

PUBLISHED = accounting.Confident(threshold=200, sigma1=150, sigma2=40)
GNMAX = accounting.GNMax(sigma=20)
CONFIDENT = accounting.Confident(threshold=60, sigma1=30, sigma2=10)
VOTES = np.array([[90, 6, 4], [50, 30, 20], [100, 0, 0], [34, 33, 33]])
MECHANISMS = [GNMAX, accounting.LNMax(gamma=0.1), CONFIDENT, accounting.Histogram(sigma=20)]


@pytest.fixture(scope="module")
def results():
    return {mechanism.name: accounting.epsilon(VOTES, mechanism) for mechanism in MECHANISMS}


def test_the_published_mnist_votes(mnist_votes):
    found = accounting.epsilon(mnist_votes[:640], PUBLISHED, noise="continuous", answers=283)
    assert found.answered == pytest.approx(282.721029203409, rel=1e-9)
    assert found.published == pytest.approx(1.711708827492732, rel=1e-9)
    assert found.published_classic == pytest.approx(1.9988165922689838, rel=1e-9)
    assert found.worst_case_as_histogram == pytest.approx(2.529, abs=1e-3)
    assert found.exact == pytest.approx(0.946, abs=1e-3)
    assert found.worst_case <= found.worst_case_as_histogram


def test_exact_is_never_above_what_is_published_or_promised(results):
    for name, found in results.items():
        assert 0 < found.exact <= min(found.published or math.inf, found.worst_case) * (1 + 1e-12)
        assert found.worst_case <= found.worst_case_as_histogram * (1 + 1e-12)
        assert (found.published is None) == (name == "histogram")


def test_nothing_secret_is_shown(results):
    for found in results.values():
        text = re.sub(r"0x[0-9a-f]+", "", repr(found) + str([found]))  # addresses, which may have any digits
        for secret in (found.exact, found.published, found.published_classic):
            if secret is not None and secret != pytest.approx(found.worst_case, abs=1e-4):
                assert f"{secret:.3f}" not in text
        assert not any(str(count) in text for count in (90, 34, 33))
        assert rounded_up(found.worst_case) in text and "100 teachers, 4 queries" in text


def test_answers_that_were_given_are_charged_instead_of_expected_ones(results):
    expected, told = results["confident"], accounting.epsilon(VOTES, CONFIDENT, answered=VOTES.max(axis=1) > 60)
    assert told.answered == 2.0 != expected.answered
    assert told.exact != expected.exact
    assert told.worst_case == expected.worst_case


def test_the_promise_looks_at_no_votes(results):
    first, second = (accounting.epsilon(votes, CONFIDENT, answers=2) for votes in (VOTES, [[100, 0, 0]] * 4))
    assert (first.worst_case, first.worst_case_as_histogram) == (second.worst_case, second.worst_case_as_histogram)
    assert first.worst_case < results["confident"].worst_case
    assert first.guarantee.publishable


def test_votes_in_files_are_the_same_votes(tmp_path, results):
    """The papers keep counts, or counts as floats."""
    np.save(tmp_path / "counts.npy", VOTES.astype(np.int16))
    np.save(tmp_path / "clean.npy", VOTES.astype(np.float64))
    np.savez(tmp_path / "votes.npz", votes=VOTES)
    for name in ("counts.npy", "clean.npy", "votes.npz"):
        found = accounting.epsilon(tmp_path / name, GNMAX)
        assert (found.exact, found.teachers, found.classes) == (results["gnmax"].exact, 100, 3)


@pytest.mark.parametrize(
    ("votes", "mechanism", "k", "known"),
    [
        ([[290, 7, 3]] * 4, GNMAX, 2, False),  # a bound stands for it
        ([[290, 7, 3, *[0] * 22]] * 4, GNMAX, 1, False),
        ([[30_000, 0, 0]] * 4, accounting.GNMax(sigma=4), 1, False),  # too far for doubles
        ([[10**6, 0, 0]] * 4, accounting.LNMax(gamma=0.05), 1, False),  # took minutes
        ([[125, 125]] * 100, accounting.GNMax(sigma=40), 1, True),  # Renyi curves are above the worst case
        (VOTES, accounting.Immutable(gamma=0.1, constant=5), 1, False),
        (VOTES, Distributed(sigma=20, noise_shares=1), 1, False),  # a bound for all votes
    ],
)
@pytest.mark.parametrize("noise", ["discrete", "continuous"])
def test_exact_is_never_above_the_worst_case_and_absent_where_unknown(votes, mechanism, k, known, noise):
    found = accounting.epsilon(votes, mechanism, teachers_per_party=k, noise=noise)
    assert (found.exact is not None) == known
    if known:
        assert found.exact <= found.worst_case and found.exact <= found.published * 1.01


def test_predictions_of_the_student_are_compared_with():
    """Where the student knows the answer, little is left to say, so little is answered."""
    mechanism = accounting.Interactive(threshold=30, sigma1=5, sigma2=10)
    knows, guesses = VOTES / 100, np.full(VOTES.shape, 1 / 3)
    first, second = (accounting.epsilon(VOTES, mechanism, predictions=p) for p in (knows, guesses))
    assert first.answered < 0.01 < second.answered
    assert first.exact < second.exact


def test_a_sanitised_release_of_answers_that_were_given():
    votes, answered = np.repeat(VOTES, 25, axis=0), np.ones(100, dtype=bool)
    refused = accounting.epsilon(votes, CONFIDENT, sanitised=True)
    assert refused.sanitised is None
    assert "Pass answered" in str(refused.sanitised_refusal)
    found = accounting.epsilon(votes, CONFIDENT, answered=answered, sanitised=True)
    public = accounting.epsilon(votes, CONFIDENT, answered=answered, public_votes=VOTES[::-1])
    assert public.sanitised is not None and public.sanitised_plan != found.sanitised_plan
    assert found.sanitised is not None and found.sanitised.guarantee.publishable
    # what may be published counts the number that was released, too
    assert found.worst_case > 1.001 * found.worst_case_of_labels == 1.001 * refused.worst_case
    assert found.worst_case_as_histogram > 1.001 * refused.worst_case_as_histogram


@pytest.mark.parametrize(
    "mechanism",
    [
        accounting.Histogram(sigma=20),
        *(pytest.param(one, marks=pytest.mark.nightly) for one in (GNMAX, accounting.LNMax(gamma=0.1), CONFIDENT)),
    ],
    ids=lambda one: one.name,
)
def test_calibration_is_the_least_noise(mechanism):
    found = accounting.calibrate(mechanism, 1.0, asked=200, answered=200)
    assert worst_case([found.event(200)], 1e-5).epsilon <= 1.0
    label = found.event(200).steps[-1]
    noise = 1 / label.scale if label.law == "laplace" else label.scale
    less = found.with_noise(0.999 * noise)
    assert worst_case([less.event(200)], 1e-5).epsilon > 1.0
    if mechanism is CONFIDENT:
        assert (found.threshold, found.sigma1 / noise) == (60, pytest.approx(3.0))
    with pytest.raises(CalibrationError):
        accounting.calibrate(mechanism, 0, asked=200)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"votes": VOTES + np.eye(4, 3, dtype=int)}, VotesError, "another number of votes than most"),
        ({"votes": VOTES / 100}, VotesError, "shares of the votes"),
        ({"votes": VOTES[:0]}, VotesError, "no votes"),
        ({"votes": "nowhere.npy"}, VotesError, "no file"),
        ({"mechanism": accounting.Confident(0.8, 9, 9)}, ThresholdError, "less than a vote"),
        # noise may reach a threshold that votes cannot, as in the SVHN row of PATE 2018, but not so high a one
        ({"mechanism": accounting.Confident(119, 9, 9)}, ThresholdError, "above the 100 teachers"),
        ({"mechanism": accounting.Interactive(60, 9, 9)}, EventError, "predictions"),
        ({"delta": 0}, DeltaError, "strictly between 0 and 1"),
        ({"unit": "hospital"}, UnitError, "unit must be one of"),
        ({"teachers_per_party": 0}, UnitError, "teachers_per_party"),
        ({"noise": "gaussian"}, EventError, "noise must be one of"),
        ({"answers": 5}, EventError, "exceeds asked"),
        ({"answers": 2}, EventError, "answers every query"),
        ({"answered": [1, 0, 1, 0]}, EventError, "bool mask"),
        (
            {"mechanism": CONFIDENT, "answers": 2, "answered": np.ones(4, bool)},
            EventError,
            "marks 4 labels, but at most",
        ),
        *(({"mechanism": wrong}, EventError, "Pass one as") for wrong in ("GNMax(sigma=40)", accounting.GNMax, None)),
        ({"votes": [[3, 1], [4]]}, VotesError, "different lengths"),
        ({"mechanism": accounting.Interactive(60, 9, 9), "predictions": "sure"}, ThresholdError, "matrix of prob"),
        *(({"delta": delta}, DeltaError, "delta") for delta in (1e-320, math.nan, -1.0, 1.0, True, "1e-5", None)),
        *(({"teachers_per_party": k}, UnitError, "") for k in (1001, 10**9, 10**30, True, 1.0)),
        *(({"answers": most}, EventError, "answers") for most in (-1, True, 1.5, 10**30)),
    ],
)
def test_a_mistake_has_a_name(change, error, words):
    arguments = {"votes": VOTES, "mechanism": GNMAX} | change
    with pytest.raises(error) as caught:
        accounting.epsilon(**arguments)
    assert words in str(caught.value)
    assert not any(str(count) in str(caught.value) for count in (90, 34, 33))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("text.npz", b"not a zip"),
        ("text.npy", b"no array"),
        ("votes.csv", b"1,2"),
        ("other.npz", {"counts": np.ones((2, 2))}),
        ("empty.npz", {"votes": np.zeros((0, 3), dtype=np.int64)}),
        ("bytes.npz", {"votes": np.array([[3, 1]], dtype=np.uint8)}),
        ("objects.npy", np.array([object()])),
        ("shares.npy", VOTES / 100),
        ("hollow.npy", np.full((2, 2), math.nan)),
        ("one.npy", np.array([3, 1])),
        ("labels.npy", np.array([[0, 1, 2], [2, 2, 2]])),
    ],
)
def test_a_file_that_is_no_vote_file(tmp_path, name, content):
    if isinstance(content, bytes):
        (tmp_path / name).write_bytes(content)
    elif isinstance(content, dict):
        np.savez(tmp_path / name, **content)
    else:
        np.save(tmp_path / name, content, allow_pickle=True)
    with pytest.raises(VotesError):
        as_histograms(tmp_path / name)


def test_what_takes_longer_than_seconds_is_not_computed(results, monkeypatch):
    """10,000 queries of ten classes took minutes, noise next to none had no end; what is promised stays."""
    assert accounting.epsilon(VOTES, accounting.LNMax(gamma=1e9), noise="continuous").published
    monkeypatch.setattr(argmax, "MOST_WORK", 1e5)
    for mechanism, known in ((GNMAX, True), (accounting.LNMax(gamma=1e-3), False)):
        found = accounting.epsilon(VOTES, mechanism)
        assert (found.exact is not None) == known
        assert found.published and found.worst_case
    assert accounting.epsilon(VOTES, accounting.Histogram(sigma=20)).exact == results["histogram"].exact


BY_CONFIDENT = ["--mechanism", "confident", "--threshold", 60, "--sigma1", 30, "--sigma2", 10, "--delta", "1e-5"]
BY_GNMAX = ["--mechanism", "gnmax", "--sigma", 20, "--delta", "1e-5"]
BY_HISTOGRAM = ["--mechanism", "histogram", "--sigma", 20, "--delta", "1e-5"]


@pytest.fixture
def votes_file(tmp_path):
    votes = np.random.default_rng(2).multinomial(100, [0.8, 0.15, 0.05], size=60)
    np.savez(tmp_path / "votes.npz", votes=votes)
    return tmp_path / "votes.npz"


def invoke(*args):
    return consilium("accounting", *args)


def table(*args):
    return invoke(*args, "--format", "json").json()


def test_one_noise_unless_another_is_asked_for():
    for function in (epsilon, guarantee, calibrate, cli._given):
        assert inspect.signature(function).parameters["noise"].default is Noise.DISCRETE, function


def test_what_may_be_published_is_of_the_most_answers(votes_file):
    every, few = (table("epsilon", "--votes", votes_file, *BY_CONFIDENT, *more) for more in ([], ["--answers", 5]))
    assert few["guarantee"]["epsilon"] < every["guarantee"]["epsilon"] and few["secret"] == every["secret"]
    assert every["guarantee"]["publishable"] and 0 < every["secret"]["exact"] <= every["guarantee"]["epsilon"]
    shown = invoke("epsilon", "--votes", votes_file, *BY_CONFIDENT, "--answers", 5).stdout
    (cap,) = (line for line in shown.splitlines() if "at most 5 labels for 60 queries" in line)
    assert cap.rstrip().endswith("may be published")
    secret = [line for line in shown.splitlines() if line.startswith(("exact", "published bound,"))]
    assert all(line.rstrip().endswith("secret") for line in secret)
    assert "Unit:" in shown


def test_each_mechanism_has_its_options(votes_file):
    for options, name in (
        (BY_GNMAX, "GNMax(sigma=20)"),
        (["--mechanism", "LNMax", "--gamma", 0.1, "--delta", "1e-5"], "LNMax(gamma=0.1)"),
        ([*BY_CONFIDENT, "--teachers-per-party", 4], "Confident(threshold=60, sigma1=30, sigma2=10)"),
    ):
        assert table("epsilon", *options, "--votes", votes_file)["mechanism"] == name


def test_what_cannot_be_sanitised_is_a_refusal_not_a_failure(votes_file):
    options = ["--votes", votes_file, "--sanitised"]
    refused = table("epsilon", *BY_HISTOGRAM, *options)["sanitised"]
    assert "no data-dependent bound with a known sensitivity" in refused["refused"]
    released = table("epsilon", *BY_GNMAX, *options)["sanitised"]
    assert released["epsilon"] == pytest.approx(
        released["released_rdp"] + released["release_cost"] + float(conversion_cost([released["order"]], 1e-5)[0])
    )
    assert "No sanitised value: " in invoke("epsilon", *BY_HISTOGRAM, *options).stdout
    assert "Planned without these votes: order" in invoke("epsilon", *BY_GNMAX, *options).stdout


@pytest.mark.parametrize("more", [[], ["--answers", "40"], ["--unit", "party", "--teachers-per-party", "2"]])
def test_calibrate_meets_its_target(more):
    command = ["calibrate", *BY_HISTOGRAM, "--epsilon", 1, "--queries", 40, *more]
    found = table(*command)
    assert 0.99 < found["guarantee"]["epsilon"] <= 1.0
    options = ["guarantee", *BY_HISTOGRAM, "--sigma", found["sigma"], "--queries", 40, *more]
    assert table(*options) == found
    assert "at delta 1e-05 towards" in invoke(*options).stdout
    shown = invoke(*command).stdout
    assert found["mechanism"] in shown and "Unit:" in shown
