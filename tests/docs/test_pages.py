"""The pages: links within the repository lead to a file and, on a page, to a heading that is there; sentences are short
(how many words there are, tools/house.py counts); what they show of docs/results.json is what stands there; modules,
files, tests, benchmarks, make targets and commands that they name are there."""

from __future__ import annotations

import ast
import doctest
import importlib
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup

from benchmarks import held_out, results
from consilium.cli import DefaultGroup, app
from docs import keys
from tests.docs.pages import FENCE, PAGES, ROOT, commands, inline_code, prose

LINK = re.compile(r"\]\((?![a-z]+:)(?P<target>[^)\s#]*)(?:#(?P<anchor>[^)\s]*))?\)")
HEADING = re.compile(r"^#+ +(.+?) *#*$", re.MULTILINE)
MADE = ("docs/reference/",)
"""Pages of the site that no file in docs/ holds."""


@cache
def anchors(page: Path) -> set[str]:
    """What Markdown's `toc` makes of the headings."""
    text, seen, found = FENCE.sub("", page.read_text(encoding="utf-8")), {}, set()
    for heading in HEADING.findall(text):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)|[`*]|<!--.*?-->", r"\1", heading)
        slug = re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())
        seen[slug] = seen.get(slug, -1) + 1
        found.add(f"{slug}_{seen[slug]}" if seen[slug] else slug)
    return found


def broken(page: Path, text: str) -> list[str]:
    """Links of a page that lead nowhere."""
    wrong = []
    for link in LINK.finditer(FENCE.sub("", text)):
        path = (page.parent / link["target"]).resolve() if link["target"] else page
        name = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else str(path)
        if name.startswith(MADE):
            continue
        if not path.exists() or (path.suffix == ".md" and link["anchor"] and link["anchor"] not in anchors(path)):
            wrong.append(link[0])
    return wrong


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    assert broken(page, page.read_text(encoding="utf-8")) == []


MEAN = 18
GENERATED = re.compile(r"(?s:<!-- (?:keys|results) .*?<!-- end.*?-->|<!--.*?-->|\A---$.*?^---$)|^\|.*$", re.MULTILINE)
END = re.compile(r"[.?!:](?:[\"')*_]*)(?=\s|$)|\n\s*\n|^\s*(?:[-*]|\d+\.)\s|^#.*$", re.MULTILINE)


def sentences(text: str) -> list[int]:
    """Words of each; tables, headings and code are none."""
    return [len(part.split()) for part in END.split(GENERATED.sub("\n\n", text)) if part.split()]


def test_sentences_are_short() -> None:
    lengths = [length for page in PAGES for length in sentences(prose(page))]
    assert sum(lengths) / len(lengths) <= MEAN


PAGE = "AUC <!-- result one student -->.7<!-- end -->\n\n<!-- results one -->\n| row | B |\nold\n<!-- end -->\n"
ONE: results.Results = {"one": {"values": {"student": ".8", "x / A": "1", "x / B": "2"}}}


@pytest.mark.parametrize("page", results.pages(), ids=lambda page: page.name)
def test_keys_and_figures_are_those_of_the_models_and_of_the_file(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert keys.with_tables(text) == results.filled(text, results.read()) == text, "`make keys`, `make results`"


def test_marks_are_filled() -> None:
    shown = {"one": {"values": {"x / A": "1", "x / B": "2"}}}
    table = "<!-- results one -->\n| row | B |\n|---|---|\n| x | 2 |\n<!-- end -->\n"
    assert results.filled(PAGE.partition("\n\n")[2], shown) == table
    assert results.filled(PAGE.partition("\n\n")[0], ONE) == "AUC <!-- result one student -->.8<!-- end -->"
    study = {"study-one": {"values": {"made": "`consilium study one`: 2 cells.", "1": "No more.", "2": "No less."}}}
    assert results.filled("<!-- study study-one -->\n<!-- end -->\n", study) == (
        "<!-- study study-one -->\n`consilium study one`: 2 cells.\n\n1. No more.\n2. No less.\n<!-- end -->\n"
    )
    with pytest.raises(KeyError):
        results.filled(PAGE, {})


@pytest.mark.parametrize("page", results.pages(), ids=lambda page: page.name)
def test_each_mark_equals_the_file(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    same = results.filled(text, results.read()) == text
    assert same, "run make results"


def test_no_result_is_kept_that_no_page_shows() -> None:
    shown = set().union(*(results.ids(page.read_text(encoding="utf-8")) for page in results.pages()))
    assert shown == set(results.read())


def test_every_result_says_where_it_is_from() -> None:
    for name, result in results.read().items():
        assert set(result) - {"seconds"} == {"values", "split", "seeds", "command", "version"}, name
        assert result["split"] and all(isinstance(value, str) for value in result["values"].values()), name


@pytest.mark.parametrize("module", [results, held_out])
def test_examples(module: object) -> None:
    outcome = doctest.testmod(module)  # pyright: ignore[reportArgumentType]
    assert outcome.attempted > 0 and outcome.failed == 0


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
