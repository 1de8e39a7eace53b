"""Exhibits: what is secret never reaches a published page, and a terminal says what a page says."""

from __future__ import annotations

from markupsafe import Markup

from consilium.report.charts import ValueRow, rows_chart
from consilium.report.exhibits import Cell, Chart, Exhibit, PagePart, Table, TableLine, as_text, published
from consilium.report.page import Page, as_html

SECRET = Exhibit(
    "votes", "Votes 0.31337", ("Exact.",), table=Table(("", "share"), (TableLine("a", (Cell("7"),)),)), secret=True
)
OPEN = Exhibit("labels", "Labels", ("Released.",), items=(Markup("<b>14</b>"),))
PARTS = (PagePart("one", "First", (OPEN, SECRET)), PagePart("two", "Private alone", (SECRET,)))


def test_a_published_page_holds_no_secret_exhibit_and_the_whole_one_marks_it() -> None:
    whole, public = as_html(Page("", "t", PARTS)), as_html(Page("", "t", published(PARTS)))
    assert "0.31337" in whole and "not covered by the guarantee" in whole
    assert "0.31337" not in public and "Private alone" not in public and "Labels" in public


def test_a_terminal_has_the_words_and_the_tables() -> None:
    picture = Chart("Dots: 0.6.", (("", rows_chart("AUC", [ValueRow("a", 0.6, None, "0.600")])),))
    lines = as_text([*PARTS, PagePart("three", "Third", (Exhibit("c", "Picture", chart=picture),))]).splitlines()
    assert lines[:6] == [
        "First", "  Labels", "    Released.", "    14", "  Votes 0.31337 [not covered by the guarantee]", "    Exact.",
    ]  # fmt: skip
    assert lines[-1] == "    Dots: 0.6."
