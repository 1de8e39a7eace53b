"""A checkout with secrets in it, what is built from that, and an interpreter that has nothing but the wheel."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path

import pytest

from tests.rooms import ROOMS, ROOT

SECRETS = (
    "runs/stroke-1/private/votes.json",
    "runs/stroke-1/manifest.json",
    "party/home/party.toml",
    "party/home/data.json",
    "party/node.key",
    "party/secret",
    "coordinator/ledger.json",
    "coordinator/server.pem",
    "protocol/roster.yaml",
    "party-a/keys/identity.json",
    "accounting/votes.jsonl",
    "student/public.npz",
    "consilium/secret.toml",
    "keys.toml",
)
PLANTED = "planted-secret"
FOREIGN = ("cli", *ROOMS)
"""Names that the rooms have in a checkout, and that anybody's own modules may have."""


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what git tracks, links as links, with secrets planted where a careless person leaves them."""
    target = tmp_path_factory.mktemp("checkout") / "consilium"
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    for name in listed.stdout.splitlines():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_symlink():
            (target / name).symlink_to(os.readlink(ROOT / name))
        elif (ROOT / name).is_file():
            shutil.copy(ROOT / name, target / name)
    for name in SECRETS:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (target / name).write_text(PLANTED)
    return target


def build(source: Path, kind: str, out: Path) -> Path:
    """The one file that hatchling makes of a source folder; kind: "wheel" or "sdist"."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(out)]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (made,) = out.iterdir()
    return made


@pytest.fixture(scope="session")
def wheel(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the checkout."""
    return build(checkout, "wheel", tmp_path_factory.mktemp("wheel"))


@dataclass(frozen=True)
class Installed:
    """An environment of its own. `folder` has bin/consilium, bin/python and Flower's programs."""

    folder: Path
    foreign: Path

    @property
    def variables(self) -> dict[str, str]:
        """The environment's variables: packages with the rooms' names come first on the path."""
        return {
            "PATH": f"{self.folder / 'bin'}:/usr/bin:/bin",
            "PYTHONPATH": str(self.foreign),
            "HOME": str(self.folder),
        }

    def program(self, name: str) -> str:
        """The path of one of its programs."""
        return str(self.folder / "bin" / name)

    def run(self, program: str, *arguments: str, cwd: Path, timeout: float = 800) -> subprocess.CompletedProcess[str]:
        """Run one of its programs to the end."""
        return subprocess.run(
            [self.program(program), *arguments],
            cwd=cwd, env=self.variables, capture_output=True, text=True, check=False, timeout=timeout,
        )  # fmt: skip


def make_environment(folder: Path, wheel: Path | None) -> Installed:
    """A fresh environment with the wheel; the libraries are those of this interpreter, so that nothing is fetched.

    Path files of this interpreter are not read by the new one, so what is installed here as editable is not seen there.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = folder / "bin" / "python"
    if wheel is not None:
        options = ["--quiet", "--no-deps", "--no-index", "--disable-pip-version-check", "--no-warn-script-location"]
        pip = [sys.executable, "-m", "pip", "--python", str(python)]
        subprocess.run([*pip, "install", *options, str(wheel)], check=True)
    (site,) = (folder / "lib").glob("python*/site-packages")
    (site / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")
    for entry in distribution("flwr").entry_points:
        if entry.group == "console_scripts":
            program = folder / "bin" / entry.name
            program.write_text(
                f"#!{python}\nimport sys\nfrom {entry.module} import {entry.attr}\nsys.exit({entry.attr}())\n"
            )
            program.chmod(0o755)
    foreign = folder / "foreign"
    for name in FOREIGN:
        (foreign / name).mkdir(parents=True)
        (foreign / name / "__init__.py").write_text(f"raise RuntimeError('somebody else owns {name}')\n")
    return Installed(folder, foreign)


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The wheel, beside packages that own the names of the rooms."""
    return make_environment(tmp_path_factory.mktemp("installed") / "environment", wheel)


@pytest.fixture
def hostile_folder(tmp_path: Path) -> Path:
    """A working folder with modules of the user's own; all of them fail when they are imported."""
    for name in (*FOREIGN, "numpy", "flwr", "polars"):
        (tmp_path / f"{name}.py").write_text(f"raise RuntimeError('{name} of the working folder')\n")
    return tmp_path
