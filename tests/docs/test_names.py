"""What the pages name is there: modules, files, tests, benchmarks, make targets, and commands within sentences."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup

from consilium.cli import DefaultGroup, app
from tests.docs.pages import PAGES, ROOT, commands, inline_code

TOP = "accounting|protocol|party|aggregator|coordinator|student|simulations|consilium|tests|benchmarks|docs"
PATH = re.compile(rf"(?<![\w./-])(?:{TOP})(?:/[\w.-]+)*/?(?:[\w-]+\.(?:py|md|proto|toml))?(?![\w/])")
NODE = re.compile(r"(?P<file>tests/[\w/]+\.py)?::(?P<names>\w+(?:::\w+)*)")


def dotted_names(page: Path, text: str) -> list[str]:
    """Modules, and what is in them, that are not there. ROOM stands for any."""
    names = set(re.findall(r"(?<![\w./-])consilium(?:\.\w+)+(?![\w-])", text))
    return [name for name in sorted(names - {"consilium.ROOM"}) if not resolves(name)]


def files_and_folders(page: Path, text: str) -> list[str]:
    """Only what is written as a path of the repository: with a suffix of ours, or a slash at its end."""
    ours = [
        path
        for path in PATH.findall(text)
        if path.endswith((".py", ".proto", "/")) or (path.startswith("docs/") and path.endswith(".md"))
    ]
    return [path for path in ours if not (ROOT / path).exists()]


def files_that_are_named_alone(page: Path, text: str) -> list[str]:
    named = {code for code in inline_code(page) if re.fullmatch(r"\w+\.py", code)}
    return [name for name in sorted(named) if not list(ROOT.glob(f"[!.]*/**/{name}"))]


def named_tests(page: Path, text: str) -> list[str]:
    """`tests/a/test_b.py::TestC::test_d`; `::test_e` alone is of the file named before it."""
    missing, file = [], ""
    for match in NODE.finditer(text):
        file = match["file"] or file
        defined = names_in(ROOT / file) if (ROOT / file).is_file() else set()
        missing += [f"{file}::{name}" for name in match["names"].split("::") if name not in defined]
    return missing


def benchmarks(page: Path, text: str) -> list[str]:
    modules = {path.stem for path in (ROOT / "benchmarks").iterdir()}
    return sorted(set(re.findall(r"python -m benchmarks[. ]([a-z_]+)", text)) - modules)


def of_commands(page: Path, text: str) -> list[str]:
    """In blocks and within sentences. Arguments may lack, but there must be such a command, and its options."""
    wrong = []
    place = page.relative_to(ROOT).as_posix()
    shown = [each.text for each in commands() if each.place.startswith(f"{place}:")]
    for code in (*inline_code(page), *shown):
        if not code.startswith("consilium ") or "COMMAND" in code:
            continue
        command, words = typer.main.get_command(app), code.split()[1:]
        while words and isinstance(command, TyperGroup) and words[0] in command.commands:
            command = command.commands[words.pop(0)]
        if isinstance(command, DefaultGroup) and words:
            command = command.commands[command.default]
        elif isinstance(command, TyperGroup) and words and not words[0].startswith("-"):
            wrong.append(f"{code}: no command {words[0]!r}")
        options = {name for parameter in command.params for name in parameter.opts} | {"--help"}
        wrong += [f"{code}: no option {word}" for word in words if word.startswith("--") and word not in options]
    return wrong


ABSENT = (dotted_names, files_and_folders, files_that_are_named_alone, named_tests, benchmarks, of_commands)


@pytest.mark.parametrize("absent", ABSENT, ids=lambda absent: absent.__name__)
def test_what_the_pages_name_is_there(absent: Callable[[Path, str], list[str]]) -> None:
    faults = {page.relative_to(ROOT).as_posix(): absent(page, page.read_text(encoding="utf-8")) for page in PAGES}
    assert {name: wrong for name, wrong in faults.items() if wrong} == {}


def test_make_targets() -> None:
    """Those in blocks of commands and those within sentences."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = {command.text.split()[1] for command in commands() if command.text.startswith("make ")}
    named |= {code.split()[1] for page in PAGES for code in inline_code(page) if re.match(r"make [a-z]", code)}
    assert named - targets == set()


@cache
def resolves(name: str) -> bool:
    """Whether a dotted name is a module, or an attribute of one."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            thing = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            if not hasattr(thing, part):
                return False
            thing = getattr(thing, part)
        return True
    return False


@cache
def names_in(file: Path) -> set[str]:
    """Functions and classes that a test file defines."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}
