"""Parts of pages that are made, not typed: what stands between `<!-- KIND NAME -->` and `<!-- end KIND -->`.

`docs.keys` makes the tables of keys, `docs.figures` the measured tables. Pages are docs/*.md, the laboratory's records
in docs/laboratory/*.md, which are no part of the site, and README.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

DOCS = Path(__file__).resolve().parent


def pattern(kind: str, line_end: str = "\n") -> re.Pattern[str]:
    """The marks of one kind; groups: opening mark, name, what stands between, closing mark."""
    return re.compile(rf"(<!-- {kind} ([^\n]+?) -->{line_end})(.*?)(<!-- end {kind} -->)", re.DOTALL)


def pages(docs: Path = DOCS) -> list[Path]:
    """All pages of a folder of documentation, the records in its laboratory, and the README beside it."""
    return [*sorted(docs.glob("*.md")), *sorted(docs.glob("laboratory/*.md")), *docs.parent.glob("README.md")]


def names(text: str, marks: re.Pattern[str]) -> list[str]:
    """Names at the marks of a page, in their order."""
    return [match[2] for match in marks.finditer(text)]


def with_parts(text: str, marks: re.Pattern[str], part: Callable[[str], str]) -> str:
    """A page with what `part` makes for each name between its marks."""
    return marks.sub(lambda match: f"{match[1]}{part(match[2])}{match[4]}", text)


def stale_pages(render: Callable[[str], str], write: bool, docs: Path = DOCS) -> list[Path]:
    """Pages that `render` would change; they are changed if `write`."""
    stale = []
    for path in pages(docs):
        text = path.read_text(encoding="utf-8")
        if (new := render(text)) != text:
            stale.append(path)
            if write:
                path.write_text(new, encoding="utf-8")
    return stale


def typed_tables(text: str) -> list[str]:
    """First lines of the tables of a page; those in fences or between marks of any kind are passed over."""
    made = r"^```.*?^```|<!-- (\w+) [^\n]+ -->.*?<!-- end \1 -->"
    bare = re.sub(made, "", text, flags=re.DOTALL | re.MULTILINE)
    return re.findall(r"^(\|.*)\n\|[-:| ]+\|$", bare, flags=re.MULTILINE)
