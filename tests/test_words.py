"""The sources as syntax trees: one meaning for each class name, and nobody asks of which class a mechanism is."""

from __future__ import annotations

import ast
import re
from collections import defaultdict

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


KINDS = "|".join(["ReleaseEvent", "Mechanism", *(cls.__name__ for cls in MECHANISMS.values())])
ASKS = re.compile(
    rf"\b(?:isinstance|issubclass)\([^()]*,[^()]*\b(?:{KINDS})\b|\bcase (?:\w+\.)*(?:{KINDS})\("
    rf"|\btype\([^()]*\) (?:is|==|in) [^:\n]*\b(?:{KINDS})\b"
    rf"|\.name (?:==|!=|in) [^:\n]*[\"'](?:{'|'.join(MECHANISMS)})[\"']"
)
"""Asks for the class or the name of an event or a mechanism."""
SOURCES = sorted(path for room in (*ROOMS, "benchmarks") for path in (ROOT / room).rglob("*.py"))


def test_no_module_asks_what_an_event_or_a_mechanism_is() -> None:
    assert len(SOURCES) > 200
    found = {str(path.relative_to(ROOT)): ASKS.findall(path.read_text(encoding="utf-8")) for path in SOURCES}
    assert {path: asked for path, asked in found.items() if asked} == {}
    for ask in (
        "isinstance(event.mechanism, mechanisms.GNMax | Confident)",
        "type(mechanism) is Sanitised",
        "mechanism.name in ('gnmax', 'lnmax')",
        "match mechanism:\n    case Confident(threshold=t):",
    ):
        assert ASKS.search(ask)
