"""Figures of docs/papers.md that are read off the published votes, recomputed; and its counts of what is covered."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest

from benchmarks.composition import advanced, mnist_truth, shown
from benchmarks.exact import SHARED, load
from consilium.accounting.curves.conversion import rdp_to_epsilon
from consilium.accounting.curves.laplace import PAPER_MOMENTS, log_q_lnmax, sum_rdp_lnmax
from consilium.accounting.planning.label_quality import pr_label_laplace
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs/papers.md").read_text(encoding="utf-8")
STATES = ("covered", "partly", "not yet", "no")
ITEMS = re.findall(r"^\| ([FVSPN])(\d+) \|.*\| ([a-z ]+) \| ([a-z ]+) \|$", PAGE, flags=re.MULTILINE)


@pytest.fixture(scope="module")
def mnist_votes() -> np.ndarray:
    votes = load("mnist")
    if votes is None:
        pytest.skip("the published votes are not beside the repository (shared/)")
    return votes


@pytest.fixture(scope="module")
def truth() -> np.ndarray:
    if not (SHARED / "data" / "mnist").exists():
        pytest.skip("MNIST is not beside the repository (shared/)")
    return mnist_truth()


def eight_moments(votes: np.ndarray) -> float:
    """Epsilon at 1e-5 as Papernot et al. 2017 compute it, gamma .05."""
    orders = PAPER_MOMENTS + 1
    curve = sum_rdp_lnmax(log_q_lnmax(votes, 0.05, "continuous"), 0.05, orders, noise="continuous", baseline="paper")
    return rdp_to_epsilon(curve, orders, 1e-5, "classic").epsilon


def test_the_published_votes_are_those_of_2017(mnist_votes, truth):
    labels = np.load(SHARED / "data" / "pate2017_mnist_student.npz")
    found = {
        "right with noise, expected": f"{100 * pr_label_laplace(mnist_votes, 0.05, truth).mean():.2f}",
        "plurality right": f"{100 * (mnist_votes.argmax(axis=1) == truth).mean():.2f}",
        "published labels right": f"{100 * (labels['labels_lap20'] == truth).mean():.2f}",
        "first hundred": f"{eight_moments(mnist_votes[:100]):.3f}",
        "published indices": f"{eight_moments(mnist_votes[labels['indices100'].astype(np.int64)]):.3f}",
        "first thousand": f"{eight_moments(mnist_votes[:1000]):.2f}",
        "last thousand": f"{eight_moments(mnist_votes[-1000:]):.2f}",
    }
    assert list(found.values()) == ["93.18", "94.37", "93.43", "2.043", "1.959", "7.40", "5.00"]
    assert [value for value in found.values() if value not in PAGE] == []


def test_teachers_that_see_nothing(mnist_votes, truth):
    rows = np.arange(len(truth))
    least = mnist_votes.min(axis=0)
    assert least.tolist() == [4, 7, 6, 7, 4, 2, 0, 10, 3, 1]
    assert ((mnist_votes == least).mean(axis=0) > 0.01).all()
    right = mnist_votes[rows, truth]
    others = (right - least[truth]).mean() / (250 - least.sum())
    assert (f"{right.mean() / 2.5:.1f}", int(least.sum()), f"{100 * others:.1f}") == ("70.3", 44, "83.2")
    top = np.sort(mnist_votes, axis=1)
    gap = top[:, -1] - top[:, -2]
    assert (f"{gap.mean() / 2.5:.1f}", f"{100 * (gap > 2).mean():.1f}") == ("62.4", "99.6")


def test_advanced_composition():
    _, rows = advanced()
    assert [shown(row[5]) for row in rows] == ["8.391", "10.104", "5.905"]
    assert "**8.39; 10.10** for rows **4** and 5; 5.91 for row 6" in PAGE


def test_items_are_numbered_and_counted():
    assert {state for item in ITEMS for state in item[2:]} == set(STATES)
    for letter in "FVSPN":
        numbers = [int(number) for mark, number, *_ in ITEMS if mark == letter]
        assert numbers == list(range(1, len(numbers) + 1))
        _check_counts(f"**{letter}**", [item for item in ITEMS if item[0] == letter])
    _check_counts("together", ITEMS)


def _check_counts(name: str, items: list[tuple[str, str, str, str]]) -> None:
    before, now = Counter(item[2] for item in items), Counter(item[3] for item in items)
    counts = [len(items), before["covered"], *(now[state] for state in STATES)]
    assert f"| {name} | " + " | ".join(map(str, counts)) + " |" in PAGE
