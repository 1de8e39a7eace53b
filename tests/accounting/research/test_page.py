"""Every figure of the tables of docs/researchers.md, recomputed."""

from __future__ import annotations

import pytest

from benchmarks import exact
from consilium.accounting.units import Noise
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs/researchers.md").read_text(encoding="utf-8")


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
