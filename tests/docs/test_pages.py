"""The pages: links within the repository lead to a file and, on a page, to a heading that is there; sentences are short
(how many words there are, tools/house.py counts); what they show of docs/results.json is what stands there.

`mkdocs build --strict` looks at the site alone; this looks at all pages."""

from __future__ import annotations

import doctest
import re
from functools import cache
from pathlib import Path

import pytest

from benchmarks import held_out, results
from tests.docs.pages import FENCE, PAGES, ROOT, prose

LINK = re.compile(r"\]\((?![a-z]+:)(?P<target>[^)\s#]*)(?:#(?P<anchor>[^)\s]*))?\)")
HEADING = re.compile(r"^#+ +(.+?) *#*$", re.MULTILINE)
MADE = ("docs/reference/",)
"""Pages of the site that no file in docs/ holds."""


@cache
def anchors(page: Path) -> set[str]:
    """What Markdown's `toc` makes of the headings."""
    text, seen, found = FENCE.sub("", page.read_text(encoding="utf-8")), {}, set()
    for heading in HEADING.findall(text):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)|[`*]|<!--.*?-->", r"\1", heading)
        slug = re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())
        seen[slug] = seen.get(slug, -1) + 1
        found.add(f"{slug}_{seen[slug]}" if seen[slug] else slug)
    return found


def broken(page: Path, text: str) -> list[str]:
    """Links of a page that lead nowhere."""
    wrong = []
    for link in LINK.finditer(FENCE.sub("", text)):
        path = (page.parent / link["target"]).resolve() if link["target"] else page
        name = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else str(path)
        if name.startswith(MADE):
            continue
        if not path.exists() or (path.suffix == ".md" and link["anchor"] and link["anchor"] not in anchors(path)):
            wrong.append(link[0])
    return wrong


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    assert broken(page, page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("link", ["(nowhere.md)", "(data.md#nowhere)", "(#nowhere)"])
def test_a_broken_link_is_found(link: str) -> None:
    assert broken(ROOT / "docs/index.md", f"See [a]{link} and [b](data.md).") == [f"]{link}"]


MEAN = 18
GENERATED = re.compile(r"(?s:<!-- (?:keys|results) .*?<!-- end.*?-->|<!--.*?-->|\A---$.*?^---$)|^\|.*$", re.MULTILINE)
END = re.compile(r"[.?!:](?:[\"')*_]*)(?=\s|$)|\n\s*\n|^\s*(?:[-*]|\d+\.)\s|^#.*$", re.MULTILINE)


def sentences(text: str) -> list[int]:
    """Words of each; tables, headings and code are none."""
    return [len(part.split()) for part in END.split(GENERATED.sub("\n\n", text)) if part.split()]


def test_what_is_counted() -> None:
    text = "# Head\n\nOne of four words. Two\nhere?\n\n| a | b |\n\n- an item\n- another one here\n"
    assert sentences(text) == [4, 2, 2, 3]


def test_sentences_are_short() -> None:
    lengths = [length for page in PAGES for length in sentences(prose(page))]
    assert sum(lengths) / len(lengths) <= MEAN


PAGE = "AUC <!-- result one student -->.7<!-- end -->\n\n<!-- results one -->\n| row | B |\nold\n<!-- end -->\n"
ONE: results.Results = {"one": {"values": {"student": ".8", "x / A": "1", "x / B": "2"}}}


def test_marks_are_filled() -> None:
    shown = {"one": {"values": {"x / A": "1", "x / B": "2"}}}
    table = "<!-- results one -->\n| row | B |\n|---|---|\n| x | 2 |\n<!-- end -->\n"
    assert results.filled(PAGE.partition("\n\n")[2], shown) == table
    assert results.filled(PAGE.partition("\n\n")[0], ONE) == "AUC <!-- result one student -->.8<!-- end -->"
    study = {"study-one": {"values": {"made": "`consilium study one`: 2 cells.", "1": "No more.", "2": "No less."}}}
    assert results.filled("<!-- study study-one -->\n<!-- end -->\n", study) == (
        "<!-- study study-one -->\n`consilium study one`: 2 cells.\n\n1. No more.\n2. No less.\n<!-- end -->\n"
    )
    with pytest.raises(KeyError):
        results.filled(PAGE, {})


@pytest.mark.parametrize("page", results.pages(), ids=lambda page: page.name)
def test_each_mark_equals_the_file(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    same = results.filled(text, results.read()) == text
    assert same, "run make results"


def test_no_result_is_kept_that_no_page_shows() -> None:
    shown = set().union(*(results.ids(page.read_text(encoding="utf-8")) for page in results.pages()))
    assert shown == set(results.read())


def test_every_result_says_where_it_is_from() -> None:
    for name, result in results.read().items():
        assert set(result) - {"seconds"} == {"values", "split", "seeds", "command", "version"}, name
        assert result["split"] and all(isinstance(value, str) for value in result["values"].values()), name


@pytest.mark.parametrize("module", [results, held_out])
def test_examples(module: object) -> None:
    outcome = doctest.testmod(module)  # pyright: ignore[reportArgumentType]
    assert outcome.attempted > 0 and outcome.failed == 0
