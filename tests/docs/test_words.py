"""Sentences of the pages are short: 18 words in the mean. How many words there are, tools/house.py counts."""

from __future__ import annotations

import re

from tests.docs.pages import PAGES, prose

MEAN = 18
MADE = re.compile(r"(?s:<!-- (?:keys|results) .*?<!-- end.*?-->|<!--.*?-->|\A---$.*?^---$)|^\|.*$", re.MULTILINE)
END = re.compile(r"[.?!:](?:[\"')*_]*)(?=\s|$)|\n\s*\n|^\s*(?:[-*]|\d+\.)\s|^#.*$", re.MULTILINE)


def sentences(text: str) -> list[int]:
    """Words of each; tables, headings and code are none."""
    return [len(part.split()) for part in END.split(MADE.sub("\n\n", text)) if part.split()]


def test_what_is_counted() -> None:
    assert sentences("# Head\n\nOne of four words. Two\nhere?\n\n| a | b |\n\n- an item\n- another one here\n") == [
        4,
        2,
        2,
        3,
    ]


def test_sentences_are_short() -> None:
    lengths = [length for page in PAGES for length in sentences(prose(page))]
    assert sum(lengths) / len(lengths) <= MEAN
