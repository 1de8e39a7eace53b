"""``consilium accounting``: numbers, JSON on stdout, errors in one or two lines with their exit code."""

from __future__ import annotations

import inspect
import json

import numpy as np
import pytest

from consilium.accounting import cli
from consilium.accounting.curves.conversion import conversion_cost
from consilium.accounting.errors import VotesError
from consilium.accounting.units import Noise
from consilium.accounting.vote_costs import calibrate, epsilon
from consilium.accounting.vote_files import load_votes, typical_votes
from tests.command_line import consilium

CONFIDENT = ["Confident(threshold=60, sigma1=30, sigma2=10)", "--delta", "1e-5"]
CALIBRATE = ["calibrate", CONFIDENT[0], "--epsilon", "1", "--delta", "1e-5", "--queries", "1000"]


@pytest.fixture
def votes_file(tmp_path):
    votes = np.random.default_rng(2).multinomial(100, [0.8, 0.15, 0.05], size=60)
    np.savez(tmp_path / "votes.npz", votes=votes, truth=np.zeros(60, dtype=np.int64))
    np.save(tmp_path / "votes.npy", votes)
    return tmp_path / "votes.npz"


def invoke(*args):
    return consilium("accounting", *args)


def mnist_command(path):
    mechanism = "Confident(threshold=200, sigma1=150, sigma2=40)"
    command = ["epsilon", mechanism, "--votes", path, "--queries", 640, "--delta", "1e-5"]
    return [*command, "--noise", "continuous", "--format", "json"]


@pytest.mark.proofs
@pytest.mark.slow
def test_published_mnist_votes(mnist_votes, tmp_path):
    """282.7 expected answers, 1.7117 by CKS: with the options of the paper and its continuous noise."""
    np.savez(tmp_path / "mnist.npz", votes=mnist_votes)
    found = json.loads(invoke(*mnist_command(tmp_path / "mnist.npz")).stdout)
    assert found["secret"]["answered"] == pytest.approx(282.721029203409, rel=1e-9)
    assert found["secret"]["published"] == pytest.approx(1.711708827492732, rel=1e-9)
    assert found["secret"]["published_classic"] == pytest.approx(1.9988165922689838, rel=1e-9)
    assert found["secret"]["exact"] == pytest.approx(0.946, abs=1e-3)
    assert found["worst_case_as_histogram"] == pytest.approx(3.927, abs=1e-3)
    assert found["guarantee"]["epsilon"] <= found["worst_case_as_histogram"]


@pytest.mark.proofs
def test_published_mnist_votes_as_shown_and_as_deployed(mnist_votes, tmp_path):
    np.savez(tmp_path / "mnist.npz", votes=mnist_votes)
    command = mnist_command(tmp_path / "mnist.npz")
    shown = invoke(*command[:-2]).stdout
    assert all(number in shown for number in ("1.7117", "1.9988", "0.946"))
    deployed = json.loads(invoke(*command[:-4], "--format", "json").stdout)
    assert deployed["secret"]["published"] == pytest.approx(1.7250, abs=5e-5)


def test_one_noise_unless_another_is_asked_for():
    """`epsilon` once took continuous noise where `calibrate` took integers: the same run at two prices."""
    for function in (epsilon, calibrate, cli.epsilon, cli.calibrate_command):
        assert inspect.signature(function).parameters["noise"].default is Noise.DISCRETE, function


def test_votes_of_teachers(votes_file):
    """The class of each teacher's vote, as the papers' code keeps them, costs what its counts cost."""
    votes = np.load(votes_file)["votes"]
    voted = np.stack([np.repeat(np.arange(3), row) for row in votes], axis=1)
    np.save(votes_file.parent / "teachers.npy", voted)
    plain, counted = (
        json.loads(invoke("epsilon", "--votes", *source, *CONFIDENT, "--format", "json").stdout)
        for source in ([votes_file], [votes_file.parent / "teachers.npy", "--classes", 3])
    )
    assert counted == plain


def test_what_may_be_published_is_of_the_most_answers(votes_file):
    every, few = (
        json.loads(invoke("epsilon", "--votes", votes_file, *CONFIDENT, *more, "--format", "json").stdout)
        for more in ([], ["--answers", 5])
    )
    assert few["guarantee"]["epsilon"] < every["guarantee"]["epsilon"] and few["secret"] == every["secret"]
    table = invoke("epsilon", "--votes", votes_file, *CONFIDENT, "--answers", 5).stdout.splitlines()
    (cap,) = (line for line in table if "at most 5 labels for 60 queries" in line)
    assert cap.rstrip().endswith("may be published")
    assert all(line.rstrip().endswith("secret") for line in table if line.startswith(("exact", "published bound,")))


def test_what_cannot_be_sanitised_is_a_refusal_not_a_failure(votes_file):
    options = ["--votes", votes_file, "--queries", 5, "--delta", "1e-5", "--sanitised", "--public-votes", votes_file]
    refused = json.loads(invoke("epsilon", "Histogram(sigma=20)", *options, "--format", "json").stdout)["sanitised"]
    assert "no data-dependent bound with a known sensitivity" in refused["refused"]
    released = json.loads(invoke("epsilon", "GNMax(sigma=20)", *options, "--format", "json").stdout)["sanitised"]
    assert released["epsilon"] == pytest.approx(
        released["released_rdp"] + released["release_cost"] + float(conversion_cost([released["order"]], 1e-5)[0])
    )
    assert "No sanitised value: " in invoke("epsilon", "Histogram(sigma=20)", *options).stdout
    assert "Planned without these votes: order" in invoke("epsilon", "GNMax(sigma=20)", *options).stdout
    checked = json.loads(invoke("epsilon", *CONFIDENT, *options[:4], "--sanitised", "--format", "json").stdout)
    assert {"order", "beta", "sigma_ss"} < checked["sanitised"].keys() and "epsilon" not in checked["sanitised"]


