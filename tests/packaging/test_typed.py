"""`py.typed` holds for whoever installs the wheel: pyright knows the public names, and what they take."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.packaging.conftest import ROOT, Installed

WRONG = "import consilium\n\nconsilium.load_scenarios('stroke')\nconsilium.load_model(3)\n"


def complaints(installed: Installed, file: Path) -> list[tuple[int, str]]:
    """Line (from 1) and rule of each of pyright's complaints."""
    done = subprocess.run(
        [sys.executable, "-m", "pyright", "--pythonpath", installed.program("python"), "--outputjson", str(file)],
        cwd=file.parent, capture_output=True, text=True, check=False,
    )  # fmt: skip
    found = json.loads(done.stdout)
    assert found["summary"]["filesAnalyzed"] == 1
    return [(each["range"]["start"]["line"] + 1, each.get("rule", "")) for each in found["generalDiagnostics"]]


@pytest.mark.slow
def test_a_script_of_the_public_names_passes_the_type_checker(installed: Installed, tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "api.md").read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) > 1
    (tmp_path / "script.py").write_text("\n".join(blocks))
    assert complaints(installed, tmp_path / "script.py") == []
    # the control: an unknown name and a wrong type
    (tmp_path / "wrong.py").write_text(WRONG)
    assert complaints(installed, tmp_path / "wrong.py") == [
        (3, "reportAttributeAccessIssue"),
        (4, "reportArgumentType"),
    ]
