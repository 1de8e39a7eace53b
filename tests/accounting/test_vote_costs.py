"""`accounting.epsilon` and its like: published numbers, what may be seen of a result, and every mistake by its name.

Every figure of the tables of docs/laboratory/researchers.md, recomputed.
"""

from __future__ import annotations

import io
import math
import re
import subprocess
import sys

import numpy as np
import pytest

from benchmarks import exact
from consilium import accounting
from consilium.accounting.accountant import Accountant
from consilium.accounting.aggregators import as_aggregator
from consilium.accounting.curves.conversion import DEFAULT_ORDERS, rdp_to_epsilon
from consilium.accounting.errors import (
    CalibrationError,
    DeltaError,
    EventError,
    NoiseError,
    ThresholdError,
    UnitError,
    VotesError,
    VotesPathError,
)
from consilium.accounting.guarantee import rounded_up
from consilium.accounting.label_costs import worst_case
from consilium.accounting.outcome import check
from consilium.accounting.units import Noise
from consilium.accounting.vote_files import load_votes
from tests.docs.pages import ROOT

CONFIDENT = accounting.Confident(threshold=200, sigma1=150, sigma2=40)
VOTES = np.array([[90, 6, 4], [50, 30, 20], [100, 0, 0], [34, 33, 33]])
MECHANISMS = [
    accounting.GNMax(sigma=20),
    accounting.LNMax(gamma=0.1),
    accounting.Confident(threshold=60, sigma1=30, sigma2=10),
    accounting.Histogram(sigma=20),
    accounting.Distributed(sigma=20, noise_shares=10),
]
by_mechanism = pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda one: one.name)


@pytest.mark.proofs  # by the command: tests/accounting/test_cli.py
def test_the_published_mnist_votes(mnist_votes):
    found = accounting.epsilon(mnist_votes[:640], CONFIDENT, noise="continuous", answers=283)
    assert found.answered == pytest.approx(282.721029203409, rel=1e-9)
    assert found.published == pytest.approx(1.711708827492732, rel=1e-9)
    assert found.published_classic == pytest.approx(1.9988165922689838, rel=1e-9)
    assert found.worst_case_as_histogram == pytest.approx(2.529, abs=1e-3)
    assert found.exact == pytest.approx(0.946, abs=1e-3)
    assert found.worst_case <= found.worst_case_as_histogram


@by_mechanism
def test_exact_is_never_above_what_is_published_or_promised(mechanism):
    found = accounting.epsilon(VOTES, mechanism)
    assert 0 < found.exact <= min(found.published or math.inf, found.worst_case) * (1 + 1e-12)
    assert found.worst_case <= found.worst_case_as_histogram * (1 + 1e-12)
    assert (found.published is None) == (mechanism.name in ("Histogram", "Distributed"))


@by_mechanism
def test_queries_share_the_cost(mechanism):
    """In the order of the votes, and more for a disputed query wherever votes decide."""
    found = accounting.epsilon(VOTES, mechanism)
    assert found.per_query.shape == (4,)
    assert found.per_query.dtype == np.float64
    turned = accounting.epsilon(VOTES[::-1].copy(), mechanism)
    np.testing.assert_allclose(turned.per_query, found.per_query[::-1])
    if found.published is not None and mechanism.name != "Confident":
        assert found.per_query[2] < found.per_query[0] < found.per_query[1]


def test_answers_that_were_given_are_charged_instead_of_expected_ones():
    mechanism = accounting.Confident(threshold=60, sigma1=30, sigma2=10)
    expected, told = (accounting.epsilon(VOTES, mechanism, answered=mask) for mask in (None, VOTES.max(axis=1) > 60))
    assert told.answered == 2.0
    assert told.answered != expected.answered
    assert told.exact != expected.exact
    assert told.worst_case == expected.worst_case


def test_noise_may_reach_a_threshold_that_votes_cannot():
    """As in the SVHN row of PATE 2018: a threshold of 300 for 250 teachers."""
    found = accounting.epsilon(VOTES, "Confident(threshold=118, sigma1=9, sigma2=9)")
    assert 0 < found.answered < 0.1


