"""The faults of tools/faults.toml are faults of the code as it is: `make nightly` injects them."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))
from faults import Fault, faults  # noqa: E402


@pytest.mark.parametrize("fault", faults(), ids=lambda fault: fault.fault)
def test_each_changes_one_place_and_stands_in_the_table(fault: Fault) -> None:
    assert fault.faulty != (ROOT / fault.file).read_text(encoding="utf-8")
    line = re.compile(rf"^\| {re.escape(fault.rule)} \| {re.escape(fault.fault)} \| `\S+` \|$", re.MULTILINE)
    assert line.search((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
