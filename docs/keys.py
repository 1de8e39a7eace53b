"""The tables of keys in docs/*.md, written from the models that read those keys.

`python -m docs.keys` writes them between `<!-- keys NAME -->` and `<!-- end keys -->`; `--check` says which are stale.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from datetime import date
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from consilium.coordinator.config import Federation, QueryBudget, Timeouts
from consilium.coordinator.mechanisms import SCALES
from consilium.coordinator.mechanisms import TABLES as MECHANISMS
from consilium.coordinator.parts import Privacy, SanitisedKeys
from consilium.coordinator.provision.plan import Plan, RowsPlan
from consilium.models.keys import TEACHERS, TRAINERS
from consilium.node.signed import Coordinator
from consilium.protocol.voting_rule import VOTING_RULES
from consilium.simulations.datasets.base import PublicSpec
from consilium.simulations.population.specs import DataSpec, ShiftSpec, SimulationSpec
from consilium.simulations.study.spec import StudyAxis, StudyTable
from consilium.student.config import StudentSpec

DOCS = Path(__file__).resolve().parent
MARKS = re.compile(r"(<!-- keys ([^\n]+?) -->\n)(.*?)(<!-- end keys -->)", re.DOTALL)
HEAD = "| key | type | default | meaning |\n|---|---|---|---|\n"
PLAIN = {Any: "anything", int: "integer", float: "number", str: "text", bool: "`true` or `false`", date: "day"}
LIMITS = {"gt": "> {}", "ge": "≥ {}", "lt": "< {}", "le": "≤ {}", "min_length": "{} or more"}
LIMITS["max_length"] = "≤ {} characters"


def of_model(model: type[BaseModel], prefix: str) -> str:
    """A table with one line for each key of a model."""
    return HEAD + "".join(_line(model, name, prefix) for name in model.model_fields)


def of_kinds(kinds: Iterable[type[BaseModel]], tag: str, prefix: str) -> str:
    """A table with one line for each kind, and after it one for each of its keys; the same key stands there once."""
    lines: list[str] = []
    for kind in kinds:
        fields = kind.model_fields
        name = fields[tag].default
        lines.append(f'| **`{prefix}.{tag} = "{name}"`** | | | {_one_line(kind.__doc__ or "")} |\n')
        mine = {field: _line(kind, field) for field in fields if field != tag}
        again = ", ".join(f"`{field}`" for field, line in mine.items() if line in lines)
        lines += [line for line in mine.values() if line not in lines]
        lines += [f"| {again} | as above | | |\n"] if again else []
    return HEAD + "".join(lines)


TABLES = {
    "data": lambda: of_model(DataSpec, "data"),
    "public": lambda: of_model(PublicSpec, "data.public"),
    "shift": lambda: of_model(ShiftSpec, "data.shift"),
    "federation": lambda: of_model(Federation, "federation"),
    "privacy": lambda: of_model(Privacy, "federation.privacy"),
    "sanitised": lambda: of_model(SanitisedKeys, "federation.privacy.sanitised"),
    "query_budget": lambda: of_model(QueryBudget, "federation.query_budget"),
    "timeouts": lambda: of_model(Timeouts, "federation.timeouts"),
    "voting rules": lambda: of_kinds(VOTING_RULES, "rule", "federation.voting_rule"),
    "teachers": lambda: of_kinds(TEACHERS, "model", "federation.teacher"),
    "mechanisms": lambda: of_kinds(MECHANISMS.values(), "name", "federation.mechanism"),
    "student": lambda: of_model(StudentSpec, "student"),
    "trainers": lambda: of_kinds(TRAINERS, "name", "student.trainer"),
    "simulation": lambda: of_model(SimulationSpec, "simulation"),
    "study": lambda: of_model(StudyTable, "study"),
    "axis": lambda: of_model(StudyAxis, "axis"),
    "rows": lambda: of_model(RowsPlan, "rows"),
    "coordinator": lambda: of_model(Coordinator, "coordinator"),
    "plan": lambda: HEAD + "".join(_line(Plan, name) for name in ("ends", "enrolments")),
}


def with_tables(text: str) -> str:
    """A page with its tables as the models are now."""
    return MARKS.sub(lambda mark: mark[1] + TABLES[mark[2]]() + mark[4], text)


def _line(model: type[BaseModel], name: str, prefix: str = "") -> str:
    field = model.model_fields[name]
    shown = field.alias or name
    key = f"{prefix}.{shown}" if prefix else shown
    default = _default(field)
    if model in MECHANISMS.values() and "unsafe_not_private" not in model.model_fields and name in SCALES:
        default += " without `epsilon`"
    kind = ", ".join([_type(field.annotation), *_limits(field)])
    return f"| `{key}` | {kind} |{default and f' {default}'} | {meaning(model, name)} |\n"


def meaning(model: type[BaseModel], name: str) -> str:
    """One line on a key: what the docstring of its class says after its name, else the field's own description."""
    told = re.search(rf"(?:^|[\s`]){name}`?(?:, \w+)*: (?!see )(.+?)\.(?=\s|$)", model.__doc__ or "", re.DOTALL)
    return _one_line(told[1] if told else model.model_fields[name].description or "")


