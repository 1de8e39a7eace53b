"""What `python -m benchmarks.house` counts, on a tree of a few lines in the old and the new layout."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.house import at, measures

EVENTS = "class Gaussian: ...\nclass Laplace: ...\nEvent = Gaussian | Laplace\n"
ONE = """from {package}party import two
from {package}accounting.events import Gaussian

def cost(event):
    # the lines of this function stand twice
    if isinstance(event, Gaussian):
        return 1
    match event:
        case Gaussian(): return 2
    isinstance(event, int)
    return 3
"""
TWO = "def late():\n    from {package}party.one import cost\n    return cost\n"


def tree(root: Path, package: str) -> Path:
    files = {
        "accounting/__init__.py": "",
        "accounting/events.py": EVENTS,
        "party/__init__.py": "",
        "party/one.py": ONE,
        "party/two.py": TWO,
        "party/three.py": ONE.partition("\n\n")[2],
        "party/labels_pb2.py": "import nothing_of_this_is_counted\n",
        f"{package.replace('.', '/')}cli.py": "import {package}party.two\n",
    }
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("{package}", package))
    return root


@pytest.mark.parametrize("package", ["", "consilium."])
def test_a_small_house(tmp_path: Path, package: str) -> None:
    found = measures(tree(tmp_path, package))
    assert found["modules"] == "7"
    assert found["files in the fullest folder"] == "4 (party)"
    assert found["import circles"] == "1 (party.one <-> party.two)"  # one arrow of it is in a function
    assert found["arrows between modules"] == "4"
    assert found["arrows between rooms"] == "2"  # party to accounting, command line to party
    assert found["isinstance on events and mechanisms"] == "4"
    assert (
        found["lines in 6 that stand twice"] == "12"
    )  # six in each of two modules; neither comments nor signatures count


def test_a_revision_that_is_not_there() -> None:
    with pytest.raises(SystemExit, match="no-such-revision"):
        at("no-such-revision")
