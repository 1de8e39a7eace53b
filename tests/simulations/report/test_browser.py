"""The page in a real browser: readable on a telephone, in the dark, on paper; nothing scrolls sideways."""

from __future__ import annotations

from pathlib import Path

import pytest

from consilium.simulations.report.build import render
from tests.report.browser import IN_BROWSER, measure, printed
from tests.simulations.report.cases import figured, run

LEAST_SIZE, LEAST_TEXT = 11, 4.5
"""Pixels; contrast of text (WCAG 2.2, level AA)."""


@pytest.mark.slow
@IN_BROWSER
def test_all_of_it_can_be_read_on_a_telephone_in_the_dark_and_on_paper(tmp_path: Path) -> None:
    data = figured(run(parties=60))
    html = render(data)
    for width, dark in ((390, False), (1280, True)):
        seen = measure(html, width, dark, tmp_path)
        assert (seen.inner, seen.width) == (width, width)
        assert seen.outside == seen.clipped == []
        assert len(seen.texts) > 300
        assert [item for item in seen.texts if item["size"] < LEAST_SIZE] == []
        assert [item for item in seen.texts if item["contrast"] < LEAST_TEXT] == []
    text = " ".join("".join(page.extract_text() for page in printed(html, tmp_path)).split())
    for told in (
        *(item.party for item in data.quality),
        "In plain words",
        "theorem 2.1",
        "What the student calls what",
    ):
        assert told in text, told
