"""The maps of the repository name every folder, and no folder that is gone.

The tables of keys in the pages are those of the models, and every key says what it means.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from pydantic import BaseModel

from benchmarks.house import ROOMS
from consilium.coordinator.config import Federation
from consilium.protocol.refusals import Rule
from consilium.simulations.population.specs import DataSpec
from docs import keys
from docs.marked import names, pages
from tests.docs.pages import ROOT


def first_column(page: str) -> list[str]:
    """Folders in the first column of a page's tables, in their order."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return re.findall(r"^\| `([\w/]+/)` \|", text, re.MULTILINE)


def folders_with(pattern: str, *tops: str) -> set[str]:
    """Folders of the repository in which a file of that kind lies."""
    found = {file.parent for top in tops for file in (ROOT / top).rglob(pattern)}
    return {f"{folder.relative_to(ROOT).as_posix()}/" for folder in found}


@pytest.mark.parametrize(
    ("page", "there"),
    [
        ("architecture.md", folders_with("__init__.py", *ROOMS)),
        ("laboratory/tests.md", folders_with("test_*.py", "tests") - {"tests/"}),
    ],
)
def test_every_folder_once(page: str, there: set[str]) -> None:
    named = first_column(page)
    assert sorted(named) == sorted(there)


def test_every_marker() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"]["ini_options"]
    marked = {marker.split(":")[0] for marker in settings["markers"]}
    text = (ROOT / "docs/laboratory/tests.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `([a-z]+)` \|", text, re.MULTILINE)) == marked


def test_every_rule_of_refusal() -> None:
    text = (ROOT / "docs/parties.md").read_text(encoding="utf-8")
    cells = re.findall(r"^\| (`[a-z-]+`(?:, `[a-z-]+`)*) \|", text[text.index("## Refusals") :], re.MULTILINE)
    assert sorted(name for cell in cells for name in re.findall(r"[a-z-]+", cell)) == sorted(Rule)


def test_every_decision_is_titled() -> None:
    """The site lists them by their first line."""
    for decision in sorted((ROOT / "docs/decisions").glob("*.md")):
        assert decision.read_text(encoding="utf-8").startswith("# "), decision.name


def test_the_picture_is_described() -> None:
    """For whoever cannot see it, and for the pages that show it."""
    picture = Path(ROOT / "docs/run.svg").read_text(encoding="utf-8")
    assert "<title" in picture
    assert "<desc" in picture


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
