"""How much the site asks people to read: `python -m docs.words`, page by page; `--total` prints the last line alone.

A page of the site is a file of docs/ or a notebook. Words are those of prose, lists, typed tables and
headings. What a reader looks up or copies is counted apart: fenced code, tables between the marks of `docs.keys` and
`docs.figures`, and the reference that mkdocs makes of docstrings, which is not counted here. Sentences are those of
prose and lists; one ends at a full stop, a question mark, or with its paragraph or item, and not at a colon.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from docs.marked import DOCS

BUDGET = 45_000
"""Words for people on the whole site that it may not pass."""
MEAN = 18
"""Words of a sentence, over all pages."""

FENCE = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)
MADE = re.compile(r"<!-- (keys|figure|excerpt|items) [^\n]+ -->.*?<!-- end \1 -->", re.DOTALL)
COMMENT = re.compile(r"<!--.*?-->|^---\n.*?^---\n", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"!?\[((?:[^][]|\[[^]]*\])*)\]\([^)]*\)")
END = re.compile(r"[.?!](?:[\"')*_]*)(?=\s|$)")
ITEM = re.compile(r"^\s*(?:[-*]|\d+\.)\s+", re.MULTILINE)


@dataclass(frozen=True)
class Page:
    """What one page has. words: for people. apart: in code and in made tables. sentences: words of each."""

    name: str
    words: int
    apart: int
    sentences: tuple[int, ...]


def count(name: str, text: str) -> Page:
    """The words of a page in Markdown."""
    whole = LINK.sub(r"\1", COMMENT.sub("", text))
    bare = COMMENT.sub("", MADE.sub("", FENCE.sub("", text)))
    bare = LINK.sub(r"\1", bare)
    words = _words(bare)
    return Page(name, words, max(0, _words(whole) - words), tuple(sentences(bare)))


def sentences(bare: str) -> Iterator[int]:
    """Words of each sentence of prose and lists; headings, tables and lone words are passed over."""
    text = re.sub(r"^(?:\||#|<).*$", "", bare, flags=re.MULTILINE)
    text = re.sub(r"`[^`\n]*`", "code", ITEM.sub("\n\n", text))
    for paragraph in re.split(r"\n\s*\n", text):
        for sentence in END.split(" ".join(paragraph.split())):
            if (words := _words(sentence)) > 1:
                yield words


def _words(text: str) -> int:
    """Runs without blanks that hold a letter or a digit."""
    return sum(any(sign.isalnum() for sign in run) for run in text.split())


def pages(docs: Path = DOCS) -> list[Page]:
    """All pages of the site that somebody wrote."""
    texts = {path.name: path.read_text(encoding="utf-8") for path in sorted(docs.glob("*.md"))}
    for path in sorted(docs.glob("notebooks/*")):
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".ipynb":
            cells = json.loads(text)["cells"]
            text = "\n\n".join(
                "".join(cell["source"]) if cell["cell_type"] == "markdown" else f"```\n{''.join(cell['source'])}\n```"
                for cell in cells
            )
        texts[f"notebooks/{path.stem}"] = text
    return [count(name, text) for name, text in texts.items()]


def total(of: list[Page]) -> Page:
    """All of them as one."""
    return Page(
        "together", sum(page.words for page in of), sum(page.apart for page in of), sum((p.sentences for p in of), ())
    )


def line(page: Page) -> str:
    """Words, words apart, mean sentence, sentences above 35 words, name."""
    mean = sum(page.sentences) / max(1, len(page.sentences))
    long = sum(words > 35 for words in page.sentences)
    return f"{page.words:7,} {page.apart:7,} {mean:6.1f} {long:5}  {page.name}"


def main() -> int:
    """Print the count."""
    parser = argparse.ArgumentParser(prog="python -m docs.words", description="Words of the site.")
    parser.add_argument("--total", action="store_true", help="the last line alone")
    chosen, counted = parser.parse_args(), pages()
    print("  words   apart   mean  long  page")
    for page in [] if chosen.total else sorted(counted, key=lambda page: -page.words):
        print(line(page))
    print(f"{line(total(counted))}, {len(counted)} pages; budget {BUDGET:,}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
