"""The sources as syntax trees: one meaning for each class name, and nobody asks of which class a mechanism is."""

from __future__ import annotations

import ast
from collections import defaultdict

import pytest

from consilium.accounting.events import Mechanism, ReleaseEvent
from consilium.accounting.mechanisms import MECHANISMS
from tests.rooms import ROOMS, ROOT

GENERATED = ("_pb2.py", "_pb2_grpc.py")


SHARED = {"Mechanism", *(cls.__name__ for cls in MECHANISMS.values())}
"""Names that two classes have: a mechanism as accounting describes it, and as the coordinator draws it."""


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


CLASSES = {cls.__name__ for cls in (ReleaseEvent, Mechanism, *MECHANISMS.values())}
NAMES = set(MECHANISMS)


def names_in(node: ast.AST) -> set[str]:
    """Every name and last part of a dotted name below this node."""
    found = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    return found | {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}


def texts_in(node: ast.AST) -> set[object]:
    return {each.value for each in ast.walk(node) if isinstance(each, ast.Constant)}


def ladders(source: str) -> list[int]:
    """Lines that ask for the class or the name of an event or a mechanism."""
    tree = ast.parse(source)
    lines = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            asks = node.func.id in ("isinstance", "issubclass") and names_in(node.args[1]) & CLASSES
        elif isinstance(node, ast.MatchClass):
            asks = names_in(node.cls) & CLASSES
        elif isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            kinds = any(isinstance(side, ast.Call) and names_in(side.func) == {"type"} for side in sides)
            asks = kinds and any(names_in(side) & CLASSES for side in sides)
            says = any(isinstance(side, ast.Attribute) and side.attr == "name" for side in sides)
            asks = asks or (says and any(texts_in(side) & NAMES for side in sides))
        else:
            continue
        if asks:
            lines.append(node.lineno if isinstance(node, ast.expr) else node.cls.lineno)
    return sorted(lines)


SOURCES = sorted(path for room in (*ROOMS, "benchmarks") for path in (ROOT / room).rglob("*.py"))


def test_no_module_asks_what_an_event_or_a_mechanism_is() -> None:
    assert len(SOURCES) > 200
    found = {str(path.relative_to(ROOT)): ladders(path.read_text(encoding="utf-8")) for path in SOURCES}
    assert {path: lines for path, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("isinstance(event.mechanism, mechanisms.GNMax | Confident)", 1),
        ("type(mechanism) is Sanitised", 1),
        ("mechanism.name in ('gnmax', 'lnmax')", 1),
        ("match mechanism:\n    case Confident(threshold=t):\n        pass", 2),
        ("isinstance(value, float), GNMax(sigma=1.0), node.name == 'root'", None),
    ],
)
def test_every_way_to_ask_is_seen(source: str, line: int | None) -> None:
    assert ladders(source) == ([] if line is None else [line])
