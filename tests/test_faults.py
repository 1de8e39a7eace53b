"""The faults of tools/faults.toml are faults of the code as it is; generated modules are those of labels.proto."""

from __future__ import annotations

import re
import subprocess
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


def test_generated_modules_are_up_to_date(tmp_path: Path) -> None:
    pytest.importorskip("grpc_tools", reason="grpcio-tools is not installed (extra `dev`)")
    subprocess.run(
        [
            sys.executable, "-m", "grpc_tools.protoc", f"-I{ROOT}", f"--python_out={tmp_path}",
            f"--pyi_out={tmp_path}", f"--grpc_python_out={tmp_path}", "consilium/protocol/labels/labels.proto",
        ],
        check=True,
    )  # fmt: skip
    for name in ("labels_pb2.py", "labels_pb2.pyi", "labels_pb2_grpc.py"):
        assert (tmp_path / "consilium/protocol/labels" / name).read_text() == (
            ROOT / "protocol/labels" / name
        ).read_text(), "run `make proto`"