def test_the_promise_looks_at_no_votes():
    mechanism = accounting.Confident(threshold=60, sigma1=30, sigma2=10)
    other = np.array([[100, 0, 0]] * 4)
    first, second = (accounting.epsilon(votes, mechanism, answers=2) for votes in (VOTES, other))
    assert (first.worst_case, first.worst_case_as_histogram) == (second.worst_case, second.worst_case_as_histogram)
    assert first.worst_case < accounting.epsilon(VOTES, mechanism).worst_case
    assert first.guarantee.publishable


@pytest.mark.parametrize("teachers_per_party", [1, 2])
def test_labels_are_promised_by_backward_induction(teachers_per_party):
    votes = [[90, 6, 4], [50, 30, 20], [100, 0, 0]] * 4
    found = accounting.epsilon(votes, "GNMax(sigma=20)", teachers_per_party=teachers_per_party)
    accountant = Accountant(DEFAULT_ORDERS)
    accountant.commit(accounting.GNMax(sigma=20).event(12, teachers_per_party=teachers_per_party))
    beside = accountant.composed_worst_case_epsilon(1e-5)
    assert beside is not None
    assert found.guarantee.epsilon < 0.97 * beside
    assert found.guarantee.epsilon == accountant.adaptive_worst_case_epsilon(1e-5)
    assert "backward induction" in found.guarantee.method


@by_mechanism
def test_nothing_secret_is_shown_unless_asked_for(mechanism):
    found = accounting.epsilon(VOTES, mechanism)
    shown = accounting.epsilon(VOTES, mechanism, show_secret=True)
    for said in (repr(found), str(found), found._repr_html_(), repr(found.growth), repr([found])):
        text = re.sub(r"0x[0-9a-f]+", "", said)  # addresses, which may have any digits
        for secret in (found.exact, found.published, found.published_classic):
            if secret is not None and secret != pytest.approx(found.worst_case, abs=1e-4):
                assert f"{secret:.3f}" not in text
        for count in (90, 34, 33):
            assert str(count) not in text
    assert rounded_up(found.worst_case) in repr(found)
    assert rounded_up(found.worst_case) in found._repr_html_()
    assert rounded_up(shown.exact) in repr(shown)
    assert rounded_up(shown.exact) in shown._repr_html_()


@by_mechanism
def test_epsilon_grows_query_by_query_to_its_total(mechanism):
    found = accounting.epsilon(VOTES, mechanism)
    steps = found.growth()
    assert steps.asked.tolist() == [1, 2, 3, 4]
    assert found.worst_case <= steps.worst_case[-1] * (1 + 1e-9) <= found.worst_case_as_histogram * (1 + 2e-9)
    assert steps.exact[-1] == pytest.approx(found.exact, rel=1e-9)
    for curve in (steps.worst_case, steps.exact, steps.published):
        assert curve is None or np.all(np.diff(curve) >= -1e-12)
    chart = found.plot().to_dict()
    names = {row["bound"] for row in chart["data"]["values"]}
    assert ("published bound (secret)" in names) == (found.published is not None)
    assert {"worst case", "exact (secret)"} <= names
    public = found.plot(show_secret=False).to_dict()
    assert {row["bound"] for row in public["data"]["values"]} == {"worst case"}


def test_votes_of_teachers_and_files_are_the_same_votes(tmp_path):
    """The papers keep counts, counts as floats, or the class of each teacher's vote."""
    rows = [np.repeat(np.arange(3), row) for row in VOTES]
    voted = np.stack(rows, axis=1)
    np.save(tmp_path / "counts.npy", VOTES.astype(np.int16))
    np.save(tmp_path / "clean.npy", VOTES.astype(np.float64))
    np.savez(tmp_path / "votes.npz", votes=VOTES)
    np.save(tmp_path / "teachers.npy", voted.astype(np.uint8))
    expected = accounting.epsilon(VOTES, "gnmax(sigma=20)")
    same = [accounting.epsilon(tmp_path / name, "gnmax(sigma=20)") for name in ("counts.npy", "clean.npy", "votes.npz")]
    same += [
        accounting.epsilon(source, "gnmax(sigma=20)", classes=3) for source in (voted, str(tmp_path / "teachers.npy"))
    ]
    for found in same:
        assert (found.exact, found.teachers, found.classes) == (expected.exact, 100, 3)
        np.testing.assert_array_equal(found.per_query, expected.per_query)


