"""The maps of the repository name every folder, and no folder that is gone."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from benchmarks.house import ROOMS
from consilium.protocol.refusals import Rule
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
        ("tests.md", folders_with("test_*.py", "tests") - {"tests/"}),
    ],
)
def test_every_folder_once(page: str, there: set[str]) -> None:
    named = first_column(page)
    assert sorted(named) == sorted(there)


def test_every_marker() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"]["ini_options"]
    marked = {marker.split(":")[0] for marker in settings["markers"]}
    text = (ROOT / "docs/tests.md").read_text(encoding="utf-8")
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
