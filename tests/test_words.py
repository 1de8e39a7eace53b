"""One meaning for each word: no two modules give a class the same name, and a name says what is in it."""

from __future__ import annotations

import ast
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
