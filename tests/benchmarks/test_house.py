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
    counted = measures(tree(tmp_path, package))
    assert counted["files"] == "7"
    assert counted["import circles"] == "1 (party.one <-> party.two)"  # one arrow of it is in a function
    assert counted["module to module"] == "4"
    assert counted["folder to folder"] == "2"  # party to accounting, command line to party
    assert counted["lines in 6 that stand twice"] == "12"  # in two modules; neither comments nor signatures count
    assert counted["names that say nothing"] == "0"


def test_a_revision_that_is_not_there() -> None:
    with pytest.raises(SystemExit, match="no-such-revision"):
        at("no-such-revision")