def _type(annotation: Any) -> str:
    origin, inner = get_origin(annotation), get_args(annotation)
    if annotation in PLAIN:
        return PLAIN[annotation]
    if origin is Literal:
        return ", ".join("`true`" if value is True else f"`{value}`" for value in inner)
    if origin is tuple:
        return f"list of {_many(inner[0])}"
    if origin in (Union, UnionType):
        kinds = [item for item in inner if item is not NoneType]
        return " or ".join(dict.fromkeys(map(_type, kinds)))
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return ", ".join(f"`{item.value}`" for item in annotation)
    if hasattr(annotation, "__metadata__"):
        return _type(inner[0])
    return "table"


def _many(item: Any) -> str:
    several = {one: f"{one}s" for one in ("text", "number", "integer", "table")} | {"anything": "anything"}
    words = _type(item)
    return words if words.startswith("`") else " or ".join(several.get(each, "lists") for each in words.split(" or "))


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if isinstance(value, BaseModel):
        tag = next((getattr(value, tag) for tag in ("model", "name", "rule") if hasattr(value, tag)), None)
        return f"`{tag}`" if tag else ""
    if value is None or value == () or value == "" or value == {}:
        return ""
    return f"`{json.dumps(value)}`"


def _limits(field: FieldInfo) -> list[str]:
    """`1 to 300`, `> 0`, `≤ 100 characters`: each of a key's limits."""
    found = {name: getattr(item, name) for item in field.metadata for name in LIMITS if hasattr(item, name)}
    found = {name: limit for name, limit in found.items() if limit is not None}
    if {"ge", "le"} <= found.keys():
        return [f"{_number(found['ge'])} to {_number(found['le'])}"]
    return [LIMITS[name].format(_number(limit)) for name, limit in found.items() if name != "min_length" or limit > 1]


def _number(value: float) -> str:
    return f"{int(value):,}" if value == int(value) else f"{value:g}"


def _one_line(text: str) -> str:
    """The first paragraph without line ends."""
    return " ".join(text.strip().split("\n\n")[0].split()).replace("|", "\\|")


def main() -> int:
    """Write the tables, or only say which pages are stale."""
    check = "--check" in sys.argv
    stale = [path for path in sorted(DOCS.glob("*.md")) if with_tables(text := path.read_text("utf-8")) != text]
    for path in stale:
        print(f"{'stale' if check else 'written'}: {path.name}")
        if not check:
            path.write_text(with_tables(path.read_text("utf-8")), encoding="utf-8")
    return 1 if stale and check else 0


if __name__ == "__main__":
    sys.exit(main())
