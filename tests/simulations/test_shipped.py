"""Which scenario or study a name means."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from consilium.protocol.errors import ConfigError
from consilium.simulations.shipped import Shipped


def test_a_name_is_what_ships_and_else_a_file(tmp_path: Path) -> None:
    assert Shipped.SCENARIO.path("stroke") == Shipped.SCENARIO.files()["stroke"]
    own = tmp_path / "stroke.toml"
    own.touch()
    assert Shipped.SCENARIO.path(str(own)) == own
    assert Shipped.STUDY.path("heart").is_file()


@pytest.mark.parametrize(
    ("kind", "name", "what", "action"),
    [
        (Shipped.SCENARIO, "strok", "no scenario 'strok': .*; did you mean 'stroke'", "consilium scenarios"),
        (Shipped.SCENARIO, "qqqqqq", r"neither a file nor one that ships\. List", "consilium scenarios"),
        (Shipped.SCENARIO, "heart", "'heart' is a study, no scenario", "consilium study heart"),
        (Shipped.STUDY, "stroke", "'stroke' is a scenario, no study", "consilium run stroke"),
    ],
)
def test_a_name_that_is_none(kind: Shipped, name: str, what: str, action: str) -> None:
    with pytest.raises(ConfigError, match=what) as caught:
        kind.path(name)
    assert action in caught.value.action


def test_a_wrong_name_is_said_before_libraries_load() -> None:
    code = (
        "import sys; from consilium.cli import main\n"
        "try: main(['run', 'strok'])\n"
        "except SystemExit as end: sys.exit(end.code if 'sklearn' not in sys.modules else 99)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert "libraries" not in done.stderr
    assert len(done.stderr.splitlines()) == 1
