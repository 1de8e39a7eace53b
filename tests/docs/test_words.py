"""The site stays short enough to be read, and its sentences too."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs import words

EXAMPLE = """---
hide: toc
---
# Four words of heading

One sentence of six words stands. Another: it goes on after a colon!

<!-- figure a/b -->
| a | table | that | is | made |
<!-- end figure -->

- an item with `some --code` and [a link](nowhere.md)
- two words

```
code is counted apart
```
"""


def test_what_is_counted() -> None:
    page = words.count("example.md", EXAMPLE)
    assert (page.words, page.apart) == (4 + 13 + 8 + 2, 5 + 4)
    assert page.sentences == (6, 7, 7, 2)


def test_the_site_is_within_its_budget() -> None:
    total = words.total(words.pages())
    assert total.words <= words.BUDGET, "shorten a page, or move what was measured to docs/laboratory/"


def test_sentences_are_short() -> None:
    total = words.total(words.pages())
    assert sum(total.sentences) / len(total.sentences) <= words.MEAN


@pytest.mark.parametrize("name", ["laboratory", "decisions"])
def test_records_are_not_counted(name: str) -> None:
    records = {path.name for path in (words.DOCS / name).glob("*.md")}
    assert records and not {Path(page.name) for page in words.pages()} & {Path(name) / record for record in records}