@pytest.mark.parametrize(("k", "known"), [(1, True), (2, True), (60, False)])
def test_several_moved_votes_cost_what_is_tried_or_the_published_bound(k, known):
    found = accounting.epsilon([[290, 7, 3]] * 4, "GNMax(sigma=20)", teachers_per_party=k)
    assert found.exact_known == known
    assert found.to_json()["exact_known"] == known
    assert (found.rows()[2][0] == "exact, both directions") == known
    if known:
        assert found.exact < found.published < found.worst_case
    else:
        # no bound at hand is above what holds for all votes
        assert found.exact == min(found.published, found.worst_case)
    assert found.per_query.sum() > 0


def test_what_votes_cost_whoever_cast_them():
    """Never above the worst voter of each query; the two are one where all voted alike in classes that cost most."""
    voted = np.array([[0] * 5, [0] * 5, [0] * 5, [1] * 5, [0, 0, 1, 1, 2]])
    for mechanism in ("GNMax(sigma=3)", "LNMax(gamma=0.5)", "Confident(threshold=3, sigma1=4, sigma2=3)"):
        own = accounting.individual(voted, mechanism, classes=3)
        whole = accounting.epsilon(voted, mechanism, classes=3).exact
        assert own.shape == (5,)
        assert own[0] == own[1] == own[2]
        assert len(set(own.tolist())) == 3
        assert (own <= whole).all()
    alike = np.zeros((4, 6), dtype=int)
    assert accounting.individual(alike, "GNMax(sigma=3)", classes=2) == pytest.approx(
        accounting.epsilon(alike, "GNMax(sigma=3)", classes=2).exact, rel=1e-9
    )


def test_where_votes_decide_nothing_each_voter_pays_the_same():
    own = accounting.individual([[0, 1], [1, 1]], "Histogram(sigma=5)", classes=2)
    assert own.tolist() == [accounting.epsilon([[1, 1], [0, 2]], "Histogram(sigma=5)").worst_case] * 2


def test_unanswered_queries_cost_a_voter_their_check_alone():
    voted, mechanism = np.zeros((9, 3), dtype=int), "Confident(threshold=3, sigma1=4, sigma2=3)"
    none, all_of_them = (
        accounting.individual(voted, mechanism, classes=2, answered=np.full(3, answered)) for answered in (False, True)
    )
    assert (none > 0).all()
    assert (none < all_of_them).all()


def test_a_check_of_several_moved_votes_is_charged_both_ways():
    """The bit is known exactly for any number of votes, whatever is known of the label."""
    votes = np.tile([290, 7, 3], (4, 1))
    answered = np.zeros(4, dtype=bool)
    found = accounting.epsilon(
        votes, "Confident(threshold=250, sigma1=30, sigma2=20)", teachers_per_party=3, answered=answered
    )
    bit = check.sum_rdp([290] * 4, 250.0, 30.0, "discrete", DEFAULT_ORDERS, votes_moved=3)
    assert found.exact == pytest.approx(rdp_to_epsilon(bit, DEFAULT_ORDERS, 1e-5).epsilon, rel=1e-12)


def test_predictions_of_the_student_are_compared_with():
    """Where the student knows the answer, little is left to say, so little is answered."""
    mechanism = accounting.Interactive(threshold=30, sigma1=5, sigma2=10)
    knows, guesses = VOTES / 100, np.full(VOTES.shape, 1 / 3)
    first, second = (accounting.epsilon(VOTES, mechanism, predictions=p) for p in (knows, guesses))
    assert first.answered < 0.01 < second.answered
    assert first.exact < second.exact
    assert first.growth().exact[-1] == pytest.approx(first.exact, rel=1e-9)


