"""The generated gRPC modules are those of labels.proto."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


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
