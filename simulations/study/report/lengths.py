"""How long a page is, and what of it is folded so that it stays readable: figures in detail, the longest first.

Heights are estimated on a screen of a thousand pixels, from lines of text; nobody has to draw a page to know that it is
too long. What is folded opens with a click, is found by a search, and is printed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from consilium.report.exhibits import Exhibit, PagePart, Table

MOST_HEIGHT = 13_000
"""Pixels of a page; estimates are good to a tenth."""
OPEN_PARTS = ("part-answers", "part-questions", "part-findings", "part-made")
_WIDTH, _LETTER, _LINE, _SMALL = 980, 7.2, 21, 18
_HEADING, _PART, _FOLDED = 110, 110, 34


def folded_to_fit(parts: Sequence[PagePart], most: int = MOST_HEIGHT) -> list[PagePart]:
    """The same, with exhibits folded until the page is no higher than `most`, as far as there are any to fold.

    The first exhibit of a part stays open as long as there is another to fold, and parts of words alone (`OPEN_PARTS`)
    are never touched.
    """
    open_places = [
        (part, place)
        for part, shown in enumerate(parts)
        if shown.name not in OPEN_PARTS
        for place, exhibit in enumerate(shown.exhibits)
        if exhibit.look in ("", "wide") and (exhibit.table is not None or exhibit.chart is not None)
    ]
    heights = {key: _height(parts[key[0]].exhibits[key[1]]) for key in open_places}
    total = sum(_PART + sum(map(_height, part.exhibits)) for part in parts)
    folded: set[tuple[int, int]] = set()
    for key in sorted(open_places, key=lambda key: (key[1] == 0, -heights[key])):
        if total <= most:
            break
        folded.add(key)
        total -= heights[key] - _FOLDED
    return [
        replace(part, exhibits=tuple(
            replace(exhibit, look="folded") if (number, place) in folded else exhibit
            for place, exhibit in enumerate(part.exhibits)
        ))
        for number, part in enumerate(parts)
    ]  # fmt: skip


def _height(exhibit: Exhibit) -> float:
    if exhibit.look == "folded":
        return _FOLDED
    height = _HEADING + sum(_LINE * math.ceil(len(str(text)) * _LETTER / _WIDTH) for text in exhibit.words)
    height += sum(8 + _LINE * math.ceil(len(str(text)) * _LETTER / _WIDTH) for text in exhibit.items)
    if exhibit.chart is not None:
        drawn = [drawing.height + 40 for _, drawing in exhibit.chart.parts]
        height += sum(drawn) if len(drawn) == 1 else sum(map(max, zip(drawn[::2], [*drawn[1::2], 0], strict=False)))
    return height + (_table_height(exhibit.table) if exhibit.table is not None else 0)


def _table_height(table: Table) -> float:
    """Columns are about equally wide, and their text goes on below."""
    columns = max([len(line.cells) + 1 for line in table.lines] or [1])
    letters = max(8.0, _WIDTH / columns / _LETTER)
    total = 40.0
    for line in table.shown:
        rows = [_LINE * math.ceil(len(str(line.name)) / letters)]
        rows += [_LINE + _SMALL * math.ceil(len(cell.under) / letters / 1.2) for cell in line.cells]
        total += 15 + max(rows)
    return total
