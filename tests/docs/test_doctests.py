"""The examples in docstrings give what they say."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import consilium
from tests.docs.pages import ROOT

LEAST = 60
"""Modules without examples are no fault; nearly all of them losing theirs would be one of this test."""


def modules_with_examples() -> Iterator[str]:
    """Dotted names, found in the text: importing all of them only to collect would cost seconds."""
    for found in pkgutil.walk_packages(consilium.__path__, "consilium."):
        place = ROOT.joinpath(*found.name.split(".")[1:])
        file = place / "__init__.py" if found.ispkg else place.with_suffix(".py")
        if not file.is_file():
            file = (Path(consilium.__file__).parent / found.name.split(".")[1]).with_suffix(".py")
        if ">>> " in file.read_text(encoding="utf-8"):
            yield found.name


MODULES = list(modules_with_examples())


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    outcome = doctest.testmod(importlib.import_module(name))
    assert outcome.attempted > 0
    assert outcome.failed == 0


def test_the_walk_finds_the_examples() -> None:
    finder = doctest.DocTestFinder(exclude_empty=True)
    examples = sum(len(test.examples) for name in MODULES for test in finder.find(importlib.import_module(name)))
    assert examples >= LEAST
