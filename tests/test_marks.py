"""`make fast` is what it says: no test in it starts a deployment or Ray, and the Makefile knows every marker."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.marks import HEAVY, needed

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize(
    ("command", "mark"),
    [
        (["/somewhere/bin/flower-superlink", "--insecure"], "deploy"),
        ("flower-supernode --insecure", "deploy"),
        ([Path("/ray/core/src/ray/raylet/raylet"), "--x"], "ray"),
        ([sys.executable, "-m", "consilium", "node", "start", "ward-a"], "deploy"),
        ([sys.executable, "-m", "consilium", "run", "--engine", "ray"], "ray"),
        ([sys.executable, "-m", "consilium", "run", "--engine", "local"], None),
        ([sys.executable, "-m", "consilium", "party", "dry-run", "start"], None),
    ],
)
def test_what_needs_a_marker(command, mark: str | None) -> None:
    assert needed(command) == mark


def test_a_test_without_a_marker_starts_no_deployment() -> None:
    with pytest.raises(pytest.fail.Exception, match="mark it deploy"):
        subprocess.run(["flower-superlink", "--version"], check=False)
    assert subprocess.run([sys.executable, "-c", ""], check=False).returncode == 0


@pytest.mark.slow
def test_one_with_a_marker_is_let_alone() -> None:
    with pytest.raises(FileNotFoundError):
        subprocess.run(["/absent/flower-superlink"], check=False)


def test_the_makefile_leaves_out_every_one_of_them() -> None:
    (left_out,) = re.findall(r"^FAST := not \((.*)\)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert sorted(left_out.split(" or ")) == sorted(HEAVY)
    options = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    assert {line.partition(":")[0] for line in options["markers"]} >= set(HEAVY)
