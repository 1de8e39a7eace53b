"""Links within the repository lead to a file and, on a page, to a heading that is there.

`mkdocs build --strict` looks at the site alone; this looks at all pages.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from tests.docs.pages import FENCE, PAGES, ROOT

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
