"""An operator's desk: the enrolments that nodes' people sent, federation.toml, and the folder that is made of them."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import tomli_w

from consilium.coordinator.config import Federation
from consilium.coordinator.provision.folder import provision
from consilium.coordinator.served import ServedFederation
from consilium.node.folder import NodeKind
from consilium.node.keys import enrolment_file, make
from consilium.node.signed import read_signed

PARTIES = ("ward-a", "ward-b", "ward-c")
STUDENT, SECOND = "university", "board"
NODES: dict[str, NodeKind] = {"coordinator": "coordinator", **dict.fromkeys(PARTIES, "party"), STUDENT: "student"}
HIDDEN: dict[str, Any] = {"collection": "secure", "mechanism": {"name": "gnmax", "sigma": 60.0}}
ENDS = date(2035, 6, 30)


def enrol(desk: Path, name: str, kind: NodeKind = "party") -> Path:
    return enrolment_file(make(kind, name, desk / name)[0])


def plan_table(**changes: Any) -> dict[str, Any]:
    """federation.toml of three wards; of `changes`, keys of `[federation]` go there."""
    federation = {
        "name": "three wards",
        "collection": "plaintext",
        "teachers_per_party": 4,
        "minimum_parties": 2,
        "mechanism": {"name": "confident", "threshold": 7, "sigma1": 30.0, "sigma2": 30.0},
        "privacy": {"unit": "record", "delta": 1e-5},
        "query_budget": {"queries": 40, "answers": 40},
        **{key: value for key, value in changes.items() if key in Federation.model_fields},
    }
    return {
        "ends": ENDS,
        "enrolments": [f"{name}/{name}.enrol.json" for name in NODES],
        "federation": federation,
        "rows": {"public": "public.csv", "classes": ["well", "ill"]},
        "coordinator": {"hosts": ["coordinator.example.org", "192.0.2.10"]},
        **{key: value for key, value in changes.items() if key not in Federation.model_fields},
    }


def write_plan(desk: Path, table: dict[str, Any]) -> Path:
    """federation.toml, beside the enrolments of all nodes of `NODES` and two public rows."""
    for name, kind in NODES.items():
        if not (desk / name).exists():
            enrol(desk, name, kind)
    (desk / "public.csv").write_text("age,pressure\n50,120\n70,160\n")
    path = desk / "federation.toml"
    path.write_text(tomli_w.dumps(table))
    return path


def made(desk: Path, **changes: Any) -> Path:
    provision(write_plan(desk, plan_table(**changes)), desk / "out")
    return desk / "out"


def verified(desk: Path, **changes: Any) -> Path:
    enrol(desk, SECOND, "aggregator")
    table = plan_table(**{**HIDDEN, "collection": "verified", **changes})
    table["enrolments"].append(f"{SECOND}/{SECOND}.enrol.json")
    provision(write_plan(desk, table), desk / "out")
    return desk / "out"


def read(out: Path) -> ServedFederation:
    return read_signed(out / "federation", ServedFederation, out / "operator" / "ca.crt").file