@pytest.mark.parametrize(
    "extra",
    [
        CONFIDENT,
        ["GNMax(sigma=10)", "--delta", "1e-5", "--queries", "10"],
        ["LNMax(gamma=0.1)", "--delta", "1e-5", "--queries", "10"],
        [*CONFIDENT, "--queries", "10", "--unit", "party", "--teachers-per-party", "4"],
        [*CONFIDENT, "--noise", "discrete", "--queries", "20"],
    ],
)
def test_epsilon_is_one_json_object_and_a_table(votes_file, extra):
    result = invoke("epsilon", "--votes", votes_file, *extra, "--format", "json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["guarantee"]["publishable"] is True
    assert 0 < found["secret"]["exact"] <= found["guarantee"]["epsilon"]
    table = invoke("epsilon", "--votes", votes_file, *extra)
    assert table.exit_code == 0
    assert "secret" in table.stdout
    assert "Unit:" in table.stdout


def test_npy_and_npz_agree(votes_file):
    one = invoke("epsilon", "--votes", votes_file, *CONFIDENT, "--format", "json").stdout
    assert one == invoke("epsilon", "--votes", votes_file.with_suffix(".npy"), *CONFIDENT, "--format", "json").stdout


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (["--delta", "2"], "delta"),
        (["--queries", "1000"], "between 1 and the 60 queries"),
        (["--teachers-per-party", "3"], "needs --unit"),
        (["--answers", "-1"], "answers"),
    ],
)
def test_mistakes_are_short_and_exit_with_2(votes_file, change, message):
    result = invoke("epsilon", "--votes", votes_file, *CONFIDENT, *change)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert message in result.stderr
    assert result.stderr.strip().count("\n") <= 1
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("mechanism", "message"),
    [
        ("Confident(threshold=60, sigma1=0, sigma2=10)", "sigma1"),
        ("Confident(threshold=-5, sigma1=30, sigma2=10)", "threshold"),
        ("GNMax()", "GNMax takes sigma, got nothing"),
        ("gnmax", "gnmax"),
    ],
)
def test_mechanisms_that_are_none(votes_file, mechanism, message):
    result = invoke("epsilon", mechanism, "--votes", votes_file, "--delta", "1e-5")
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr


def test_unreadable_files(tmp_path):
    (tmp_path / "text.npz").write_text("not a zip")
    (tmp_path / "text.npy").write_text("not an array")
    np.savez(tmp_path / "other.npz", counts=np.ones((2, 2)))
    np.savez(tmp_path / "empty.npz", votes=np.zeros((0, 3), dtype=np.int64))
    np.save(tmp_path / "objects.npy", np.array([object()]), allow_pickle=True)
    np.savez(tmp_path / "bytes.npz", votes=np.array([[3, 1]], dtype=np.uint8))
    (tmp_path / "votes.csv").write_text("1,2")
    for name in ("text.npz", "text.npy", "other.npz", "empty.npz", "objects.npy", "bytes.npz", "votes.csv", "none.npz"):
        with pytest.raises(VotesError):
            load_votes(tmp_path / name)
        code = 2 if name == "none.npz" else 3
        assert invoke("epsilon", "--votes", tmp_path / name, *CONFIDENT).exit_code == code


@pytest.mark.proofs
@pytest.mark.slow
def test_calibrate_keeps_a_threshold_and_the_ratio_of_two_noises():
    found = json.loads(invoke(*CALIBRATE, "--format", "json").stdout)
    assert 0.99 < found["guarantee"]["epsilon"] <= 1.0
    assert (found["threshold"], found["sigma1"] / found["sigma2"]) == (60, pytest.approx(3.0, rel=1e-3))


@pytest.mark.parametrize("more", [[], ["--answers", "40"], ["--unit", "party", "--teachers-per-party", "2"]])
def test_calibrate_meets_its_target(more):
    command = ["calibrate", "Histogram(sigma=1)", *CALIBRATE[2:-1], "40", *more]
    found = json.loads(invoke(*command, "--format", "json").stdout)
    assert 0.99 < found["guarantee"]["epsilon"] <= 1.0
    shown = invoke(*command).stdout
    assert found["mechanism"] in shown and "Unit:" in shown


@pytest.mark.parametrize(
    "change",
    [
        ["--epsilon", "0"],
        ["--epsilon", "nan"],
        ["--delta", "0"],
        ["--queries", "0"],
        ["--answers", "1001"],
        ["--teachers-per-party", "2"],
    ],
)
def test_calibrate_mistakes(change):
    result = invoke(*CALIBRATE, *change)
    assert result.exit_code == 2
    assert result.stderr.startswith("consilium: ")
    assert result.stdout == ""


def test_made_up_votes_are_histograms():
    for teachers, classes in ((250, 10), (7, 2), (30, 3), (5000, 150), (11, 40)):
        votes = typical_votes(teachers, classes)
        assert np.all(votes >= 0)
        assert np.all(votes.sum(axis=1) == teachers)
        assert np.all(votes.argmax(axis=1) == 0)
