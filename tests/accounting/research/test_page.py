"""Every figure of the tables of docs/researchers.md, recomputed."""

from __future__ import annotations

import re

import pytest

from benchmarks import exact
from consilium.accounting.units import Noise
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs/researchers.md").read_text(encoding="utf-8")


def printed(title: str) -> dict[str, list[str]]:
    """Rows of the page's table for a row of the benchmark: first cell -> the others."""
    found = re.search(rf"^### {re.escape(title)}$.*?((?:^\|.*\n)+)", PAGE, re.MULTILINE | re.DOTALL)
    assert found, title
    cells = [[cell.strip(" *") for cell in line.strip().strip("|").split("|")] for line in found[1].splitlines()[2:]]
    return {row[0]: row[1:] for row in cells}


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, row in exact.ROWS.items() if row.votes == "mnist"])
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
