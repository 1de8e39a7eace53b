"""The wheelhouse: every file with its hash, nothing for GPUs, nothing to build, all of it or nothing."""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
GOOD = (
    "consilium_pate-0.6.0-py3-none-any.whl",
    "torch-2.13.0+cpu-cp311-cp311-linux_x86_64.whl",
    "six-1.17-1-py2.py3-none-any.whl",
)


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    """The script, which is in no package."""
    spec = importlib.util.spec_from_file_location("wheelhouse", ROOT / "tools" / "wheelhouse.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Pip:
    """Puts these files where it is told to, and fails at the command with this number."""

    def __init__(self, *files: str, fails: int = 0) -> None:
        self.files, self.fails, self.commands = files, fails, []

    def __call__(self, command: Sequence[str]) -> int:
        self.commands.append(list(command))
        folder = Path(command[command.index("-w" if "-w" in command else "-d") + 1])
        for name in self.files:
            (folder / name).write_bytes(name.encode())
        return int(len(self.commands) == self.fails)


def test_every_wheel_has_its_hash(tool: ModuleType, tmp_path: Path) -> None:
    pip = Pip(*GOOD)
    made = tool.fill(tmp_path / "house", pip, python="3.12", platform="manylinux_2_28_x86_64")
    hashes = {name: hashlib.sha256(name.encode()).hexdigest() for name in GOOD}
    assert made.read_text().splitlines() == [
        f"consilium-pate==0.6.0 --hash=sha256:{hashes[GOOD[0]]}",
        f"six==1.17 --hash=sha256:{hashes[GOOD[2]]}",
        f"torch==2.13.0+cpu --hash=sha256:{hashes[GOOD[1]]}",
    ]
    build, torch, rest = pip.commands
    assert "wheel" in build and "download" in torch and torch[-1] == "torch" and rest[-1] == "consilium-pate"
    for command in (torch, rest):
        assert command[command.index("-c") + 1] == str(ROOT / "constraints.txt")
        assert {"3.12", "manylinux_2_28_x86_64", ":all:"} <= {*command}
    assert [tool.TORCH_INDEX in command for command in pip.commands] == [False, True, False]


BAD = {
    "a driver": ((*GOOD, "nvidia_cublas_cu12-12.1-py3-none-manylinux1_x86_64.whl"), 0, "is for GPUs"),
    "a source archive": ((*GOOD, "six-1.17.tar.gz"), 0, "is no wheel"),
    "no network": (GOOD, 2, "pip failed: download"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_a_node_could_not_install_leaves_nothing(tool: ModuleType, tmp_path: Path, case: str) -> None:
    files, fails, said = BAD[case]
    with pytest.raises(tool.WheelhouseError, match=said):
        tool.fill(tmp_path / "house", Pip(*files, fails=fails))
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_overwritten(tool: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "house").mkdir()
    with pytest.raises(SystemExit, match="house is already there"):
        tool.main(["--out", str(tmp_path / "house")])
