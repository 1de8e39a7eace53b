"""One meaning for each word: no two modules give a class the same name, and a name says what is in it."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict

from tests.rooms import ROOMS, ROOT

GENERATED = ("_pb2.py", "_pb2_grpc.py")

SAYS_NOTHING = frozenset(
    ("told", "found", "given", "kept", "said", "asked", "own", "each", "what", "at", "here", "made", "got")
)

SHARED: dict[str, str] = {}
"""Names that two classes may have, each with its reason."""


def defined() -> dict[str, list[str]]:
    """Public classes by name, with the files that define them at top level."""
    found = defaultdict(list)
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            if path.name.endswith(GENERATED):
                continue
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    found[node.name].append(str(path.relative_to(ROOT)))
    return found


def test_a_class_name_has_one_meaning() -> None:
    classes = defined()
    assert {"PartyNode", "Ledger", "Accountant", "Scenario"} <= classes.keys()
    assert {name: files for name, files in classes.items() if len(files) > 1 and name not in SHARED} == {}


CLEAN: tuple[str, ...] = (
    "report",
    "coordinator/distinguish",
    "coordinator/collection",
    "data",
    "simulations/datasets",
    "simulations/population",
    "simulations/council",
    "simulations/methods",
    "simulations/study",
    "student",
    "aggregator",
    "party",
    "sums",
)
"""Folders whose code keeps to that; those below them do too."""


def named(tree: ast.AST) -> list[str]:
    """Names of variables where they are bound, of parameters and of functions."""
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.append(node.id)
        elif isinstance(node, ast.arg):
            names.append(node.arg)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            names.append(node.name)
    return names


def test_a_name_says_what_is_in_it() -> None:
    assert Counter(named(ast.parse("def found(own):\n    for at in own:\n        told: int = at"))) == Counter(
        ("found", "own", "at", "told")
    )
    wrong = {
        str(path.relative_to(ROOT)): sorted(SAYS_NOTHING & set(named(ast.parse(path.read_text(encoding="utf-8")))))
        for folder in CLEAN
        for path in (ROOT / folder).rglob("*.py")
    }
    assert {path: names for path, names in wrong.items() if names} == {}
