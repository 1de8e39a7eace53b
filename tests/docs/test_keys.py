"""The tables of keys in the pages are those of the models, and every key says what it means."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from consilium.coordinator.config import Federation
from consilium.simulations.population.specs import DataSpec
from docs import keys
from docs.marked import names, pages

PAGES = [path for path in pages() if keys.MARKS.search(path.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_tables_of_a_page_are_not_stale(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert keys.with_tables(text) == text, "write them anew: python -m docs.keys"


def test_every_table_stands_in_a_page() -> None:
    marked = [name for page in PAGES for name in names(page.read_text(encoding="utf-8"), keys.MARKS)]
    assert sorted(marked) == sorted(keys.TABLES)


@pytest.mark.parametrize("name", keys.TABLES)
def test_every_key_has_a_meaning(name: str) -> None:
    for line in keys.TABLES[name]().splitlines()[2:]:
        assert re.fullmatch(r"\| .+ \|", line)
        assert line.split(" | ")[-1].removesuffix(" |").strip(), line


@pytest.mark.parametrize(
    ("model", "prefix", "line"),
    [
        (Federation, "federation", "| `federation.teachers_per_party` | whole number | `1` | ≥ 1, ≤ 1,000 |"),
        (DataSpec, "data", "| `data.public_share` | number | `0.2` | > 0, < 1 |"),
        (DataSpec, "data", "| `data.set` | text | required |  |"),
        (DataSpec, "data", '| `data.colour` | `grey`, `rgb` | `"grey"` |  |'),
    ],
)
def test_type_default_and_limits(model: type[BaseModel], prefix: str, line: str) -> None:
    assert line in keys.of_model(model, prefix)
