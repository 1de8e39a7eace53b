"""Figures of docs/laboratory/papers.md that are read off the published votes, recomputed; its items, counted."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from benchmarks import composition, near_zero, orders
from benchmarks.cells import shown
from benchmarks.composition import advanced, mnist_truth
from benchmarks.exact import SHARED, load
from benchmarks.label_accuracy import pr_label_laplace
from consilium.accounting.curves.conversion import rdp_to_epsilon
from consilium.accounting.curves.laplace import PAPER_MOMENTS, log_q_lnmax, sum_rdp_lnmax
from docs.figures import read
from docs.marked import DOCS
from docs.papers import DOCUMENTS, STATES, Item, counts, read_items, with_items
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs/laboratory/papers.md").read_text(encoding="utf-8")
ITEMS = read_items()


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
    assert [shown(row[5]) for row in rows] == ["8.391", "10.10", "5.905"]
    assert "**8.391; 10.10** for rows **4** and 5; 5.905 for row 6" in PAGE


def test_counts_are_those_of_the_items() -> None:
    """Counted here anew, from the tables as a reader sees them."""
    rows = re.findall(
        r"^\| ([FVSPN])\d+ \|.*\| (covered|partly|not yet|no|substitute: [^|]+) \|$", PAGE, flags=re.MULTILINE
    )
    assert len(rows) == len(ITEMS)
    seen = Counter((document, state.split(":")[0]) for document, state in rows)
    for name, documents in (*((f"**{letter}**", letter) for letter in DOCUMENTS), ("together", DOCUMENTS)):
        of_state = [sum(seen[letter, state] for letter in documents) for state in STATES]
        line = " | ".join(map(str, (name, sum(of_state), *of_state)))
        assert len(re.findall(rf"^\| {re.escape(line)} \|$", PAGE, flags=re.MULTILINE)) == 1, line


def test_the_table_that_was_overwritten_by_counts_has_its_own_sums() -> None:
    checks = read(DOCS / "figures" / "papers" / "checks.json")
    assert checks.rows[-1] == ("together", "9,000", "4,753", "1,747", "12,000", "6,697", "3,246")
    for column in range(1, 7):
        parts = [int(row[column].replace(",", "")) for row in checks.rows]
        assert abs(sum(parts[:-1]) - parts[-1]) <= 3, "up to rounding"


@pytest.mark.parametrize(
    "content",
    [
        {"number": "F1", "item": "x", "state": "substitute"},
        {"number": "F1", "item": "x", "state": "covered", "substitute": "other data"},
        {"number": "X1", "item": "x", "state": "covered"},
        {"number": "F1", "item": "x", "state": "nearly"},
    ],
)
def test_an_item_that_does_not_fit_is_refused(content: dict[str, str]) -> None:
    Item(number="F1", item="x", state="covered")
    with pytest.raises(ValueError, match=r"F1|X1|state"):
        Item(**content)  # pyright: ignore[reportArgumentType]


def test_an_item_left_out_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "figures").mkdir()
    items = [{"number": number, "item": "x", "state": "no"} for number in ("F1", "F3")]
    (tmp_path / "figures" / "papers.json").write_text(json.dumps(items), encoding="utf-8")
    with pytest.raises(ValueError, match="F are not numbered"):
        read_items(tmp_path)


def test_a_figure_in_an_item_is_that_of_its_table() -> None:
    item = Item(number="F1", item="x", here="{papers/strong :: 100 :: exact}, {1, 2}", state="covered")
    assert "| **F** | 1 | 1 | 0 | 0 | 0 | 0 |\n| **V** | 0 | 0 | 0 | 0 | 0 | 0 |\n" in counts([item])
    assert "| together | 1 | 1 | 0 | 0 | 0 | 0 |\n" in counts([item])
    page = with_items("<!-- items F -->\n<!-- end items -->", [item], lambda address: f"<{address}>")
    assert "| F1 | x | | <papers/strong :: 100 :: exact>, {1, 2} | | covered |" in page
    with pytest.raises(ValueError, match="no items of 'Q'"):
        with_items("<!-- items Q -->\n<!-- end items -->", [item], str)


@pytest.mark.parametrize("module", [composition, orders, near_zero], ids=lambda module: module.__name__)
def test_every_table_of_votes_stands_on_the_page_and_is_made_by_its_command(module: ModuleType) -> None:
    for name in module.TABLES:
        made = read(DOCS / "figures" / "papers" / f"{name.replace('_', '-')}.json")
        assert (made.origin, made.command) == ("measured", f"python -m {module.__name__} --tables {name}")
        assert f"<!-- figure {made.name} -->" in PAGE


def test_commands_of_the_items_are_tables_of_benchmarks() -> None:
    tables = {"composition": composition.TABLES, "orders": orders.TABLES}
    named = [found for item in ITEMS for found in re.findall(r"`(composition|orders) ([a-z]+)`", item.command)]
    assert len(named) > 15 and [pair for pair in named if pair[1] not in tables[pair[0]]] == []