def test_a_sanitised_release_of_answers_that_were_given():
    mechanism, votes = accounting.Confident(threshold=60, sigma1=30, sigma2=10), np.repeat(VOTES, 25, axis=0)
    refused = accounting.epsilon(votes, mechanism, sanitised=True)
    assert refused.sanitised is None
    assert "Pass answered" in str(refused.sanitised_refusal)
    found = accounting.epsilon(votes, mechanism, sanitised=True, answered=np.ones(100, dtype=bool))
    assert found.sanitised is not None
    assert found.sanitised.guarantee.publishable
    assert rounded_up(found.sanitised.guarantee.epsilon) in found._repr_html_()
    public = accounting.epsilon(
        votes, mechanism, sanitised=True, answered=np.ones(100, dtype=bool), public_votes=VOTES[::-1].copy()
    )
    assert public.sanitised is not None
    assert public.sanitised.plan != found.sanitised.plan


@pytest.mark.parametrize("mechanism", [*MECHANISMS, CONFIDENT, accounting.Interactive(10, 5.5, 2.25)], ids=repr)
@pytest.mark.parametrize("write", [repr, lambda one: repr(one).lower(), lambda one: repr(one).replace(", ", " ,")])
def test_words_are_the_mechanism(mechanism, write):
    assert as_aggregator(write(mechanism)) == mechanism


@pytest.mark.parametrize("target", [1.0])
@pytest.mark.parametrize(
    "mechanism",
    [
        pytest.param(one, marks=pytest.mark.proofs if one.value("threshold") or one.name == "GNMax" else [])
        for one in MECHANISMS
    ],
)
def test_calibration_is_the_least_noise(mechanism, target):
    found = accounting.calibrate(mechanism, target, asked=200, answered=200)
    assert worst_case(found.event(200), 1e-5).epsilon <= target
    noise = found.value("sigma2") or found.value("sigma") or 1 / found.value("gamma")
    less = found.with_noise(0.999 * noise)
    assert worst_case(less.event(200), 1e-5).epsilon > target


@pytest.mark.proofs
def test_calibration_of_fewer_answers_needs_less_noise():
    few, all_ = (accounting.calibrate(CONFIDENT, asked=200, answered=answers) for answers in (20, None))
    assert few.value("sigma2") < all_.value("sigma2")
    assert few.value("threshold") == 200
    assert few.value("sigma1") / few.value("sigma2") == pytest.approx(150 / 40)
    with pytest.raises(CalibrationError):
        accounting.calibrate(CONFIDENT, 0, asked=200)


def test_a_comparison_is_a_table_of_results():
    frame = accounting.compare(VOTES, MECHANISMS, 1e-6)
    assert frame["mechanism"].to_list() == [repr(one) for one in MECHANISMS]
    for column in ("worst_case", "worst_case_as_histogram", "exact", "published", "published_classic", "answered"):
        expected = [getattr(accounting.epsilon(VOTES, one, 1e-6), column) for one in MECHANISMS]
        assert frame[column].to_list() == expected
    assert accounting.compare(VOTES, []).height == 0


