"""Each row of the page of attacks names tests, and each of them exists."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "attacks.md"
NAMED = re.compile(r"(tests/[\w/]+\.py)?((?:::\w+)*)")
"""A file of tests, and a class or a test in it; without a file, of the one that the row named before."""


def rows(page: str) -> list[str]:
    """Of all its tables, without their heads."""
    lines = page.splitlines()
    return [
        line
        for before, line in pairwise(lines)
        if line.startswith("| ") and before.startswith("|") and not line.startswith("| attack |")
    ]


@cache
def names_in(path: Path) -> frozenset[str]:
    """Classes and tests of a file, as pytest names them after its path."""
    return frozenset(_names(ast.parse(path.read_text(encoding="utf-8")).body, ""))


def _names(body: list[ast.stmt], before: str) -> Iterator[str]:
    for item in body:
        if isinstance(item, ast.ClassDef):
            yield f"{before}::{item.name}"
            yield from _names(item.body, f"{before}::{item.name}")
        elif isinstance(item, ast.FunctionDef) and item.name.startswith("test"):
            yield f"{before}::{item.name}"


def missing(row: str, root: Path = ROOT) -> list[str]:
    """What a row names that is not there; that it names nothing."""
    wrong, path, found = [], "", 0
    for match in NAMED.finditer(row):
        path, name = match[1] or path, match[2]
        if not match[0]:
            continue
        found += 1
        if not path or not (root / path).is_file():
            wrong.append(f"{path}{name}: no such file")
        elif name and name not in names_in(root / path):
            wrong.append(f"{path}{name}")
    return wrong if found else ["no test"]


@pytest.mark.parametrize("row", rows(PAGE.read_text(encoding="utf-8")), ids=lambda row: row[2:50])
def test_every_attack_names_tests_that_exist(row: str) -> None:
    assert missing(row) == []


def test_what_does_not_exist_is_found() -> None:
    here = Path(__file__).relative_to(ROOT).as_posix()
    own = "test_what_does_not_exist_is_found"
    assert missing(f"| a | `{here}::{own}`, control `::{own}` |") == []
    assert missing(f"| a | {here}::test_gone, control `::TestGone::{own}` |") == [
        f"{here}::test_gone",
        f"{here}::TestGone::{own}",
    ]
    assert missing("| a | tests/gone.py, `::test_gone` |") == [
        "tests/gone.py: no such file",
        "tests/gone.py::test_gone: no such file",
    ]
    assert missing("| a | nothing |") == ["no test"]


def test_the_page_has_rows() -> None:
    assert len(rows(PAGE.read_text(encoding="utf-8"))) > 40
    assert rows("| attack | test |\n|---|---|\n| a | b |\n") == ["| a | b |"]
