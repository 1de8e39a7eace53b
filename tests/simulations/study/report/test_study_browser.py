"""The page of a study in a real browser: readable on a telephone, in the dark, on paper; and so are its files."""

from __future__ import annotations

import base64
import re
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from consilium.simulations.study.report.build import write_study_report
from tests.report.browser import IN_BROWSER, measure
from tests.simulations.study.made_up import MadeUp

pytestmark = [pytest.mark.slow, IN_BROWSER]

LEAST_SIZE, LEAST_TEXT, LEAST_MARK = 11, 4.5, 3
"""Pixels; contrast of text and of marks (WCAG 2.2, level AA)."""
STUDIES = {
    "divisions": MadeUp(parties=30),
    "numbers": MadeUp(axes={"data.alpha": {"0.1": -0.1, "1": 0, "10": 0.1}, "data.parties": {"9": 0, "20": 0.1}}),
}


@cache
def page(name: str) -> str:
    with TemporaryDirectory() as folder:
        out = Path(folder) / "study.html"
        write_study_report(STUDIES[name].write(Path(folder) / "study"), out)
        return out.read_text(encoding="utf-8")


def test_all_of_it_can_be_read(tmp_path: Path) -> None:
    opened = page("divisions").replace("<details>", "<details open>")
    seen = measure(opened, 390, False, tmp_path)
    assert (seen.inner, seen.width) == (390, 390)
    assert seen.outside == seen.clipped == []
    assert len(seen.texts) > 300 and len(seen.marks) > 30
    assert [item for item in seen.texts if item["size"] < LEAST_SIZE] == []
    assert [item for item in seen.texts if item["contrast"] < LEAST_TEXT] == []
    assert [item for item in seen.marks if item["contrast"] < LEAST_MARK] == []


def test_text_of_a_file_lies_on_its_paper(tmp_path: Path) -> None:
    found = re.findall(r'href="data:image/svg\+xml;base64,([^"]+)"', page("numbers"))
    rule = '<meta http-equiv="Content-Security-Policy" content="default-src * \'unsafe-inline\'">'
    for content in found[::5]:
        svg = base64.b64decode(content).decode().split("?>", 1)[1]
        html = f"<!doctype html><html><head>{rule}</head><body style='margin:0'>{svg}</body></html>"
        seen = measure(html, 800, False, tmp_path)
        assert seen.outside == [] and len(seen.texts) > 5
        assert [item for item in seen.texts if item["size"] < LEAST_SIZE] == []
