"""The page in a real browser: readable on a telephone, in the dark, on paper; nothing scrolls sideways."""

from __future__ import annotations

from pathlib import Path

import pytest

from consilium.simulations.report.build import render
from tests.report.browser import IN_BROWSER, extent, measure, printed
from tests.simulations.report.cases import figured, run

pytestmark = [pytest.mark.slow, IN_BROWSER]

LEAST_SIZE, LEAST_TEXT, LEAST_MARK = 11, 4.5, 3
"""Pixels; contrast of text and of marks (WCAG 2.2, level AA)."""
DATA = figured(run(parties=60))


@pytest.mark.parametrize(("width", "dark"), [(390, False), (1280, True)])
def test_all_of_it_can_be_read(width: int, dark: bool, tmp_path: Path) -> None:
    seen = measure(render(DATA), width, dark, tmp_path)
    assert (seen.inner, seen.width) == (width, width)
    assert seen.outside == seen.clipped == []
    assert len(seen.texts) > 300 and len(seen.marks) > 30
    assert [item for item in seen.texts if item["size"] < LEAST_SIZE] == []
    assert [item for item in seen.texts if item["contrast"] < LEAST_TEXT] == []
    assert [item for item in seen.marks if item["contrast"] < LEAST_MARK] == []


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (("--muted: #4e5a68", "--muted: #8e9aa8"), "text"),
        (("--blue: #1f6391", "--blue: #9dc3de"), "mark"),
        (("text { fill: var(--ink); font-size: 12.5px; }", "text { fill: var(--ink); font-size: 7px; }"), "size"),
        ((".halves { display: grid;", ".halves { width: 700px; display: grid;"), "width"),
    ],
)
def test_what_would_be_wrong_is_found(change: tuple[str, str], found: str, tmp_path: Path) -> None:
    """The control: each measure tells."""
    page = render(DATA)
    assert change[0] in page
    seen = measure(page.replace(*change), 390, False, tmp_path)
    wrong = {
        "text": any(item["contrast"] < LEAST_TEXT for item in seen.texts),
        "mark": any(item["contrast"] < LEAST_MARK for item in seen.marks),
        "size": any(item["size"] < LEAST_SIZE for item in seen.texts),
        "width": seen.width > seen.inner,
    }
    assert wrong[found]


def test_paper_has_everything_and_no_empty_page(tmp_path: Path) -> None:
    pages = printed(render(DATA), tmp_path)
    text = " ".join("".join(page.extract_text() for page in pages).split())
    for item in DATA.quality:
        assert item.party in text
    for told in ("In plain words", "for the accountant", "theorem 2.1", "What the student calls what", "Data."):
        assert told in text
    for number, page in enumerate(pages, 1):
        lowest, left, right = extent(page)
        assert lowest > (0.1 if number == len(pages) else 0.45), f"page {number} of {len(pages)} ends at {lowest:.0%}"
        assert left >= 0 and right < 1, f"page {number} is cut"