def test_the_import_brings_nothing_heavy():
    """Not even with the names at hand; charts and frames bring theirs when they are made."""
    heavy = ("torch", "flwr", "polars", "dp_accounting", "sklearn")
    program = (
        "import sys; from consilium import accounting as face; names = [getattr(face, one) for one in face.__all__];"
        f" print([one for one in {heavy} if one in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert set(accounting.__all__) <= set(dir(accounting))
    with pytest.raises(AttributeError, match="no attribute 'epsilons'"):
        accounting.epsilons  # noqa: B018


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"votes": VOTES.astype(np.float64)}, VotesError, "float counts"),
        ({"votes": VOTES.astype(np.uint8)}, VotesError, "unsigned"),
        ({"votes": VOTES + np.eye(4, 3, dtype=int)}, VotesError, "another number of votes than most"),
        ({"votes": np.array([[0, 1], [0, 2], [1, 2]])}, VotesError, "name the number of classes"),
        ({"votes": VOTES / 100}, VotesError, "shares of the votes"),
        ({"votes": VOTES, "teachers": 99}, VotesError, "do not sum to the 99"),
        ({"votes": VOTES[:0]}, VotesError, "no votes"),
        ({"votes": VOTES, "classes": 3}, VotesError, "not from 0 to 2"),
        ({"votes": VOTES / 100, "classes": 3}, VotesError, "float64"),
        ({"votes": "nowhere.npy"}, VotesPathError, "no file"),
        ({"mechanism": "gnmax"}, EventError, "GNMax"),
        ({"mechanism": "Magic(sigma=1)"}, EventError, "unknown mechanism 'Magic'. Take one of GNMax"),
        ({"mechanism": "GNMax(sigma=much)"}, EventError, "no number by its name"),
        ({"mechanism": "GNMax(40)"}, EventError, "no number by its name"),
        ({"mechanism": "GNMax(gamma=1)"}, EventError, "takes sigma, got gamma"),
        ({"mechanism": "GNMax(sigma=nan)"}, NoiseError, "sigma"),
        ({"mechanism": "GNMax(sigma=-1)"}, NoiseError, "sigma"),
        ({"mechanism": VOTES}, EventError, "got a ndarray"),
        ({"mechanism": "Confident(threshold=0.8, sigma1=9, sigma2=9)"}, ThresholdError, "less than a vote"),
        ({"mechanism": 40}, EventError, "or written 'GNMax(sigma=40)'"),
        ({"mechanism": "Confident(threshold=119, sigma1=9, sigma2=9)"}, ThresholdError, "above the 100 teachers"),
        ({"mechanism": "Interactive(threshold=60, sigma1=9, sigma2=9)"}, EventError, "predictions"),
        ({"delta": 0}, DeltaError, "strictly between 0 and 1"),
        ({"delta": math.nan}, DeltaError, "strictly between 0 and 1"),
        ({"unit": "hospital"}, UnitError, "unit must be one of"),
        ({"teachers_per_party": 0}, UnitError, "teachers_per_party"),
        ({"noise": "gaussian"}, EventError, "noise must be one of"),
        ({"answers": 5}, EventError, "exceeds asked"),
        ({"answers": 2}, EventError, "answers every query"),
        ({"answered": 2}, EventError, "bool mask"),
        ({"answered": [1, 0, 1, 0]}, EventError, "bool mask"),
    ],
)
def test_a_mistake_has_a_name(change, error, words):
    arguments = {"votes": VOTES, "mechanism": "GNMax(sigma=20)"} | change
    with pytest.raises(error) as caught:
        accounting.epsilon(**arguments)
    assert words in str(caught.value)
    assert not any(str(count) in str(caught.value) for count in (90, 34, 33))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("text.npy", b"no array"),
        ("votes.csv", b"1,2"),
        ("shares.npy", VOTES / 100),
        ("hollow.npy", np.full((2, 2), math.nan)),
        ("one.npy", np.array([3, 1])),
        ("labels.npy", np.array([[0, 1, 2], [2, 2, 2]])),
    ],
)
def test_a_file_that_is_no_vote_file(tmp_path, name, content):
    if isinstance(content, np.ndarray):
        buffer = io.BytesIO()
        np.save(buffer, content)
        content = buffer.getvalue()
    (tmp_path / name).write_bytes(content)
    with pytest.raises(VotesError):
        accounting.epsilon(tmp_path / name, "GNMax(sigma=20)")
    with pytest.raises(VotesError):
        load_votes(tmp_path / name)


PAGE = (ROOT / "docs/laboratory/researchers.md").read_text(encoding="utf-8")


def printed(title: str) -> dict[str, list[str]]:
    """Rows of the page's table for a row of the benchmark: first cell -> the others."""
    section = PAGE.split(f"### {title}\n")[1].split("\n#")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    cells = [[cell.strip(" *") for cell in line.strip("|").split("|")] for line in lines[2:]]
    return {row[0]: row[1:] for row in cells}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.proofs if "1,000" in name or "Confident" in name else [])
        for name, row in exact.ROWS.items()
        if row.votes == "mnist"
    ],
)
def test_every_figure(name, mnist_votes):
    row = exact.ROWS[name]
    shown = printed(name)
    votes = mnist_votes[: row.queries]
    computed = [exact.figures(row, votes, noise) for noise in (Noise.CONTINUOUS, Noise.DISCRETE)]
    titles = [title for title in exact.COLUMNS if title != "paper"]
    expected = {
        title: [("-" if value is None else f"{value:.3f}") for value in pair]
        for title, pair in zip(titles, zip(*computed, strict=True), strict=True)
    }
    assert {title: shown[title] for title in titles} == expected
    assert shown["paper"][0] == row.paper
