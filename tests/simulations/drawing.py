"""Reports drawn once: the same data give the same page, and drawing one is most of an audit's work."""

from __future__ import annotations

from dataclasses import asdict

from consilium.simulations.report.build import render
from consilium.simulations.report.data import ReportData

PAGES = dict[tuple[str, bool], str]()


def render_once(data: ReportData, public: bool = False) -> str:
    """As `render`, which is to be replaced by it."""
    key = (repr(asdict(data)), public)
    if key not in PAGES:
        PAGES[key] = render(data, public)
    return PAGES[key]
