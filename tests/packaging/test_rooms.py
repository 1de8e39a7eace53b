"""What tools are told of the rooms is what the links in consilium/ say, and code names them by the package; public
names are documented; what an import brings with it. Wheel and source archive: one top-level package, all of it, and
nothing else. The wheelhouse: every file with its hash, nothing for GPUs, nothing to build, all of it or nothing."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import consilium
from tests.rooms import ROOMS, ROOT

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]


def test_every_room_has_its_layer() -> None:
    (layers,) = (each["layers"] for each in PROJECT["importlinter"]["contracts"] if each["type"] == "layers")
    assert {name for layer in layers for name in layer.split(" | ")} >= set(ROOMS)


def test_no_room_is_imported_by_its_bare_name() -> None:
    """In a checkout it would be the same module twice, under two names."""
    bare = re.compile(rf"(?m)^\s*(?:from|import) (?:{'|'.join(ROOMS)})\b")
    folders = [ROOT / folder for folder in (*ROOMS, "benchmarks", "tests", "tools")]
    paths = [path for folder in folders for path in folder.rglob("*.py")] + [*ROOT.glob("consilium/*.py")]
    found = {str(path.relative_to(ROOT)): bare.findall(path.read_text(encoding="utf-8")) for path in paths}
    assert {name: imports for name, imports in found.items() if imports} == {}


HEAVY = ("torch", "flwr", "sklearn", "polars", "matplotlib", "numpy", "pydantic", "typer")


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_every_public_name_is_there_and_documented() -> None:
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    for name in consilium.__all__:
        value = getattr(consilium, name)
        assert name in dir(consilium)
        assert value if name == "__version__" else value.__doc__, name
        assert f"`{name}" in page, name


def test_type_checkers_see_the_names_that_python_imports() -> None:
    tree = ast.parse((ROOT / "consilium" / "__init__.py").read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
    seen = {(node.module, each.name) for node in imports if node.module.startswith("consilium.") for each in node.names}
    imported = {(f"consilium.{module}", name) for module, names in consilium._MODULES.items() for name in names}
    assert seen == imported
    assert sorted(consilium.__all__) == sorted([*(name for _, name in seen), "__version__"])
    assert all(getattr(import_module(module), name) is getattr(consilium, name) for module, name in seen)


def test_an_import_brings_no_library_with_it() -> None:
    told = python(f"import sys, consilium; dir(consilium); print([name for name in {HEAVY} if name in sys.modules])")
    assert told == "[]"
    # the control: a name that is used does
    told = python(f"import sys, consilium; consilium.GNMax; print([name for name in {HEAVY} if name in sys.modules])")
    assert told == "['numpy']"


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"^module 'consilium' has no attribute 'load_scenarios'$"):
        consilium.load_scenarios  # noqa: B018 # pyright: ignore[reportAttributeAccessIssue]


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


@pytest.fixture(scope="module")
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


@pytest.fixture(scope="module")
def wheel(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the checkout."""
    return build(checkout, "wheel", tmp_path_factory.mktemp("wheel"))


DATA = {".j2", ".css", ".toml", ".npz", ".txt", ".proto", ".pyi"}


def tracked(checkout: Path) -> set[str]:
    """Files of the package in a checkout, by their names in a wheel."""
    rooms = [file for room in ROOMS for file in (checkout / room).rglob("*") if file.is_file()]
    own = [file for file in (checkout / "consilium").iterdir() if file.is_file()]
    names = {file.relative_to(checkout).as_posix() for file in (*rooms, *own)} - set(SECRETS)
    names = {name for name in names if "__pycache__" not in name}
    return {name if name.startswith("consilium/") else f"consilium/{name}" for name in names}


def test_the_wheel_holds_one_package_with_every_file_of_it(checkout: Path, wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        assert {name.split("/")[0] for name in archive.namelist() if ".dist-info/" not in name} == {"consilium"}
        assert {name for name in archive.namelist() if name.startswith("consilium/")} == tracked(checkout)
        for name in archive.namelist():
            assert PLANTED.encode() not in archive.read(name), name
    for name in (
        "py.typed",
        "simulations/datasets/stroke.npz",
        "simulations/scenarios/stroke.toml",
        "simulations/papers/near-zero.toml",
    ):
        assert f"consilium/{name}" in tracked(checkout)
    assert {Path(name).suffix for name in tracked(checkout)} == {*DATA, ".py", ".typed"}


def test_the_source_archive_builds_the_same_wheel(checkout: Path, wheel: Path, tmp_path: Path) -> None:
    archive = build(checkout, "sdist", tmp_path / "sdist")
    with tarfile.open(archive) as source:
        source.extractall(tmp_path / "source")
    (folder,) = (tmp_path / "source").iterdir()
    for file in folder.rglob("*"):
        assert file.is_dir() or PLANTED.encode() not in file.read_bytes(), file
    assert build(folder, "wheel", tmp_path / "wheel").read_bytes() == wheel.read_bytes()


@pytest.mark.parametrize("links", ["left out", "as text files"])
def test_a_checkout_without_links_is_a_package(checkout: Path, tmp_path: Path, links: str) -> None:
    """As a zip download has it, and as git makes one on Windows."""
    folder = tmp_path / "checkout"
    for name in sorted(file.relative_to(checkout).as_posix() for file in checkout.rglob("*.py")):
        if name.startswith(("consilium/", *(f"{room}/" for room in ROOMS))) and name.count("consilium/") < 2:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes((checkout / name).read_bytes())
    if links == "as text files":
        for room in ROOMS:
            (folder / "consilium" / room).write_text(f"../{room}")
    code = (
        f"import sys; sys.path.insert(0, {str(folder)!r})\n"
        "import json, consilium.cli\n"
        "print(json.dumps([module.__file__ for name, module in sys.modules.items() if name.startswith('consilium.')]))"
    )
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    files = [Path(file) for file in json.loads(done.stdout)]
    assert len(files) > 20
    assert [file for file in files if not file.is_relative_to(folder)] == []


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
